"""Runs programs within a budget of seconds and keeps what they print. Each gets its usual time at most, and no more than
what is left. One that fails runs again, so that its error names what is at fault."""

import contextlib
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

NOT_OF_A_GPU = (2, 3, 77)  # exit codes that no second run explains: usage, data, no GPU
FEWEST_SECONDS = 5


def say(words):
    print(f"gpu-report: {words}", file=sys.stderr, flush=True)


def now():
    """Returns seconds of a clock. Tests have a clock of their own, in a file."""
    if "OMNI_REPORT_CLOCK" not in os.environ:
        return time.monotonic()
    with open(os.environ["OMNI_REPORT_CLOCK"], encoding="utf-8") as file:
        return float(file.read())


def contents(path):
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
    return ""


def failed_tests(log):
    return list(dict.fromkeys(re.findall(r"^\[  FAILED  \] ([^\s,]+\.[^\s,]+)", log, re.MULTILINE)))


def unfinished_tests(log):
    begun = re.findall(r"^\[ RUN      \] ([^\s,]+)", log, re.MULTILINE)
    ended = re.findall(r"^\[ +(?:OK|SKIPPED|FAILED) +\] ([^\s,]+)", log, re.MULTILINE)
    return [each for each in begun if each not in ended]


class Runs:
    """Runs has what ran so far, in a folder. write() is called after every change."""

    def __init__(self, programs, out, budget, limit):
        self.bin, self.out, self.budget, self.limit = os.path.abspath(programs), out, budget, limit
        self.ends = math.inf if budget is None else now() + budget
        self.sanitizer_program = (shutil.which("compute-sanitizer") or
                                  shutil.which("/usr/local/cuda/bin/compute-sanitizer"))
        self.steps = []  # [name, how it ended]
        self.notes = []  # what was found
        self.running = []

    def program(self, name):
        return os.path.join(self.bin, name)

    def path(self, name):
        return os.path.join(self.out, name)

    def left(self):
        """Returns the seconds that are left for programs: packing takes some, too."""
        return self.ends - now() - min(15, 0.03 * (self.budget or 0))

    def begin(self, name, command, most=math.inf, results=None, environment=None):
        """Starts a process. Returns it, its start, and its limit in seconds; None: no time is left, or it did not start."""
        limit = min(self.limit, self.left(), most if self.budget else math.inf)
        if self.left() < FEWEST_SECONDS:
            self.ended(name, "no time left")
            return None
        command = [str(each) for each in command]
        with open(self.path(f"{name}.log"), "w", encoding="utf-8") as file:
            file.write(" ".join([*(f"{key}={value}" for key, value in (environment or {}).items()),
                                 shlex.join(command)]) + "\n")
            file.flush()
            try:
                self.running.append(subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=results or file, stderr=file,
                    env={**os.environ, **(environment or {})}, start_new_session=True))
                return self.running[-1], now(), limit
            except OSError as problem:
                self.ended(name, f"could not be started: {problem.strerror}")
        return None

    def wait(self, name, begun):
        """Waits until a process ends, at most to its limit. Returns its exit code; None: it was ended. Ends all that it
        started."""
        process, since, limit = begun
        while process.poll() is None and now() < since + limit:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
        code, log = process.poll(), self.path(f"{name}.log")
        if code is None:  # it may have results to write
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
        self.end(process)
        how = (f"took more than {limit:.0f} s, see {log}" if code is None else
               f"exit code {code}, see {log}" if code != 0 else "ok")
        self.ended(name, f"{how} ({now() - since:.0f} s)")
        return code

    def end(self, process):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # and what it started
        process.wait()
        self.running.remove(process)

    def end_all(self):
        for process in list(self.running):
            self.end(process)

    def run(self, name, command, explained=True, **how):
        """Runs a program and returns whether it succeeded. OUT/name.log gets what it prints; `results`, if given, stdout."""
        say(f"{name} ...")
        begun = self.begin(name, command, **how)
        if begun is None:
            return False
        code = self.wait(name, begun)
        if explained and code and code not in NOT_OF_A_GPU:
            self.explain(name, command)
        return code == 0

    def explain(self, name, command):
        self.run(f"{name}-blocking", command, explained=False, most=60, environment={"CUDA_LAUNCH_BLOCKING": "1"})
        if self.sanitizer_program:
            self.run(f"{name}-memcheck", [*self.checked("memcheck"), *command], explained=False, most=150)
        for each in (f"{name}-blocking", name):
            said = [line for line in contents(self.path(f"{each}.log")).splitlines() if "error: " in line]
            if said:
                self.notes.append(f"{each}: {said[-1]}")
                break

    def ended(self, name, how):
        self.steps.append((name, how))
        say(f"{name}: {how}")
        self.write()

    def checked(self, tool):
        """Returns the words that run a program under a tool of compute-sanitizer. It checks only our kernels: those of
        libraries are many, and others test them."""
        return [self.sanitizer_program, "--tool", tool, "--target-processes", "all", "--kernel-name", "kns=omni",
                "--report-api-errors", "no", "--print-limit", 20, "--error-exitcode", 9]

    def failed(self):
        return any(not how.startswith("ok") for _, how in self.steps)
