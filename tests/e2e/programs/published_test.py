"""perf/experiments/published with tiny trainings: every row, a second start, and the page. Omnivore's Algorithm 1 on a
training that is played. Called with the path of omni-run."""

import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
PUBLISHED = os.path.join(ROOT, "perf", "experiments", "published")
sys.path.insert(0, os.path.join(ROOT, "perf", "experiments", "strategies"))

from algorithm1 import Algorithm1
from store import NEVER, devices_of, loss_at, machine_of, reached

OMNI_RUN = ""
ROWS = ("groups", "rivals", "momentum", "learners", "tau", "gain", "hogbatch", "adaptive")
NET = """# data: synthetic:64
[net]
batch=8
height=8
width=8
channels=1
[convolutional]
filters=2
size=3
activation=relu
[connected]
output=10
activation=linear
[softmax]
"""
TINY = ("seeds=[1]", "timed=8", "groups=[1,2]", "iterations=24", "batch=4", "momenta=[0,0.9]", "factors=[1]", "rates=[0.02]",
        "start=8", "trial=4", "images=64", "epochs=1", "tests=2", "every=[1,2]", "learners=2", "gains={}", "large=16",
        "gpu_updates=2", 'machines=["9-nodes"]', 'hogbatch.machines=["48-threads-fast-gpu"]',
        'adaptive.machines=["1,0.5-gpus"]')


def program(folder, text):
    path = os.path.join(folder, "program")
    with open(path, "w") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)
    return path


class Rows(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        net = os.path.join(cls.folder.name, "tiny.cfg")
        with open(net, "w") as file:
            file.write(NET)
        cls.sets = [word for each in (*TINY, *(f"{nets}={json.dumps([net])}" for nets in ("nets", "timed_nets")))
                    for word in ("--set", each)]
        cls.results = os.path.join(cls.folder.name, "results")
        cls.first = cls.run_rows(OMNI_RUN)
        with open(os.path.join(cls.results, "tree.json")) as file:
            cls.tree = json.load(file)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def run_rows(cls, omni_run):
        return subprocess.run([PUBLISHED, "all", "--omni-run", omni_run, "--results", cls.results, *cls.sets],
                              capture_output=True, text=True)

    def page(self, results):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "published.md")
        subprocess.run([PUBLISHED, "page", "--results", results, "--page", path], check=True)
        with open(path) as file:
            return file.read(), os.path.join(folder.name, "plots")

    def test_every_row_is_measured_and_on_the_page(self):
        self.assertEqual(self.first.returncode, 0, self.first.stderr)
        for words in ("| **published**: CaffeNet | 18 workers | 1.21 | 1 | 0.496 |", "MXNet, async",
                      "CIFAR, 33 nodes (figure 8)", "EA-SGD | epochs", "updates by cores", "Adaptive SGD (`elastic`)"):
            self.assertIn(words, self.first.stdout)
        page, plots = self.page(self.results)
        self.assertNotIn("Not measured yet", page)
        tables = [line for line in self.first.stdout.splitlines() if line.startswith("|")]
        self.assertEqual([line for line in tables if line not in page], [])
        names = ["groups-tiny", "momentum-tiny", "learners", "tau"]
        self.assertEqual(sorted(os.listdir(plots)), sorted(f"published-{name}.svg" for name in names))
        for name in names:
            self.assertIn(f"](plots/published-{name}.svg)", page)
            ElementTree.parse(os.path.join(plots, f"published-{name}.svg"))

    def test_a_second_start_repeats_only_what_was_cut_off(self):
        answers = f"[ $1 = --version ] && echo '{self.tree}' && exit\n"
        again = self.run_rows(program(self.folder.name, answers + "exit 1"))
        self.assertEqual((again.returncode, again.stdout), (0, self.first.stdout))
        path = os.path.join(self.results, "results.jsonl")
        with open(path) as file:
            whole = file.read()
        try:
            with open(path, "w") as file:
                file.write(whole[:-2])
            again = self.run_rows(program(self.folder.name, answers + "echo called >&2; exit 1"))
            self.assertEqual((again.returncode, again.stderr.count("called")), (1, 1))
            self.assertIn("ended with 1", again.stderr)
            self.assertIn("adaptive", again.stderr)
        finally:
            with open(path, "w") as file:
                file.write(whole)

    def test_results_of_another_tree_are_refused(self):
        other = self.run_rows(program(self.folder.name, "echo another tree"))
        self.assertEqual(other.returncode, 1)
        self.assertIn(f"results of {self.tree}, not of another tree (name another folder)", other.stderr)

    def test_unknown_values_are_refused(self):
        for each in ("nothing=1", "tau.groups=[1]"):
            refused = subprocess.run([PUBLISHED, "tau", "--omni-run", OMNI_RUN, "--results", self.results, "--set", each],
                                     capture_output=True, text=True)
            self.assertEqual(refused.returncode, 1)
            self.assertIn(f"--set {each}: no such value", refused.stderr)

    def test_a_page_without_results_says_so(self):
        with tempfile.TemporaryDirectory() as empty:
            page, _ = self.page(empty)
        for row in ROWS:
            self.assertIn(f"Not measured yet: `perf/experiments/published {row}`", page)
        self.assertIn("| **published**: Caffe | 16.5 |", page)


