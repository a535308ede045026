"""Runs one program at a time and returns its output, its peak memory, and the share of the CPUs that others
used meanwhile. It also pins this process to CPUs, which its children inherit."""

import contextlib
import ctypes
import os
import signal
import subprocess
import tempfile
import time


class Failed(Exception):
    """A run did not do what it was started for. The user is told, and the exit code is 1."""


class Refused(Exception):
    """What was asked for cannot be done here. The user is told what to do, and the exit code is 2."""


class Finished:
    def __init__(self, output, errors, exit_code, peak_memory, others, cpu_seconds):
        self.output, self.errors, self.exit_code = output, errors, exit_code
        self.peak_memory = peak_memory  # bytes
        self.others = others            # share of the CPUs' time that others used; None: unknown
        self.cpu_seconds = cpu_seconds  # of the program and all that it started


PR_SET_CHILD_SUBREAPER = 36
PATIENCE = 20  # seconds in which what a program left behind ends


def adopt_orphans():
    """Makes this process the parent of what a program started and did not wait for, such as mpiexec's ranks. So
    their time and memory are known. On another system than Linux they are not counted."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def wait_for_orphans(seconds):
    """Returns the CPU seconds and the most KiB of those that end within some seconds; daemons are left alone."""
    used, memory, deadline = 0.0, 0, time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            process, _, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:  # there are no others
            break
        if process == 0:
            time.sleep(0.01)
            continue
        used, memory = used + usage.ru_utime + usage.ru_stime, max(memory, usage.ru_maxrss)
    return used, memory

def busy_seconds(cpus):
    """Returns the seconds that these CPUs were not idle since boot, stolen time included; None: unknown."""
    wanted, ticks = {f"cpu{cpu}" for cpu in cpus}, 0
    try:
        with open("/proc/stat", encoding="ascii") as file:
            for line in file:
                name, *values = line.split()
                if name in wanted:
                    ticks += sum(int(each) for each in values[:8]) - int(values[3]) - int(values[4])
    except (OSError, ValueError, IndexError):
        return None
    return ticks / os.sysconf("SC_CLK_TCK")


def run(command, environment=None, folder=None):
    """Runs a program, and waits for it and what it started. The peak memory is that of the largest process."""
    adopt_orphans()
    cpus = os.sched_getaffinity(0)
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        busy, started = busy_seconds(cpus), time.monotonic()
        try:
            process = subprocess.Popen([str(each) for each in command], stdout=output, stderr=errors,
                                       stdin=subprocess.DEVNULL, cwd=folder,
                                       env={**os.environ, **(environment or {})})
        except OSError as problem:
            raise Failed(f"{command[0]}: {problem.strerror}") from None
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            os.kill(process.pid, signal.SIGKILL)
            os.waitpid(process.pid, 0)
            raise
        finally:
            process.returncode = 0  # it is waited for
        orphans, memory = wait_for_orphans(PATIENCE)
        wall = time.monotonic() - started
        own = usage.ru_utime + usage.ru_stime + orphans
        others = None
        if busy is not None:
            foreign = busy_seconds(cpus) - busy - own
            others = max(0.0, foreign / (wall * len(cpus)))
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
        return Finished(*texts, os.waitstatus_to_exitcode(status), max(usage.ru_maxrss, memory) * 1024, others, own)


def checked(command, environment=None, folder=None):
    finished = run(command, environment, folder)
    if finished.exit_code != 0:
        said = (finished.errors.strip() or finished.output.strip()).splitlines()[-3:]
        raise Failed(f"{' '.join(str(each) for each in command)}\n  ended with {finished.exit_code}: " +
                     "\n  ".join(said))
    return finished


def physical_first(cpus):
    """Returns the CPUs, one of every core first, so that two threads share a core only when they must."""
    def place(cpu):
        try:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list",
                      encoding="ascii") as file:
                siblings = file.read().strip()
        except OSError:
            siblings = str(cpu)
        return siblings

    seen, order = {}, []
    for cpu in sorted(cpus):
        turn = seen.get(place(cpu), 0)
        seen[place(cpu)] = turn + 1
        order.append((turn, cpu))
    return [cpu for _, cpu in sorted(order)]


def pin(threads):
    """Pins this process, and all that it starts, to so many CPUs; returns them."""
    allowed = physical_first(os.sched_getaffinity(0))
    if threads > len(allowed):
        raise Refused(f"--threads {threads}: this process may use {len(allowed)} CPUs")
    os.sched_setaffinity(0, allowed[:threads])
    return sorted(allowed[:threads])
