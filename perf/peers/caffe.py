"""Measures Caffe: `caffe train` runs the model that the user gives, with a solver that is written here. The
seconds are those between the times at which it logs iterations."""

import itertools
import os
import re
import shutil

from processes import Failed, Refused, checked, run

# Older versions log no seconds per iteration, so the times of the lines are taken.
LINE = re.compile(r"^I\d+ (\d+):(\d+):([\d.]+) .*\] Iteration (\d+).*, loss = ", re.MULTILINE)
BATCH = re.compile(r"\bbatch_size\s*:\s*(\d+)|\bdim\s*:\s*(\d+)")


def find_caffe(named, model, batch):
    """Returns the program and its version."""
    if not named or not model:
        raise Refused("Caffe needs a binary and its own net: --caffe PATH and --caffe-model FILE.prototxt "
                      "(Debian 11 has it: `apt-get install caffe-cpu`, then --caffe caffe; Debian 12 has none)")
    if shutil.which(named) is None:
        raise Refused(f"no caffe at '{named}'")
    if not os.path.isfile(model):
        raise Refused(f"--caffe-model {model}: no such file")
    with open(model, encoding="utf-8") as file:
        sizes = [int(a or b) for a, b in BATCH.findall(file.read())]
    if not sizes or sizes[0] != batch:
        raise Refused(f"--caffe-model {model}: its first batch_size or dim is "
                      f"{sizes[0] if sizes else 'missing'}, the others train {batch} images at once")
    told = run([named, "--version"])
    lines = (told.output or told.errors).strip().splitlines()
    return named, lines[0] if lines else "unknown"


class Caffe:
    name = "caffe"

    def __init__(self, program, net, model, threads, rate, folder):
        self.program, self.folder = program, folder
        self.environment = {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads),
                            "MKL_NUM_THREADS": str(threads), "GLOG_logtostderr": "1"}
        options = net.options
        self.solver = (f'net: "{os.path.abspath(model)}"\nbase_lr: {rate}\n'
                       f'momentum: {options.real("momentum", 0.9)}\n'
                       f'weight_decay: {options.real("decay", 0.0001)}\nlr_policy: "fixed"\ndisplay: 1\n'
                       "snapshot_after_train: false\ntest_initialization: false\nsolver_mode: CPU\n")

    def measure(self, warm_up, iterations):
        path = os.path.join(self.folder, "solver.prototxt")
        most = warm_up + iterations + 1  # the first line of the log has no whole iteration behind it
        with open(path, "w", encoding="ascii") as file:
            file.write(self.solver + f"max_iter: {most}\n")
        finished = checked([self.program, "train", f"--solver={path}"], self.environment)
        times = [3600 * int(hours) + 60 * int(minutes) + float(seconds)
                 for hours, minutes, seconds, iteration in LINE.findall(finished.errors)
                 if int(iteration) < most]  # the last line follows a forward pass alone
        seconds = [(after - before) % 86400 for before, after in itertools.pairwise(times)][-iterations:]
        if len(seconds) < iterations:
            raise Failed(f"caffe logged {len(seconds)} whole iterations of {iterations}")
        return {"seconds": seconds, "peak_memory_bytes": finished.peak_memory, "others": finished.others}