class Figures(unittest.TestCase):
    def test_a_loss_is_reached_by_the_mean_of_a_whole_window(self):
        curve = [(10 * i, i, 1, loss) for i, loss in enumerate((3, 1, 3, 2, 2, None), 1)]
        result = {"exit": 0, "updates": 60, "curve": curve}
        self.assertEqual(reached(result, 2, 20), (30, 3))
        self.assertEqual(reached(result, 1, 20), (NEVER, NEVER))
        self.assertEqual(loss_at(result, 0.5, 20), 2)
        self.assertEqual(loss_at(result | {"exit": 6}, 0.5, 20), NEVER)

    def test_machines_are_made_from_shipped_ones(self):
        self.assertEqual([devices_of(name) for name in ("33-nodes", "9-nodes", "4-gpus")], [32, 8, 4])
        self.assertEqual(machine_of("33-nodes")["devices"][1:], machine_of("9-nodes")["devices"][1:])
        own = os.path.join(ROOT, "apps", "machines", "33-nodes.json")
        self.assertEqual(machine_of(own), machine_of("33-nodes"))
        speeds = [each["flops_per_second"] for each in machine_of("1,0.5-gpus")["devices"]]
        self.assertEqual(speeds[1], speeds[0] / 2)
        self.assertEqual(machine_of("1-gpus+2=1.5")["devices"][0]["gain"], {"2": 1.5})
        self.assertEqual([each["kind"] for each in machine_of("48-threads-fast-gpu@cpu")["devices"]], ["cpu"])


class Search(unittest.TestCase):
    """Every update takes a second in one group, and a share of it in several, down to `floor`."""

    def play(self, loss, floor=0.25, most=8):
        tried = []

        def run(words, out):
            value = {word: words[at + 1] for at, word in enumerate(words) if word.startswith("--") and at + 1 < len(words)}
            groups, momentum = int(value.get("--groups", 1)), float(value["--momentum"])
            rate = round(float(value["--learning-rate"]), 9)
            state = os.path.join(out, "state")
            at, clock, before = 0, 0.0, groups
            if os.path.exists(state):
                with open(state) as file:
                    at, clock, before = json.load(file)
            clock = clock if before == groups else 0.0  # another number of groups starts anew
            seconds, lines, result = max(floor, 1 / groups), [], loss(groups, momentum, rate)
            for update in range(at + 1, int(value["--max-batches"]) + 1):
                clock += seconds
                lines.append({"iteration": update, "simulated_time": clock, "loss": result, "loss_average": result,
                              "group": 0, "group_samples": 1})
            os.makedirs(out, exist_ok=True)
            with open(state, "w") as file:
                json.dump([int(value["--max-batches"]), clock, groups], file)
            tried.append((groups, momentum, rate, len(lines), "--no-test" in words))
            return (6, lines[:1]) if result is None else (0, lines)
        with tempfile.TemporaryDirectory() as folder:
            result = Algorithm1(run, folder, []).compute(most, 200, 40, 80, 20)
        return result, tried

    def test_fewest_saturating_groups_best_setting_and_time_of_trials(self):
        result, tried = self.play(lambda groups, momentum, rate: abs(momentum - 0.3) + abs(rate - 0.01))
        self.assertEqual(result["chosen"], [(4, 0.3, 0.01), (4, 0.3, 0.01)])  # 8 groups are no faster than 4
        trials = [each for each in tried if each[4]]
        self.assertEqual(result["trials"], sum(updates * max(0.25, 1 / groups) for groups, _, _, updates, _ in trials))
        self.assertEqual([each for each in trials if each[3] < max(20, 5 * each[0])], [])
        self.assertEqual(result["seconds"], result["trials"] + 40 + 160 / 4)
        self.assertEqual((result["updates"], result["exit"]), (200, 0))

    def test_nothing_beyond_the_last_setting_nor_below_it_is_tried(self):
        _, tried = self.play(lambda groups, momentum, rate: abs(momentum - 0.9) + abs(rate - 0.01))
        later = [(momentum, rate) for groups, momentum, rate, updates, trial in tried[9:14] if trial]
        self.assertEqual(later, [(0.9, 0.001), (0, 0.01), (0.3, 0.01), (0.6, 0.01), (0.9, 0.01)])

    def test_groups_are_halved_while_no_momentum_is_best_and_one_group_ends_it(self):
        result, _ = self.play(lambda groups, momentum, rate: momentum if groups > 2 else 1 - momentum)
        self.assertEqual([each[0] for each in result["chosen"]], [2, 2])
        result, _ = self.play(lambda groups, momentum, rate: momentum)
        self.assertEqual([each[:2] for each in result["chosen"]], [(1, 0), (1, 0)])

    def test_ties_take_the_larger_rate_and_a_search_survives_where_all_diverge(self):
        equal = (0.3, 0.1), (0.9, 0.01)
        result, _ = self.play(lambda groups, momentum, rate: 1.0 if groups == 1 or (momentum, rate) in equal else 2.0)
        self.assertEqual(result["chosen"][0], (4, *equal[0]))
        result, tried = self.play(lambda groups, momentum, rate: None if groups > 1 else 1.0)
        self.assertEqual(result["chosen"][-1][0], 1)
        worse = [each for each in tried if each[0] == 4 and each[2] == 0.1]
        self.assertEqual(len(worse), 1 + 1)  # when groups are timed, and the first momentum


if __name__ == "__main__":
    OMNI_RUN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
