"""omni-run compare: two strategies with two seeds, stopped, killed and gone on; a training that diverges; the page
in a real browser where there is one. Called with the path of
omni-run [PICTURE.png]."""

import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from browser import Browser, missing  # noqa: E402

PROGRAM, PICTURE = sys.argv[1], sys.argv[2:]  # PICTURE: where to put one of the page
PATIENCE = 240  # s


class Compare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.out = os.path.join(self.folder, "out")
        self.environment = {**os.environ, "STARPU_HOME": self.folder, "STARPU_WORKERS_NOBIND": "1"}

    def command(self, *more, epochs="3", strategies="sync,async:2", target="0.3", rate="0.005"):
        return [PROGRAM, "compare", "--net", "lenet", "--data", "synthetic:600", "--strategies", strategies, "--target",
                target, "--seeds", "2", "--epochs", epochs, "--out", self.out, *more, "--", "--batch", "20", "--display", "1",
                "--learning-rate", rate]

    def run_to_the_end(self, *more, **how):
        return subprocess.run(self.command(*more, **how), capture_output=True, text=True, check=False, timeout=PATIENCE,
                              env=self.environment)

    def start(self, **how):
        process = subprocess.Popen(self.command(**how), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=self.environment)
        self.addCleanup(process.kill)
        return process

    def wait_for_metrics(self, name):
        path = os.path.join(self.out, f"{name}.jsonl")
        for _ in range(PATIENCE * 100):
            if os.path.exists(path) and os.path.getsize(path) > 0:
                return
            time.sleep(0.01)
        self.fail(f"{path} never came")

    def wait_for_checkpoint(self, name):
        for _ in range(PATIENCE * 100):
            if glob.glob(os.path.join(self.out, "runs", name, "save-*")):
                return
            time.sleep(0.01)
        self.fail(f"no checkpoint of {name}")

    def record(self):
        with open(os.path.join(self.out, "compare.json"), encoding="utf-8") as file:
            return json.load(file)

    def iterations(self, name):
        with open(os.path.join(self.out, f"{name}.jsonl"), encoding="utf-8") as file:
            return [line["iteration"] for line in map(json.loads, file) if "loss" in line]

    def test_compares_and_draws(self):
        done = self.run_to_the_end()
        self.assertEqual(done.returncode, 0, done.stderr)
        said = done.stderr.splitlines()
        for start in ("compare: sync, seed 1 of 2: ", "compare: async:2, seed 2 of 2: "):
            self.assertEqual(len([line for line in said if line.startswith(start)]), 1, done.stderr)
        self.assertIn("to a test accuracy of 0.3", done.stdout)
        record = self.record()
        self.assertEqual([(one["strategy"], one["seed"]) for one in record["trainings"]],
                         [("sync", 1), ("async:2", 1), ("sync", 2), ("async:2", 2)])
        for training in record["trainings"]:
            self.assertEqual([line["epoch"] for line in training["evaluations"]], [1, 2, 3])
        rows = record["strategies"]
        self.assertEqual([row["strategy"] for row in rows], ["sync", "async:2"])
        for row in rows:
            self.assertEqual(row["trainings"], 2)
            self.assertGreater(row["images_per_second"]["mean"], 0)
        self.assertIn(record["best"], ("sync", "async:2"))
        self.assertIn(f"best by median time: {record['best']}", done.stdout)
        # Nothing is left to do, whatever the target; the answer is the file.
        begin = time.monotonic()
        again = self.run_to_the_end("--json", target="0.99999")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertNotIn("seed 1 of 2", again.stderr)
        self.assertLess(time.monotonic() - begin, 60)
        self.assertEqual(json.loads(again.stdout), self.record())
        self.assertEqual(self.record()["target"], 0.99999)
        self.assertEqual(self.record()["trainings"][0]["evaluations"], record["trainings"][0]["evaluations"])
        # Another comparison does not overwrite this one.
        other = self.run_to_the_end(strategies="sync,async:3")
        self.assertEqual(other.returncode, 2)
        self.assertIn("holds another comparison: strategies was", other.stderr)
        self.page(record)

    def page(self, record):
        if absent := missing():
            print(f"the page was not opened: {', '.join(absent)} not found")
            return
        self.run_to_the_end()
        with Browser(1280, 1000) as browser:
            browser.open("about:blank")
            browser.requests()
            browser.open("file://" + os.path.join(self.out, "compare.html"))
            browser.run_async("const done = arguments[arguments.length - 1]; requestAnimationFrame(() => requestAnimationFrame(() => done(0)));")
            for chart in ("time", "epochs"):
                curves = browser.run("return [...document.querySelectorAll(arguments[0])].map(path => path.classList.contains('faint'))",
                                     f"#{chart} svg path")
                self.assertEqual(sorted(curves), [False] * 3 + [True] * 4, chart)
                self.assertEqual(browser.run("return [...document.querySelectorAll(arguments[0])].map(one => one.textContent)",
                                             f"#{chart} .group"), ["sync", "async:2", "target"])
            rows = browser.run("return [...document.querySelectorAll('#table tbody tr')].map(row => row.cells[0].textContent)")
            self.assertEqual(rows, ["sync", "async:2"])
            self.assertIn(record["best"], browser.text("#figures"))
            self.assertIn("omni-run compare --net lenet", browser.text("#what-ran"))
            self.assertTrue(browser.run("return warning.hidden"))
            colour = "return getComputedStyle(document.body).backgroundColor"
            before = browser.run(colour)
            browser.click("#theme")
            self.assertNotEqual(browser.run(colour), before)
            browser.mouse("#time svg", 300, 100, (5, 5))
            self.assertIn("sync ", browser.text("#time svg text.value"))
            self.assertEqual(browser.console(), [])
            self.assertEqual([url for url in browser.requests() if not url.startswith(("file:", "data:"))], [])
            for path in PICTURE:
                with open(path, "wb") as file:
                    file.write(browser.screenshot())

    def test_stopped_and_gone_on(self):
        process = self.start(epochs="20")
        self.wait_for_metrics("async-2-1")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 75, errors)
        self.assertIn("stopped; 1 of 4 trainings are done; to go on:\n  ", errors)
        self.assertIn("compare --net lenet", errors)
        first = self.record()["trainings"]
        self.assertEqual([one["strategy"] for one in first], ["sync"])
        before = self.iterations("async-2-1")
        self.assertTrue(glob.glob(os.path.join(self.out, "runs", "async-2-1", "save-*")), "a checkpoint")
        # The next start is killed: its training saves and ends, too.
        process = self.start(epochs="20")
        self.wait_for_metrics("sync-2")
        process.kill()
        process.communicate(timeout=PATIENCE)
        self.wait_for_checkpoint("sync-2")
        self.assertLess(self.iterations("sync-2")[-1], 600)
        done = self.run_to_the_end(epochs="20")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("compare: sync, seed 1 of 2", done.stderr)
        trainings = self.record()["trainings"]
        self.assertEqual(trainings[0], first[0], "a finished training is not repeated")
        self.assertEqual([(one["strategy"], one["seed"]) for one in trainings],
                         [("sync", 1), ("async:2", 1), ("sync", 2), ("async:2", 2)])
        iterations = self.iterations("async-2-1")
        self.assertEqual(iterations[:len(before)], before)
        for name in ("async-2-1", "sync-2"):
            self.assertEqual(sorted(set(self.iterations(name))), list(range(1, 601)), name)

    # Real and simulated seconds do not meet in one table, whatever a record holds.
    def test_simulated_times_are_called_so(self):
        virtual = ("--arrivals", "virtual", "--machine", "8-gpus")
        done = self.run_to_the_end(*virtual)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"compare: sync, seed 1 of 2: 0.3 reached after \d epochs?, \S+ .?s simulated; the training took ")
        self.assertIn("  simulated time  ", done.stdout)
        self.assertIn("best by median simulated time: ", done.stdout)
        self.assertNotIn("left out", done.stdout)
        record = self.record()
        self.assertEqual((record["clock"], record["left_out"]), ("virtual", 0))
        slowest = max(line["simulated_time"] for one in record["trainings"] for line in one["evaluations"])
        for one in record["trainings"]:
            for line in one["evaluations"]:
                line["time"] = 1000 * slowest
        del record["trainings"][0]["evaluations"][0]["simulated_time"]
        with open(os.path.join(self.out, "compare.json"), "w", encoding="utf-8") as file:
            json.dump(record, file)
        again = self.run_to_the_end(*virtual)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("left out: evaluations without a simulated time: 1; ", again.stdout)
        for row in self.record()["strategies"]:
            self.assertLessEqual(row["time"]["max"], slowest)

    def test_a_training_that_diverges_is_a_row(self):
        done = self.run_to_the_end(rate="1e30")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("compare: async:2, seed 2 of 2: diverged; the training took ", done.stderr)
        self.assertIn("0 of 2, 2 diverged", done.stdout)
        self.assertIn("no strategy reached the target", done.stdout)
        self.assertIsNone(self.record()["best"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
