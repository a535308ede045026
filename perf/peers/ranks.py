"""Measures Omnivore over several ranks, and in one process. Both train, since only trainings run over ranks: a
block has the times between lines of the metrics."""

import json
import os
import shutil
import tempfile

from omnivore import Omnivore
from processes import Refused, checked

LINES_WANTED = 20
MODES = ("nchw-eager", "nhwc-eager")  # of PyTorch's DistributedDataParallel
SETTLING = 40  # iterations that choose implementations of the tasks that only trainings have


def find_mpiexec():
    for name in ("mpiexec.mpich", "mpiexec.hydra", "mpiexec"):
        if shutil.which(name):
            return name
    raise Refused("--ranks: no mpiexec in PATH: apt-get install mpich")


def check(ranks, batch, threads, device, peers):
    """Refuses what several ranks cannot share, or what is not measured over ranks."""
    for name, count in (("--batch", batch), ("--threads", threads)):
        if count % ranks != 0:
            raise Refused(f"{name} {count}: {ranks} ranks cannot share it evenly (take a multiple of {ranks})")
    if device != "cpu":
        raise Refused("--ranks are compared on CPUs only: leave out --device")
    for peer in peers or []:
        if peer not in ("pytorch", "none"):
            raise Refused(f"--peer {peer} does not train over several processes: leave it out")


class Training(Omnivore):
    def __init__(self, omnivore, ranks, batch, threads):
        vars(self).update(vars(omnivore))
        self.name = f"omnivore {ranks} rank{'s' if ranks > 1 else ''}"
        self.ranks, self.batch = ranks, batch
        self.workers = threads // ranks
        self.launcher = [find_mpiexec(), "-iface", "lo", "-n", ranks] if ranks > 1 else []

    def calibrate(self, facts, say):
        """Calibrates the models for a rank's share of the mini-batch, then those of tasks that only trainings have."""
        whole, share = self.net_arguments, self.batch // self.ranks
        self.net_arguments = [share if each == self.batch else each for each in whole]
        super().calibrate({**facts, "batch": share, "slices": [min(share, facts["slices"][0])]}, say)
        self.net_arguments = whole
        seconds = sorted(self.measure(SETTLING, LINES_WANTED)["seconds"])
        return seconds[len(seconds) // 2]

    def measure(self, warm_up, iterations):
        stride = max(1, iterations // LINES_WANTED)
        first, count = -(warm_up // -stride), -(iterations // -stride)
        with tempfile.TemporaryDirectory(prefix="omnivore-ranks-") as folder:
            metrics = os.path.join(folder, "metrics")
            finished = checked([*self.launcher, self.program, "-q", *self.net_arguments, *self.device_arguments,
                                "--workers", self.workers, "--models", self.models, "--no-test", "--metrics",
                                metrics, "--display", stride, "--max-batches", (first + count) * stride])
            with open(metrics, encoding="utf-8") as file:
                lines = [json.loads(line) for line in file]
        at = {line["iteration"]: line["time"] for line in lines if "loss" in line}
        times = [at[number * stride] for number in range(first, first + count + 1)]
        return {"seconds": [(after - before) / stride for before, after in zip(times, times[1:])],
                "peak_memory_bytes": finished.peak_memory, "others": finished.others, "implementations": {}}
