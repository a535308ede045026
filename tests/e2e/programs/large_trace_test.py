"""A trace of a million tasks: omni-perf summary answers within 500 MiB of memory. How long it takes is
only reported. Usage: large_trace_test.py OMNI_PERF MAKE_TRACE"""

import json
import os
import sys
import tempfile
import time

TASKS = 1_000_000
LIMIT = 500 << 20


def run(program, *arguments, output=os.devnull):
    """Memory in bytes, seconds. Waits for this child alone, so that the memory is its own."""
    begin = time.monotonic()
    child = os.posix_spawn(program, [program, *arguments], os.environ,
                           file_actions=[(os.POSIX_SPAWN_OPEN, 1, output, os.O_WRONLY | os.O_CREAT, 0o600)])
    _, status, used = os.wait4(child, 0)
    if status != 0:
        raise AssertionError(f"{program} {' '.join(arguments)}: exit code {os.waitstatus_to_exitcode(status)}")
    return used.ru_maxrss * 1024, time.monotonic() - begin


def main():
    omni_perf, make_trace = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="omni-large-") as folder:
        trace, answer = os.path.join(folder, "trace"), os.path.join(folder, "answer")
        run(make_trace, trace, f"tasks={TASKS}", "workers=8", "slices=8")
        size = os.path.getsize(os.path.join(trace, "rank-0.jsonl"))
        memory, seconds = run(omni_perf, "summary", "--json", trace, output=answer)
        with open(answer, encoding="utf-8") as file:
            said = json.load(file)
    print(f"{said['tasks']} tasks, {size / 1e6:.0f} MB: {seconds:.2f} s, {memory / (1 << 20):.0f} MiB")
    if not said["complete"] or said["tasks"] < TASKS:
        raise AssertionError(f"summary: {said}")
    if memory > LIMIT:
        raise AssertionError(f"summary took {memory} bytes of memory")
    return 0


if __name__ == "__main__":
    sys.exit(main())
