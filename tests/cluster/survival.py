"""Kills, stops and cuts off ranks of trainings with --survive by a schedule: who, when, how. Every training must go on,
have each iteration once, and end within half a point of an undisturbed one; with async it must have the same bits.
A rank that was lost with its keeper is started again, and must be used.

usage: survival.py OMNI_RUN [CASES [KINDS]]    prints a table; the first CASES of the schedule (1000: all), of the
                                               KINDS kill, stop, crash, freeze, cut with commas between; cut needs root
"""

import collections
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

from faults import ITERATIONS, NET as NORMALISED, PATIENCE, PER_EPOCH, SAVE_EVERY, Job
from hosts import Hosts

NET = NORMALISED.replace("batch_normalize=1\n", "")
HANGS = 120
PHASES = ("start", "training", "saving", "evaluation", "resuming")
# kill and stop: the process that trains. crash and freeze: its keeper, too, as of a host that is lost or stands still.
KINDS = ("kill", "stop", "crash", "freeze", "cut")
STRATEGIES = ("async", "sma", "local")


def schedule():
    """(ranks, phase, kind, strategy, who)"""
    every = [(ranks, phase, kind) for ranks in (2, 3, 4) for phase in PHASES for kind in KINDS]
    random.shuffle(every)
    # The first rank leads, and holds the lock while it stands still.
    return [(*each, STRATEGIES[number % 3], number % each[0] if each[2] != "freeze" else 1 + number % (each[0] - 1))
            for number, each in enumerate(every)]


class Survivor(Job):
    def __init__(self, program, folder, ranks, strategy, hosts=None):
        super().__init__(program, folder, ranks, hosts)
        at = self.command.index(program)
        more = ["--groups", "4", "--strategy", strategy, "--test-every", str(PER_EPOCH)]
        self.words = [*self.command[at:], *more, "--survive"]
        # Otherwise mpiexec kills all ranks of a host if one process there is killed.
        alone = [] if hosts else ["-launcher", "fork", "-hosts", ",".join(f"h{n}" for n in range(ranks)), "-ppn", "1"]
        self.command = [*self.command[:at], *self.words]
        place = self.command.index("-iface")
        self.command[place:place] = ["-disable-auto-cleanup", *alone]

    def ranks(self, kept=True):
        return super().ranks(kept)

    def accuracy(self):
        with open(self.metrics, encoding="utf-8") as file:
            tests = [json.loads(line) for line in file]
        return [line["test_accuracy"] for line in tests if "test_accuracy" in line][-1]


def reach(job, phase):
    """Starts the job and waits until it is in this phase. False: it ended before."""
    job.start()
    if phase == "start":
        return job.wait(lambda: "data: " in job.said())
    if phase == "saving":
        return job.saves()
    if phase == "resuming":  # after another loss
        there = job.wait(lambda: job.iteration() >= SAVE_EVERY + 5)
        with contextlib.suppress(KeyError, ProcessLookupError):
            os.kill(job.ranks()[0], signal.SIGKILL)
        return there and job.wait(lambda: "resumed" in job.said())
    wanted = {"training": random.randrange(1, ITERATIONS - 30), "evaluation": PER_EPOCH * random.randrange(1, 4)}[phase]
    return job.wait(lambda: job.iteration() >= wanted)


def strike(job, kind, who, hosts):
    """False: the rank was gone before."""
    if kind == "cut":
        hosts.cut(who)
        return True
    number = signal.SIGKILL if kind in ("kill", "crash") else signal.SIGSTOP
    with contextlib.suppress(KeyError, ProcessLookupError):
        trains, keeper = job.ranks()[who], job.ranks(kept=False)[who]
        if kind in ("crash", "freeze"):
            os.kill(keeper, number)
        if kind != "crash":  # the kernel kills it with its keeper
            os.kill(trains, number)
        return True
    return False


