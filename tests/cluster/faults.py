"""Kills, stops and cuts off ranks by a schedule: who, when, how. Every job must end, and the one that goes on
must learn bit for bit what an undisturbed one learns. ./bootstrap cluster runs some, by hand a quarter of an hour:

usage: faults.py OMNI_RUN [CASES [KINDS]]    prints a table; the first CASES of the schedule (1000: all), of the
                                             KINDS kill, stop, cut with commas between; cut only as root
"""

import collections
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

from hosts import Hosts

NET = """[net]
batch=24
width=12
height=12
channels=3
learning_rate=0.01
momentum=0.9
[convolutional]
filters=8
size=3
pad=1
batch_normalize=1
activation=leaky
[maxpool]
size=2
[connected]
output=10
[softmax]
"""
ITERATIONS, PER_EPOCH, SAVE_EVERY, PATIENCE = 120, 25, 20, 4
HANGS = 90  # seconds after which a job is said to hang
PHASES = ("launch", "start", "training", "saving", "evaluation", "stopping", "end", "resuming")
KINDS = ("kill", "stop", "cut")


def schedule():
    """(ranks, phase, kind, who); during the launch, when no rank watches the others yet, only kills."""
    every = [(ranks, phase, kind) for ranks in (2, 3, 4) for phase in PHASES for kind in KINDS
             if phase != "launch" or kind == "kill"]
    random.shuffle(every)
    return [(*each, number % each[0]) for number, each in enumerate(every)]


