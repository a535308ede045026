"""Kills a training again and again at random times and goes on: it learns bit for bit what it learns undisturbed.

usage: kill_loop.py OMNI_RUN [KILLS]      by hand: python3 tests/fault/kill_loop.py build/bin/omni-run 200

Half of the kills wait for a save to begin. After the last one the training ends, and is compared with one that
nothing disturbed: the loss of every iteration, none of which may lack or be there twice, and the weights.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

NET = """[net]
batch=8
width=12
height=12
channels=1
learning_rate=0.01
momentum=0.9
policy=constant
max_batches=0
[connected]
output=2048
activation=relu
[connected]
output=10
activation=linear
[softmax]
"""
SAVE_EVERY = 3
LEAST_INSIDE = 0.5  # of the kills


def memory_folder():
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Training:
    def __init__(self, program, folder, name):
        self.folder = folder
        self.out = os.path.join(folder, name)
        self.metrics = self.out + ".jsonl"
        self.weights = self.out + ".weights"
        self.command = [program, "-q", "--net", os.path.join(folder, "net.cfg"), "--data", "synthetic:512",
                        "--no-test", "--deterministic", "--workers", "1", "--gpus", "none", "--display", "1",
                        "--out", self.out, "--resume", "auto", "--checkpoint-every", str(SAVE_EVERY),
                        "--metrics", self.metrics]
        self.environment = os.environ | {"STARPU_HOME": folder, "STARPU_WORKERS_NOBIND": "1"}

    def start(self, *more):
        return subprocess.Popen(self.command + list(more), env=self.environment, stderr=subprocess.PIPE, text=True)

    def hidden(self):
        names = os.listdir(self.out) if os.path.isdir(self.out) else []
        return [name for name in names if name.startswith(".")]

    def newest(self):
        """(number, step) of the newest checkpoint."""
        names = os.listdir(self.out) if os.path.isdir(self.out) else []
        found = [name.split("-") for name in names if name.startswith("save-")]
        return max(((int(parts[1]), int(parts[3])) for parts in found), default=(0, 0))

    def finish(self, iterations):
        process = self.start("--max-batches", str(iterations), "--save-weights", self.weights)
        errors = process.communicate()[1]
        assert process.returncode == 0, errors

    def lines(self):
        """(iteration, loss, average loss) of every line, as they were written."""
        with open(self.metrics) as file:
            lines = [json.loads(line) for line in file]
        return [(line["iteration"], line["loss"], line["loss_average"]) for line in lines]


def wait_until(condition, process):
    end = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end, "the training hangs"


def kill_once(training, inside):
    """Whether the kill came inside a save."""
    before = training.newest()[0]
    process = training.start("--max-batches", "1000000")
    if inside:
        # Behind the first save: with it, the next one begins from a training under way.
        wait_until(lambda: training.newest()[0] > before + random.randrange(1, 4), process)
        wait_until(training.hidden, process)
        time.sleep(random.uniform(0, 0.001))
    elif random.random() < 0.5:  # wherever it is, also before it trains
        time.sleep(random.uniform(0, 0.5))
    else:
        wait_until(lambda: training.newest()[0] > before, process)
        time.sleep(random.uniform(0, 0.03))
    process.send_signal(signal.SIGKILL)
    errors = process.communicate()[1]
    assert process.returncode == -signal.SIGKILL, errors
    assert "warning" not in errors, errors  # no checkpoint was passed over
    return bool(training.hidden())


def main(program, kills=20):
    random.seed(1)
    with tempfile.TemporaryDirectory(dir=memory_folder()) as folder:
        with open(os.path.join(folder, "net.cfg"), "w") as file:
            file.write(NET)
        killed, straight = (Training(program, folder, name) for name in ("killed", "straight"))
        Training(program, folder, "first").finish(1)  # StarPU measures the machine in its first start
        inside, done, started = 0, 0, time.monotonic()
        while done < kills or inside < LEAST_INSIDE * kills:
            assert done < 10 * kills, f"only {inside} of {done} kills came inside a save"
            step = killed.newest()[1]
            inside += kill_once(killed, inside < LEAST_INSIDE * kills)
            done += 1
            assert killed.newest()[1] >= step, "a checkpoint is lost"
        end = killed.newest()[1] + 20
        killed.finish(end)
        straight.finish(end)
        assert [line[0] for line in killed.lines()] == list(range(1, end + 1)), "an iteration lacks, or is there twice"
        assert killed.lines() == straight.lines(), "the losses differ"
        with open(killed.weights, "rb") as one, open(straight.weights, "rb") as other:
            assert one.read() == other.read(), "the weights differ"
        print(f"{done} kills, {inside} inside a save, {end} iterations, {time.monotonic() - started:.0f} s: "
              "the same bits as undisturbed")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:3]))