def try_case(program, top, references, case):
    """(seconds until it went on, what was lost, points of difference)"""
    ranks, phase, kind, strategy, who = case
    with tempfile.TemporaryDirectory(dir=top) as folder, contextlib.ExitStack() as stack:
        hosts = stack.enter_context(Hosts(ranks, folder)) if kind == "cut" else None
        job = Survivor(program, folder, ranks, strategy, hosts)
        if not (reach(job, phase) and strike(job, kind, who, hosts)):
            job.process.wait(HANGS)
            return None
        began, starts = time.monotonic(), job.said().count(" instead of ")
        # A rank that stood still or was cut off comes back; one that was lost is started again.
        assert job.wait(lambda: job.said().count(" instead of ") > starts), f"{case}: {job.said()[-3000:]}"
        before = job.iteration()
        went_on = job.wait(lambda: job.iteration() > before)
        seconds = time.monotonic() - began
        returned = None
        if kind == "cut":
            hosts.cut(who, again=True)
        elif kind == "freeze":
            os.kill(job.ranks(kept=False)[who], signal.SIGCONT)
        elif kind == "crash" and went_on:
            left = job.ranks().values()  # they are not to end before the lost one returns
            for each in left:
                os.kill(each, signal.SIGSTOP)
            returned = subprocess.Popen(job.words, env=job.environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            job.wait(lambda: "then another process is taken in" in job.said())
            for each in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGCONT)
        code = job.process.wait(HANGS)
        said = job.said()
        with open(os.path.join(job.out, "leader"), encoding="utf-8") as file:
            assert file.read().split()[0::2] == ["ended", "0"], f"{case}: {said[-3000:]}"
        assert code == 0 or kind == "crash", f"{case} ended with {code}: {said[-3000:]}"
        if returned:
            assert returned.wait(HANGS) == 0, case
            assert f"{ranks} ranks instead of {ranks - 1}" in said, f"{case}: {said[-3000:]}"
        with open(job.metrics, encoding="utf-8") as file:
            steps = [line["iteration"] for line in map(json.loads, file) if "loss" in line]
        assert steps == list(range(1, ITERATIONS + 1)), f"{case}: iterations {steps}"
        weights, accuracy = references[strategy]
        with open(job.weights, "rb") as file:
            assert strategy != "async" or file.read() == weights, f"{case}: other weights"
        points = 100 * abs(job.accuracy() - accuracy)
        assert points <= 0.5, f"{case}: {points} points"
        lost = [int(last) - int(first) + 1 for first, last in re.findall(r"iterations (\d+) to (\d+) are lost", said)]
        return seconds, max(lost, default=0), points


def main(program, most="1000", kinds=",".join(KINDS)):
    random.seed(54)
    possible = KINDS if os.geteuid() == 0 and shutil.which("ip") else KINDS[:4]
    cases = [case for case in schedule() if case[2] in kinds.split(",") and case[2] in possible][:int(most)]
    results, late = collections.defaultdict(list), 0
    with tempfile.TemporaryDirectory() as top:
        with open(os.path.join(top, "net.cfg"), "w", encoding="ascii") as file:
            file.write(NET)
        references = {}
        for strategy in STRATEGIES:
            with tempfile.TemporaryDirectory(dir=top) as folder:
                one = Survivor(program, folder, 1, strategy)
                references[strategy] = one.finish(), one.accuracy()
        for number, case in enumerate(cases, 1):
            told = try_case(program, top, references, case)
            what = "too late" if told is None else f"went on after {told[0]:.1f} s, {told[1]} iterations lost, {told[2]:.1f} points"
            print(f"{number}: {case[0]} ranks, {case[3]}, {case[1]}: {case[2]} rank {case[4]}: {what}", file=sys.stderr, flush=True)
            if told:
                results[case[1:3]].append(told)
            else:
                late += 1
    print("| phase | fault | trainings | longest until it went on, s | most iterations lost | most points |\n|---|---|---|---|---|---|")
    for (phase, kind), told in sorted(results.items(), key=lambda each: (KINDS.index(each[0][1]), PHASES.index(each[0][0]))):
        print(f"| {phase} | {kind} | {len(told)} | " + " | ".join(f"{max(column):.1f}" for column in zip(*told)) + " |")
    print(f"{sum(map(len, results.values()))} faults, {late} too late; patience {PATIENCE} s: every training went on, with each iteration once")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(os.path.abspath(sys.argv[1]), *sys.argv[2:4])