class Job:
    def __init__(self, program, folder, ranks, hosts=None):
        self.out, self.folder = os.path.join(folder, "run"), folder
        self.metrics, self.errors = os.path.join(folder, "metrics"), os.path.join(folder, "errors")
        self.weights = os.path.join(folder, "weights")
        mpiexec = next(filter(shutil.which, ("mpiexec.mpich", "mpiexec.hydra", "mpiexec")))
        launcher = hosts.mpiexec(mpiexec) if hosts else [mpiexec, "-iface", "lo", "-n", str(ranks)]
        self.command = [*launcher, program, "--net", os.path.join(folder, "..", "net.cfg"), "--data",
                        f"synthetic:{24 * PER_EPOCH}:10", "--deterministic", "--slice", "2", "--workers", "1", "--gpus", "none",
                        "--display", "1", "--out", self.out, "--resume", "auto", "--checkpoint-every",
                        str(SAVE_EVERY), "--metrics", self.metrics, "--patience", str(PATIENCE),
                        "--max-batches", str(ITERATIONS), "--save-weights", self.weights]
        self.environment = {**os.environ, "STARPU_HOME": os.path.join(folder, ".."), "STARPU_WORKERS_NOBIND": "1",
                            **(Hosts.environment if hosts else {})}
        self.process = None

    def start(self):
        with open(self.errors, "w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(self.command, env=self.environment, stdin=subprocess.DEVNULL,
                                            stdout=subprocess.DEVNULL, stderr=errors)

    def said(self):
        with open(self.errors, encoding="utf-8", errors="replace") as file:
            return file.read()

    def iteration(self):
        with contextlib.suppress(OSError), open(self.metrics, encoding="utf-8") as file:
            lines = file.read().splitlines()
            for line in reversed(lines):
                with contextlib.suppress(ValueError):
                    return json.loads(line)["iteration"]
        return 0

    def ranks(self, kept=False):
        """{rank: process}; kept: of the processes that a keeper has started"""
        found = {}
        for each in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open(f"/proc/{each}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
                with open(f"/proc/{each}/environ", "rb") as file:
                    variables = file.read().split(b"\0")
                is_kept = any(one.startswith(b"OMNI_KEPT=") for one in variables)
                if b"omni-run" in os.path.basename(words[0]) and self.out.encode() in words and is_kept == kept:
                    found.update({int(one[9:]): int(each) for one in variables if one.startswith(b"PMI_RANK=")})
        return found

    def wait(self, condition):
        """False: the job ended before."""
        end = time.monotonic() + HANGS
        while not condition():
            if self.process.poll() is not None:
                return False
            assert time.monotonic() < end, f"hangs: {self.said()[-2000:]}"
            time.sleep(0.001)
        return True

    def saves(self):
        """Waits until a checkpoint is being written. False: the job ended before."""
        hidden = lambda: any(name.startswith(".") for name in os.listdir(self.out)) if os.path.isdir(self.out) else False
        return self.wait(lambda: self.iteration() >= SAVE_EVERY - 1) and self.wait(hidden)

    def finish(self):
        self.start()
        self.wait(lambda: False)
        assert self.process.returncode == 0, self.said()[-2000:]
        with open(self.weights, "rb") as file:
            return file.read()


def reach(job, phase):
    """Starts the job and waits until it is in this phase. False: it ended before."""
    if phase == "resuming":
        job.start()
        if not job.wait(lambda: job.iteration() >= SAVE_EVERY + 5):
            return False
        job.process.send_signal(signal.SIGTERM)
        job.wait(lambda: False)
        assert job.process.returncode in (0, 75), job.said()[-2000:]
    job.start()
    if phase == "launch":
        time.sleep(random.uniform(0.02, 0.4))
        return job.wait(job.ranks)
    if phase == "resuming":
        return job.wait(lambda: "resumed" in job.said())
    if phase == "start":
        return job.wait(lambda: "data: " in job.said())
    if phase == "saving":
        return job.saves()
    wanted = {"training": random.randrange(1, ITERATIONS - 20), "evaluation": PER_EPOCH * random.randrange(1, 4),
              "stopping": random.randrange(5, ITERATIONS - 20), "end": ITERATIONS}[phase]
    there = job.wait(lambda: job.iteration() >= wanted)
    if phase == "stopping" and there:
        job.process.send_signal(signal.SIGTERM)
        time.sleep(random.uniform(0, 0.05))
    return there


def strike(job, kind, who, hosts):
    """False: the rank was gone before."""
    if kind == "cut":
        hosts.cut(who)
        return True
    with contextlib.suppress(KeyError, ProcessLookupError):
        os.kill(job.ranks()[who], signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
        return True
    return False


def try_case(program, top, references, case):
    """(seconds until no rank was left, exit code, first error)"""
    ranks, phase, kind, who = case
    with tempfile.TemporaryDirectory(dir=top) as folder, contextlib.ExitStack() as stack:
        hosts = stack.enter_context(Hosts(ranks, folder)) if kind == "cut" else None
        job = Job(program, folder, ranks, hosts)
        struck = reach(job, phase) and strike(job, kind, who, hosts)
        began = time.monotonic()
        # mpiexec itself waits for a host that is cut off.
        while job.ranks() or kind != "cut" and job.process.poll() is None:
            assert time.monotonic() < began + HANGS, f"{case} hangs: {job.said()[-2000:]}"
            time.sleep(0.02)
        seconds = time.monotonic() - began
        if kind == "cut":
            hosts.cut(who, again=True)
        code = job.process.wait(HANGS)
        early = code in (0, 75) and (phase in ("end", "stopping") or not struck)
        assert early or struck and code not in (0, 75), f"{case} ended with {code}: {job.said()[-2000:]}"
        error = next((line for line in job.said().splitlines() if line.startswith("error: ")), "")
        again = Job(program, folder, ranks)
        assert again.finish() == references[ranks], f"{case}: other weights"
        assert "warning: " not in again.said(), again.said()[-2000:]
        with open(again.metrics, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        steps = [line["iteration"] for line in lines if "loss" in line]
        assert steps == list(range(1, ITERATIONS + 1)), f"{case}: iterations {steps}"
        return seconds, "too late" if code in (0, 75) else code, error


def main(program, most="1000", kinds="kill,stop,cut"):
    random.seed(35)
    possible = KINDS if os.geteuid() == 0 and shutil.which("ip") else KINDS[:2]
    cases = [case for case in schedule() if case[2] in kinds.split(",") and case[2] in possible][:int(most)]
    results = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as top:
        with open(os.path.join(top, "net.cfg"), "w", encoding="ascii") as file:
            file.write(NET)
        references = {}
        for ranks in (2, 3, 4):
            with tempfile.TemporaryDirectory(dir=top) as folder:
                references[ranks] = Job(program, folder, ranks).finish()
        for number, case in enumerate(cases, 1):
            seconds, code, error = try_case(program, top, references, case)
            results[case[1:3]].append((seconds, code))
            print(f"{number}: {case[0]} ranks, {case[1]}: {case[2]} rank {case[3]}: {code} after {seconds:.1f} s {error}",
                  file=sys.stderr, flush=True)
    print("| phase | fault | jobs | exit codes | longest end, s |\n|---|---|---|---|---|")
    for (phase, kind), told in sorted(results.items(), key=lambda each: (KINDS.index(each[0][1]), PHASES.index(each[0][0]))):
        codes = ", ".join(sorted({str(code) for _, code in told}))
        print(f"| {phase} | {kind} | {len(told)} | {codes} | {max(seconds for seconds, _ in told):.1f} |")
    print(f"{sum(map(len, results.values()))} faults: no hang, and every job that went on has the weights of an undisturbed one")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(os.path.abspath(sys.argv[1]), *sys.argv[2:4])
