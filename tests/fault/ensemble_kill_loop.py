"""Kills an ensemble again and again at random times and goes on: its members learn bit for bit what they learn alone.

usage: ensemble_kill_loop.py OMNI_RUN [KILLS]      by hand: python3 tests/fault/ensemble_kill_loop.py build/bin/omni-run 100

Three members share their samples: two seeds, and one with other mini-batches. After the last kill they train to an end, and
each is compared with the same training alone, and with a member that prepares its own samples.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time

from kill_loop import NET, memory_folder, wait_until

MEMBERS = {"net-1": ["--seed", "1"], "net-2": ["--seed", "2"], "other": ["--seed", "3", "--batch", "16"]}


class Runs:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.environment = os.environ | {"STARPU_HOME": folder, "STARPU_WORKERS_NOBIND": "1"}
        self.net = self.path("net.cfg")
        with open(self.net, "w") as file:
            file.write(NET)
        with open(self.path("members"), "w") as file:
            file.writelines(f"--net {self.net} {' '.join(words)} --name {name}\n" for name, words in MEMBERS.items())

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def start(self, words, iterations):
        command = [self.program, *words, "-q", "--data", "synthetic:512", "--data-seed", "1", "--no-test", "--deterministic",
                   "--workers", "1", "--gpus", "none", "--max-batches", str(iterations)]
        return subprocess.Popen(command, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def ensemble(self, out, iterations, *more):
        return self.start(["ensemble", "--members", self.path("members"), "--out", self.path(out), "--resume", "auto",
                           "--checkpoint-every", "3", *more], iterations)

    def finish(self, process):
        errors = process.communicate()[1]
        assert process.returncode == 0, errors

    def newest(self, member):
        """(number, iteration) of the newest checkpoint."""
        out = self.path("killed", member)
        names = os.listdir(out) if os.path.isdir(out) else []
        found = [name.split("-") for name in names if name.startswith("save-")]
        return max(((int(parts[1]), int(parts[3])) for parts in found), default=(0, 0))

    def kill_once(self):
        member = random.choice(list(MEMBERS))
        before = self.newest(member)[0]
        process = self.ensemble("killed", 1_000_000)
        if random.random() < 0.25:  # wherever it is, also before it trains
            time.sleep(random.uniform(0, 0.5))
        else:
            wait_until(lambda: self.newest(member)[0] > before + random.randrange(3), process)
            time.sleep(random.uniform(0, 0.03))
        process.send_signal(signal.SIGKILL)
        errors = process.communicate()[1]
        assert process.returncode == -signal.SIGKILL, errors
        assert "warning" not in errors, errors  # no checkpoint was passed over

    def weights(self, *names):
        with open(self.path(*names), "rb") as file:
            return file.read()


def main(program, kills=20):
    random.seed(1)
    with tempfile.TemporaryDirectory(dir=memory_folder()) as folder:
        runs, started = Runs(program, folder), time.monotonic()
        runs.finish(runs.ensemble("first", 1))  # StarPU measures the machine in its first start
        for _ in range(kills):
            before = {member: runs.newest(member)[1] for member in MEMBERS}
            runs.kill_once()
            assert all(runs.newest(member)[1] >= before[member] for member in MEMBERS), "a checkpoint is lost"
        end = 20 + max(runs.newest(member)[1] for member in MEMBERS)
        runs.finish(runs.ensemble("killed", end))
        runs.finish(runs.ensemble("off", end, "--share", "off"))
        for member, words in MEMBERS.items():
            runs.finish(runs.start(["--net", runs.net, *words, "--save-weights", runs.path("alone")], end))
            alone = runs.weights("alone")
            for out in ("killed", "off"):
                assert runs.weights(out, member, "net.weights") == alone, f"{member} of {out} differs"
        print(f"{kills} kills, {end} iterations, {time.monotonic() - started:.0f} s: the same bits as alone")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:3]))
