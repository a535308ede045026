"""Checks and measures, on this machine's first GPU, all that the README promises of a GPU. It is one command that nobody
needs to watch. perf/gpu-report starts it."""

import argparse
import contextlib
import datetime
import glob
import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile

from runs import Runs, contents, failed_tests, say, unfinished_tests

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

DESCRIPTION = """\
Runs, the most valuable first: short trainings; the peaks; the GPU tests, several at a time; for every net and
precision a timed and traced training (how much of an iteration the GPU computes) and perf/compare with PyTorch;
trainings and tests under compute-sanitizer. Prints a table. What fails does not keep the rest from running; OUT
gets the output of every step, and what is known so far as report.md."""

DETAILS = """\
BIN may be that of an unpacked bundle (./bootstrap bundle), so that nothing has to be built or installed on the
machine with the GPU; this folder of the sources goes there, too.

A program or test that fails runs again with CUDA_LAUNCH_BLOCKING=1, so that its error names the operation at fault,
and under memcheck.

With --budget a step gets its usual time at most, and no more than what is left; what has no time left is said.
If a short training fails, only the tests follow. The next call with the same OUT and the same programs
leaves out what succeeded, and has the choices of algorithms, the performance models and the figures of before.
Two calls of 590 and 280 s are meant to cover everything in bf16.

On another machine unpack the archive of --pack into OUT first.

Exit codes: 0 all steps succeeded, 1 one failed or had no time left, 2 usage, 77 there is no GPU, or omni-run cannot
use it."""

STEPS = ("train", "peaks", "suite", "trace", "compare", "sanitizer")
TOOLS = ("memcheck", "racecheck", "synccheck")
NETS = ("resnet-50:256", "alexnet:256", "vgg-16:64", "caffenet:256")
TRIED = ("lenet:64", "resnet-18-32:64")
WARM_UP, TRACED, SETTLING = 30, 60, 5  # iterations
ARCHIVE = "gpu-report.tar.gz"
NO_GPU = 77


def net_and_batch(text):
    net, _, batch = text.partition(":")
    if not net or not batch.isdecimal() or int(batch) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not NET:BATCH, as in {NETS[1]}")
    return net, int(batch)


def seconds(text):
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of seconds")
    return number


