"""Trains on simulated machines, for perf/experiments/published. A result is computed once and kept in a file."""

import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import zlib

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
DIVERGED = 6  # omni-run's exit code
NEVER = float("inf")
# These nets have this rate and these data. The first line of other nets says "# data: SOURCE", and their rate is 0.02.
NETS = {"lenet": (0.02, "fashion-mnist"), "small-resnet": (0.02, "fashion-mnist"),
        "cifar10-quick": (0.003, "synthetic:10000"), "covtype-mlp": (1, "synthetic-vectors:581012:54:2"),
        "w8a-mlp": (1, "synthetic-vectors:64700:300:2")}


class Missing(Exception):
    """A result is not there, and nothing may be computed."""


class Failed(Exception):
    """A training failed in another way than by divergence."""


def net_of(name):
    """Returns the path, or the name of a shipped net, its data, and its rate."""
    ours = [os.path.join(folder, name + ".cfg") for folder in (os.path.join(os.path.dirname(HERE), "auto_nets"), HERE)]
    path = next((path for path in (name, *ours) if os.path.isfile(path)), name)
    rate, data = NETS.get(name, (0.02, ""))
    if not data:
        with open(path) as file:
            data = file.readline().removeprefix("# data:").strip()
    return path, data, rate


def name_of(net):
    return os.path.splitext(os.path.basename(net))[0]


def machine_of(name):
    """Returns a machine file, by its path or the name of a shipped one; or one made from a shipped one: N-nodes, N-gpus,
    SPEED,SPEED...-gpus. +M=GAIN is the gain of M groups on one device; @KIND leaves only devices of this kind."""
    name, _, kind = name.partition("@")
    name, *gains = name.split("+")
    many = re.fullmatch(r"([\d.,]+)-(nodes|gpus)", name)
    shipped = {"nodes": "33-nodes", "gpus": "8-gpus"}[many[2]] if many else name
    with open(name if os.path.isfile(name) else os.path.join(ROOT, "apps/machines", shipped + ".json")) as file:
        machine = json.load(file)
    device = machine["devices"][0]
    if many and "," in many[1]:
        machine["devices"] = [device | {"count": 1, "flops_per_second": float(speed) * device["flops_per_second"]}
                              for speed in many[1].split(",")]
    elif many:
        device["count"] = int(many[1]) - (many[2] == "nodes")  # one node has the merged layers
    if gains:
        device["gain"] = {groups: float(gain) for groups, gain in (each.split("=") for each in gains)}
    machine["devices"] = [each for each in machine["devices"] if kind in ("", each["kind"])]
    return machine


def devices_of(name):
    """Returns the number of devices for compute groups."""
    devices = machine_of(name)["devices"]
    return sum(device.get("count", 1) for device in devices) - (devices[-1]["kind"] == "node")  # it has the merged layers


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def number(value, form=".3g"):
    if value is None or not value < NEVER:
        return "never"
    return f"{value:,.0f}" if value >= 1000 else f"{value:{form}}"


def reached(result, loss, window):
    """Returns the update, and its simulated seconds, at which the mean training loss of `window` updates is this low."""
    curve, begin = result["curve"], 0
    for last, block in enumerate(curve):
        while begin < last and curve[begin + 1][0] <= block[0] - window:
            begin += 1
        if curve[begin][0] <= block[0] - window and mean(curve[begin + 1:last + 1]) <= loss:
            return block[:2]
    return NEVER, NEVER


def mean(blocks):
    samples = sum(block[2] for block in blocks)
    return sum(block[2] * (NEVER if block[3] is None else block[3]) for block in blocks) / samples if samples else NEVER


def loss_at(result, share, window):
    """Returns the mean training loss of the last `window` updates before this share of the training."""
    end = share * result["updates"]
    return mean([each for each in result["curve"] if end - window < each[0] <= end]) if result["exit"] == 0 else NEVER


