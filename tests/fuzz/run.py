"""Runs every fuzzer of a build folder in turn: tests/fuzz/run.py BUILD [--seconds N] [--runs N] [NAME...]
A fuzzer begins with the seeds that fuzz_tests writes and with what earlier runs found; both are in BUILD/corpus. It ends
after N seconds or N executions. Exits with 1 when a fuzzer found something, and says where the input lies."""

import argparse
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def run(build, name, seconds, runs):
    """(executions, what was found)"""
    program = os.path.join(build, "bin", name + "_fuzz")
    corpus = os.path.join(build, "corpus", name)
    os.makedirs(corpus, exist_ok=True)
    words = [program, f"-max_total_time={seconds}", f"-runs={runs}", "-rss_limit_mb=2048", "-timeout=20",
             f"-artifact_prefix={corpus}-", "-print_final_stats=1", corpus]
    dictionary = os.path.join(HERE, name + ".dict")
    if os.path.exists(dictionary):
        words.insert(1, "-dict=" + dictionary)
    log = corpus + ".log"
    with open(log, "w", encoding="utf-8") as out:
        code = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False,
                              env=dict(os.environ, STARPU_SILENT="1")).returncode
    with open(log, encoding="utf-8", errors="replace") as file:
        said = file.read()
    done = re.findall(r"number_of_executed_units: (\d+)", said)
    problem = "" if code == 0 else f"FAILED, see {log}: " + " ".join(re.findall(r"Test unit written to (.*)", said))
    return int(done[-1]) if done else 0, problem


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--runs", type=int, default=-1)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    build = os.path.abspath(given.build)
    built = sorted(name[:-5] for name in os.listdir(os.path.join(build, "bin")) if name.endswith("_fuzz"))
    writer = os.path.join(build, "bin", "fuzz_tests")
    if os.path.exists(writer):
        subprocess.run([writer, "--gtest_filter=*Mutations*", "--gtest_brief=1"], check=True, stdout=subprocess.DEVNULL,
                       env=dict(os.environ, OMNI_WRITE_SEEDS=os.path.join(build, "corpus")))
    failed = not built
    for name in given.names or built:
        begin = time.monotonic()
        done, problem = run(build, name, given.seconds, given.runs)
        print(f"{name:<12} {done:>11} executions in {time.monotonic() - begin:5.0f} s {problem}", flush=True)
        failed |= problem != ""
    sys.exit(1 if failed else 0)


main()