def parse():
    parser = argparse.ArgumentParser(prog="gpu-report", description=DESCRIPTION, epilog=DETAILS,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    nets = {"nargs": "+", "type": net_and_batch, "metavar": "NET:BATCH"}
    add("bin", metavar="BIN", help="folder of omni-run, omni-perf and omni-gpu-check")
    add("out", metavar="OUT", help="folder for the results; made if it is not there")
    add("--budget", type=seconds, metavar="SECONDS", help="for all steps together; default: no limit")
    add("--pack", metavar="FOLDER", help=f"gets two files: report.md, and OUT as {ARCHIVE}")
    add("--steps", nargs="+", choices=STEPS, default=STEPS, help="default: all, in this order")
    add("--nets", default=[net_and_batch(each) for each in NETS], help=f"default: {' '.join(NETS)}", **nets)
    add("--try", dest="tried", default=[net_and_batch(each) for each in TRIED],
        help=f"nets of the short trainings; default: {' '.join(TRIED)}", **nets)
    add("--precisions", nargs="+", choices=["fp32", "tf32", "bf16"],
        help="of nets; default: bf16 and, without --budget, tf32")
    add("--shards", type=int, help="of the suite at a time; default: three for every four cores")
    add("--rounds", type=int, help="of perf/compare; default: 3, with --budget 1")
    add("--block", type=float, metavar="SECONDS", help="of perf/compare; default: 4, with --budget 2")
    add("--modes", metavar="MODE,...", help="of PyTorch; default: perf/compare's")
    add("--limit", type=seconds, default=1800, metavar="SECONDS", help="for a program; default: 1800")
    add("--python", metavar="PATH", help="Python with PyTorch; default: $OMNI_TORCH_PYTHON, else this one")
    arguments = parser.parse_args()
    limited = arguments.budget is not None
    arguments.precisions = arguments.precisions or (["bf16"] if limited else ["bf16", "tf32"])
    arguments.rounds = arguments.rounds or (1 if limited else 3)
    arguments.block = arguments.block or (2 if limited else 4)
    return arguments


class Report(Runs):
    def __init__(self, arguments):
        super().__init__(arguments.bin, arguments.out, arguments.budget, arguments.limit)
        self.arguments, self.models = arguments, self.path("models")
        self.rows = {}           # by "net batch precision": {column: text}
        self.done = {}           # by attempt: its steps and notes
        self.all_trained = True  # all short trainings succeeded
        self.device = self.version = ""

    def training(self, net, batch, precision, models="models"):
        return ["--net", net, "--batch", batch, "--subdivisions", 1, "--precision", precision, "--gpus", 0,
                "--models", self.path(models), "--workers", max(1, len(os.sched_getaffinity(0)) - 2)]

    def short_training(self, net, batch, precision, iterations, models="models"):
        return [self.program("omni-run"), *self.training(net, batch, precision, models), "--learning-rate", 1e-4,
                "--no-test", "--checkpoint-every", 0, "--max-batches", iterations, "--out", self.path("run")]

    # ---- the steps ----
    def find_gpu(self):
        done = subprocess.run([self.program("omni-run"), "devices", "-q", "--json"], capture_output=True,
                              text=True, check=False, timeout=60)
        gpus = json.loads(done.stdout)["gpus"] if done.returncode == 0 else []
        if gpus:
            self.device = gpus[0]["name"]
        return bool(gpus)

    def describe_machine(self):
        """Writes machine.log, without programs that are not there or do not answer within 10 s."""
        with open(self.path("machine.log"), "w", encoding="utf-8") as file:
            for command in (["nvidia-smi"], ["lscpu"], ["free", "-g"]):
                with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                    subprocess.run(command, stdout=file, stderr=file, timeout=10, check=False)

    def train(self, net, batch, precision):
        trained = self.run(f"train-{net}-{precision}", self.short_training(net, batch, precision, 20), most=60)
        self.all_trained = self.all_trained and trained

    def peaks(self, precision):
        with open(self.path("peaks.json"), "w+", encoding="utf-8") as results:
            if self.run("peaks", [self.program("omni-run"), "devices", "-q", "--json", "--peaks", "--precision", precision,
                                  "--gpus", 0, "--models", self.models], most=60, results=results):
                results.seek(0)
                for name, value in json.load(results)["peaks"].items():
                    self.notes.append(f"{name}: {value:.4g} ({precision})")

    def suite(self):
        """Runs the GPU tests in parts at the same time, on two cores each: StarPU binds workers to the first that it may
        use."""
        cores = sorted(os.sched_getaffinity(0))
        count = self.arguments.shards or max(1, len(cores) * 3 // 4)
        say(f"suite in {count} parts ...")
        parts = {}
        for i in range(count):
            os.sched_setaffinity(0, {cores[i % len(cores)], cores[(i + 1) % len(cores)]})
            parts[f"suite-{i}"] = self.begin(f"suite-{i}", [self.program("omni-gpu-check")], most=180, environment={
                "GTEST_TOTAL_SHARDS": str(count), "GTEST_SHARD_INDEX": str(i)})
        os.sched_setaffinity(0, cores)
        passed, failed, cut_off = 0, [], []
        for name, begun in parts.items():
            code = self.wait(name, begun) if begun else 0
            log = contents(self.path(f"{name}.log"))
            passed += sum(int(each) for each in re.findall(r"^\[  PASSED  \] (\d+)", log, re.MULTILINE))
            failed += failed_tests(log)
            (cut_off if code is None else failed).extend(unfinished_tests(log))
        self.notes.append(f"suite: {passed} tests passed")
        if cut_off:
            self.notes.append(f"suite: cut off: {' '.join(cut_off)}")
        if failed:
            self.notes.append(f"suite: failed: {' '.join(failed)}")
            self.explain("suite", [self.program("omni-gpu-check"), f"--gtest_filter={':'.join(failed[:10])}"])

    def trace(self, net, batch, precision):
        name = f"{net}-{precision}"
        trace = self.path(f"trace-{name}")
        shutil.rmtree(trace, ignore_errors=True)  # a recorder takes the next free name
        with open(self.path(f"time-{name}.json"), "w+", encoding="utf-8") as results:
            if not self.run(f"time-{name}",
                            [self.program("omni-run"), "time", "-q", "--json", *self.training(net, batch, precision),
                             "--warm-up", WARM_UP, "--iterations", TRACED, "--trace", trace], most=120, results=results):
                return
            results.seek(0)
            self.row(net, batch, precision)["images/s"] = f"{json.load(results)['images_per_second']:.0f}"
        self.run(f"kernels-{name}", [self.program("omni-perf"), "kernels", trace], explained=False)
        with open(self.path(f"idle-{name}.json"), "w+", encoding="utf-8") as results:
            if not self.run(f"idle-{name}", [self.program("omni-perf"), "idle", "--json", "--skip", SETTLING, trace],
                            explained=False, results=results):
                return
            results.seek(0)
            gpu = next(each for each in json.load(results)["workers"] if each["kind"] == "CUDA")
        self.row(net, batch, precision)["GPU not computing"] = f"{1 - gpu['parts']['compute'] / gpu['wall']:.1%}"

    def compare(self, net, batch, precision):
        path = self.path(f"compare-{net}-{precision}.json")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        chosen = [("--python", self.arguments.python), ("--modes", self.arguments.modes)]
        self.run(f"compare-{net}-{precision}",
                 [os.path.join(ROOT, "perf", "compare"), "--omni-run", self.program("omni-run"), "--device", "gpu",
                  "--net", net, "--batch", batch, "--precision", precision, "--rounds", self.arguments.rounds,
                  "--block", self.arguments.block, "--models", self.models, "--json", path,
                  *(word for option, value in chosen if value for word in (option, value))],
                 explained=False, most=160)
        if not os.path.exists(path):  # also a comparison that was cut off writes what it has
            return
        told = json.loads(contents(path))
        ours = told["contenders"]["omnivore"]
        row = self.row(net, batch, precision)
        row["images/s"] = f"{ours['images_per_second']:.0f}"
        row["of the measured matrix rate"] = f"{ours['fraction_of_peak']:.0%}"
        if told["ratio"] is not None:
            low, high = told["ratio_spread"]
            row["times the better PyTorch"] = f"{told['ratio']:.2f} ({low:.2f} to {high:.2f}; {told['better_peer']})"

    def sanitizer(self, tool, of, precision):
        name = f"{tool}-{of}-{precision}" if precision else f"{tool}-{of}"
        if not self.sanitizer_program:
            self.ended(name, "there is no compute-sanitizer (it comes with the CUDA toolkit)")
        elif precision:  # times say nothing here, so the models are a copy; it saves making choices again
            shutil.copytree(self.models, self.path("models-sanitizer"), dirs_exist_ok=True)
            net, batch = next(each for each in self.arguments.tried if each[0] == of)
            self.run(name, [*self.checked(tool), *self.short_training(net, batch, precision, 2, "models-sanitizer")],
                     explained=False, most=60)
        else:
            self.run(name, ["env", f"OMNI_LONGEST_TEST={self.arguments.limit:.0f}", *self.checked(tool),
                            self.program("omni-gpu-check"), "--gtest_filter=-FailingGpu.*:Training.*:*ShippedNet.*"],
                     explained=False)

    def row(self, net, batch, precision):
        return self.rows.setdefault(f"{net} {batch} {precision}", {})

    # ---- what is known so far ----
    def text(self):
        columns = ["images/s", "times the better PyTorch", "of the measured matrix rate", "GPU not computing"]
        table = [["net", "batch", "precision", *columns], ["---"] * (3 + len(columns))]
        table += [[*key.split(), *(row.get(each, "") for each in columns)] for key, row in self.rows.items()]
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        return "\n".join([f"{self.device}, {self.version}, {date}, {shlex.join(['perf/gpu-report', *sys.argv[1:]])}", "",
                          *(f"- {name}: {how}" for name, how in self.steps), "", *self.notes, "",
                          *(f"| {' | '.join(each)} |" for each in table)]) + "\n"

    def write(self):
        for folder in filter(None, (self.out, self.arguments.pack)):
            with open(os.path.join(folder, "report.md"), "w", encoding="utf-8") as file:
                file.write(self.text())

    def keep(self):
        with open(self.path("done.json"), "w", encoding="utf-8") as file:
            json.dump({"version": self.version, "done": self.done, "rows": self.rows}, file)

    def go_on(self):
        """Goes on with what other calls of the same programs have done, and with the recorded choices of perf/recorded."""
        done = subprocess.run([self.program("omni-run"), "--version"], capture_output=True, text=True, check=False)
        self.version = " ".join(done.stdout.split()[:2])
        with contextlib.suppress(ValueError, LookupError, TypeError):
            kept = json.loads(contents(self.path("done.json")))
            if self.arguments.budget and kept["version"] == self.version:
                self.done, self.rows = dict(kept["done"]), dict(kept["rows"])
        os.makedirs(self.models, exist_ok=True)
        for choices in glob.glob(os.path.join(ROOT, "perf", "recorded", "*", "cu*.json")):
            if not os.path.exists(os.path.join(self.models, os.path.basename(choices))):
                shutil.copy(choices, self.models)

    def plan(self):
        precisions = self.arguments.precisions
        for net, batch in self.arguments.tried:
            for precision in ("fp32", "bf16"):
                yield "train", net, batch, precision
        yield "peaks", precisions[0]
        yield ("suite",)
        for precision in precisions:
            for net, batch in self.arguments.nets:
                yield "trace", net, batch, precision
                yield "compare", net, batch, precision
        for net, _ in reversed(self.arguments.tried):
            for tool in TOOLS:
                for precision in precisions:
                    yield "sanitizer", tool, net, precision
        for tool in TOOLS:
            yield "sanitizer", tool, "tests", None

    def everything(self):
        self.describe_machine()
        for step, *of in self.plan():
            if step in self.arguments.steps:
                self.attempt(step, *of)
        self.write()

    def attempt(self, step, *of):
        name = "-".join(str(each) for each in (step, *of) if each is not None)
        if name in self.done:
            self.steps += [(each, f"{how}, in an earlier call") for each, how in self.done[name]["steps"]]
            self.notes += self.done[name]["notes"]
            return
        if self.arguments.budget and not self.all_trained and step not in ("train", "suite"):
            self.ended(name, "left out, since a short training failed")
            return
        steps, notes = len(self.steps), len(self.notes)
        try:
            getattr(self, step)(*of)
        except (OSError, LookupError, TypeError, ValueError, StopIteration) as problem:  # results that nobody expects
            self.ended(name, f"its results cannot be read: {problem!r}")
        if all(how.startswith("ok") for _, how in self.steps[steps:]):
            self.done[name] = {"steps": self.steps[steps:], "notes": self.notes[notes:]}
            self.keep()

    def pack(self):
        """Packs OUT, without the sanitizer's copy of the models and without the run folder of short trainings."""
        if self.arguments.pack:
            with tarfile.open(os.path.join(self.arguments.pack, ARCHIVE), "w:gz", compresslevel=1) as archive:
                for name in sorted(os.listdir(self.out)):
                    if name not in ("models-sanitizer", "run"):
                        archive.add(self.path(name), name)


def interrupted(*_):
    raise KeyboardInterrupt


def main():
    arguments = parse()
    report = Report(arguments)
    for name in ("omni-run", "omni-perf", "omni-gpu-check"):
        if not os.access(report.program(name), os.X_OK):
            say(f"there is no {name} in {arguments.bin} (unpack a bundle, and name its bin)")
            return 2
    signal.signal(signal.SIGTERM, interrupted)
    try:
        for folder in filter(None, (arguments.out, arguments.pack)):
            os.makedirs(folder, exist_ok=True)
        try:
            found = report.find_gpu()
        except (LookupError, TypeError, ValueError):
            say("what omni-run devices --json says cannot be read (is BIN of another version?)")
            return 1
        except subprocess.TimeoutExpired:
            say("omni-run devices does not answer (does nvidia-smi?)")
            return 1
        if not found:
            say("skipped: no GPU (omni-run devices says why)")
            return NO_GPU
        report.go_on()
        whole = False
        with contextlib.suppress(KeyboardInterrupt):
            report.everything()
            whole = True
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        report.end_all()
        report.pack()
        if not whole:
            say("interrupted")
        print(report.text(), end="")
        return 1 if report.failed() or not whole else 0
    except OSError as problem:
        say(f"{problem.filename}: {problem.strerror}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