def seconds_per_update(result):
    (first, begin, *_), (last, end, *_) = result["curve"][len(result["curve"]) // 2], result["curve"][-1]
    return (end - begin) / max(last - first, 1)


def summary(code, lines):
    """Returns what is kept of a training's metrics: blocks (last update, its simulated seconds, samples, mean loss), tests,
    updates and samples by kind of device, and the size of the last mini-batch of each group."""
    updates = [line for line in lines if "loss_average" in line]
    size = max(1, len(updates) // 300)
    curve, kinds, tests, now = [], {}, [], 0
    for first in range(0, len(updates), size):
        block = updates[first:first + size]
        samples = sum(line["group_samples"] for line in block)
        finite = all(line["loss"] is not None for line in block)
        loss = sum(line["loss"] * line["group_samples"] for line in block) / samples if finite else None
        curve.append((block[-1]["iteration"], block[-1]["simulated_time"], samples, loss))
    for line in lines:
        now = line.get("simulated_time", now)
        if "test_accuracy" in line:
            tests.append((line["epoch"], now, line["test_accuracy"]))
        elif "loss_average" in line:
            count, samples = kinds.get(str(line.get("kind", "")), (0, 0))
            kinds[str(line.get("kind", ""))] = (count + 1, samples + line["group_samples"])
    last = {line["group"]: line["group_samples"] for line in updates}
    return {"exit": code, "updates": updates[-1]["iteration"] if updates else 0, "seconds": now, "curve": curve,
            "tests": tests, "kinds": kinds, "sizes": [last[group] for group in sorted(last)]}


def accuracy(result):
    return result["tests"][-1][2] if result["tests"] and result["exit"] == 0 else 0


class Store:
    """A Store has results by what was computed. Without a program it computes nothing."""

    def __init__(self, folder, program=None, jobs=1):
        self.folder, self.program, self.jobs, self.results, self.row = folder, program, jobs, {}, ""
        self.path, self.lock = os.path.join(folder, "results.jsonl"), threading.Lock()
        os.makedirs(folder, exist_ok=True)
        self.tree = self.read("tree.json")
        if program:
            told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
            tree = told.stdout.strip()
            if self.tree not in (None, tree):
                raise SystemExit(f"{folder}: results of {self.tree}, not of {tree} (name another folder)")
            self.tree = tree
            self.write("tree.json", tree)
        if os.path.exists(self.path):
            with open(self.path) as file:
                for line in file:
                    if line.endswith("\n"):  # else it was cut off
                        key, result = json.loads(line)
                        self.results[key] = result

    def read(self, name):
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            return None
        with open(path) as file:
            return json.load(file)

    def write(self, name, what):
        with open(os.path.join(self.folder, name), "w") as file:
            json.dump(what, file)

    def machine(self, name):
        text = json.dumps(machine_of(name), indent=1)
        name = os.path.basename(name).replace("=", "-")
        path = os.path.join(self.folder, f"{name}-{zlib.crc32(text.encode()):08x}.json")
        with tempfile.NamedTemporaryFile("w", dir=self.folder, delete=False) as file:
            file.write(text)
        os.replace(file.name, path)  # another training may read it just now
        return path

    def run(self, net, machine, words, out):
        """Runs one process. Returns its exit code and metrics. A resumed training goes on from the checkpoint in `out`."""
        path, data, rate = net_of(net)
        metrics = out + ".jsonl"
        if "--learning-rate" not in words:
            words = ["--learning-rate", str(rate), *words]
        command = [self.program, "--net", path, "--data", data, "--arrivals", "virtual", "--machine",
                   self.machine(machine), "--policy", "constant", "--workers", "1", "--gpus", "none", "--quiet", "--display",
                   "1", "--metrics", metrics, "--out", out, *words]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode not in (0, DIVERGED):
            raise Failed(f"{' '.join(command)}\nended with {run.returncode}:\n{run.stderr}")
        lines = []
        if os.path.exists(metrics):
            with open(metrics) as file:
                lines = [json.loads(line) for line in file]
            os.remove(metrics)
        return run.returncode, lines

    def training(self, net, machine, *words, begin=None):
        """Returns the key of a training and the function that computes it. `begin`: the words of a training from whose end
        this one goes on; None: it begins afresh."""
        words = [str(word) for word in words]

        def compute(folder):
            out = os.path.join(folder, "out")
            if begin:
                shutil.copytree(self.begun(net, machine, [str(word) for word in begin]), out)
            return summary(*self.run(net, machine, words + (["--resume", "auto"] if begin else []), out))
        return json.dumps([net, os.path.basename(self.machine(machine)), words, begin]), compute

    def begun(self, net, machine, words):
        out = os.path.join(self.folder, f"begun-{zlib.crc32(json.dumps([net, machine, words]).encode()):08x}")
        with self.lock:
            if not os.path.exists(out):
                with tempfile.TemporaryDirectory(dir=self.folder) as folder:
                    self.run(net, machine, words + ["--resume", "auto"], os.path.join(folder, "out"))  # saves at the end
                    os.rename(os.path.join(folder, "out"), out)
        return out

    def many(self, wanted):
        """Returns the results of pairs as training() returns them. Missing ones are computed, `jobs` at once."""
        missing = {key: compute for key, compute in wanted if key not in self.results}
        if missing and not self.program:
            raise Missing

        def compute(key):
            with tempfile.TemporaryDirectory(dir=self.folder) as folder:
                return missing[key](folder)
        pool = concurrent.futures.ThreadPoolExecutor(self.jobs)
        try:
            futures = {pool.submit(compute, key): key for key in missing}
            for done, future in enumerate(concurrent.futures.as_completed(futures), 1):
                key, result = futures[future], future.result()
                with open(self.path, "a") as file:
                    print(json.dumps([key, result]), file=file)
                self.results[key] = result
                print(f"{self.row}: {done} of {len(missing)}", file=sys.stderr, flush=True)
        finally:
            pool.shutdown(cancel_futures=True)
        return [self.results[key] for key, _ in wanted]
