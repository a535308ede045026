"""perf/gpu-report on the GPU that is played, with a played PyTorch: what it reports, and that a failure stops nothing.
Called with the paths of omni-run and omni-perf, of a build with the played GPU."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LENET_PARAMETERS = 431080
PROGRAMS = []

PYTORCH = f"""#!{sys.executable}
import json, sys
if sys.argv[1] == "-c":
    print("9.9")
    sys.exit()
told = dict(zip(sys.argv[2::2], sys.argv[3::2]))
print(json.dumps({{"parameters": {LENET_PARAMETERS}, "seconds": [0.5] * int(told["--iterations"]),
                  "peak_memory_bytes": 1000, "fused_sgd": True}}))
"""


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.mkdir(self.path("bin"))
        for program in PROGRAMS:
            os.symlink(program, self.path("bin", os.path.basename(program)))
        self.write("bin/omni-gpu-check", "#!/bin/sh\necho all is well\n")

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), 0o755)

    def read(self, *name):
        with open(self.path(*name), encoding="utf-8") as file:
            return file.read()

    def report(self, *arguments, **environment):
        return subprocess.run([os.path.join(ROOT, "perf", "gpu-report"), self.path("bin"), self.path("out"), *arguments],
                              capture_output=True, text=True, check=False,
                              env={**os.environ, "STARPU_HOME": self.folder,
                                   "CXX": sys.executable,  # there is one; nothing is compiled
                                   **environment})

    def test_all_of_a_small_net(self):
        self.write("python", PYTORCH)
        done = self.report("--steps", "suite", "trace", "compare", "--nets", "lenet:4", "--precisions", "bf16",
                           "--rounds", "1", "--block", "0.1", "--python", self.path("python"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, self.read("out", "report.md"))
        for step in ("suite", "train-lenet-bf16", "kernels-lenet-bf16", "idle-lenet-bf16", "compare-lenet-bf16"):
            self.assertRegex(done.stdout, rf"- {step}: ok ")
        self.assertRegex(done.stdout, r"\| lenet \| 4 \| bf16 \| \d+ \| [\d.]+ \([\d.]+ to [\d.]+; pytorch nhwc-\w+\) "
                                      r"\| \d+% \| [\d.]+% \|")
        self.assertIn("all is well", self.read("out", "suite.log"))
        self.assertIn("conv_forward", self.read("out", "kernels-lenet-bf16.log"))

    def test_what_fails_is_said_and_the_rest_is_done(self):
        self.write("bin/omni-gpu-check", "#!/bin/sh\necho wrong here >&2\nexit 3\n")
        done = self.report("--steps", "suite", "trace", "compare", "--nets", "nosuch:4", "lenet:4", "--precisions",
                           "tf32", "--python", self.path("nowhere"))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, r"- suite: exit code 3, see .*suite\.log")
        self.assertIn("wrong here", self.read("out", "suite.log"))
        self.assertRegex(done.stdout, r"- train-nosuch-tf32: exit code 2, see .*\n- compare-nosuch-tf32: exit code 2")
        self.assertIn("no Python at", self.read("out", "compare-lenet-tf32.log"))
        self.assertRegex(done.stdout, r"\| lenet \| 4 \| tf32 \|  \|  \|  \| [\d.]+% \|")

    def test_tests_and_trainings_under_every_tool_of_the_sanitizer(self):
        self.write("compute-sanitizer", "#!/bin/sh\necho with: $*\n[ $2 = memcheck ] || exit 9\n")
        done = self.report("--steps", "sanitizer", "--precisions", "bf16",
                           PATH=f"{self.folder}:{os.environ['PATH']}")
        self.assertEqual(done.returncode, 1, done.stderr)
        for what in ("tests", "lenet-bf16", "resnet-18-32-bf16"):
            self.assertRegex(done.stdout, rf"- memcheck-{what}: ok ")
            self.assertRegex(done.stdout, rf"- racecheck-{what}: exit code 9, see .*\n(.*\n)*- synccheck-{what}: exit code 9")
        said = self.read("out", "memcheck-lenet-bf16.log")
        self.assertRegex(said, r"with: --tool memcheck --target-processes all --kernel-name kns=omni "
                               r"--error-exitcode 9 .*omni-run --net lenet ")
        said = self.read("out", "memcheck-tests.log")
        self.assertRegex(said, r"OMNI_LONGEST_TEST=1800 .*--gtest_filter=-FailingGpu\.\*:Training\.\*:\*ShippedNet\.\*")

    def test_what_hangs_is_ended(self):
        self.write("bin/omni-gpu-check", "#!/bin/sh\nsleep 600\n")
        done = self.report("--steps", "suite", "--limit", "1")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, r"- suite: took more than 1 s, see ")

    def test_nonsense_does_not_stop_the_rest(self):
        os.unlink(self.path("bin/omni-perf"))
        self.write("bin/omni-perf", "#!/bin/sh\necho '{\"workers\": []}'\n")
        done = self.report("--steps", "trace", "--nets", "lenet:4", "lenet:5", "--precisions", "tf32")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, r"- trace-lenet-4-tf32: its results cannot be read: StopIteration")
        self.assertRegex(done.stdout, r"- train-lenet-tf32: ok .*\n(.*\n)*- trace-lenet-5-tf32: its results")

    def test_without_a_gpu_it_is_skipped(self):
        done = self.report(OMNI_PLAYED_GPUS="0")
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertIn("skipped: no GPU", done.stderr)
        self.assertEqual(os.listdir(self.path("out")), [])

    def test_devices_that_cannot_be_read_are_an_error(self):
        os.unlink(self.path("bin/omni-run"))
        self.write("bin/omni-run", "#!/bin/sh\necho '{\"gpus\": 1}'\n")
        done = self.report()
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("cannot be read", done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_wrong_usage_is_refused(self):
        for net in ("lenet", "lenet:0", "lenet:x", ":4"):
            done = self.report("--nets", net)
            self.assertEqual(done.returncode, 2)
            self.assertIn("is not NET:BATCH, as in alexnet:256", done.stderr)
        os.unlink(self.path("bin/omni-perf"))
        done = self.report()
        self.assertEqual(done.returncode, 2)
        self.assertTrue(re.search("there is no omni-perf in .*unpack a bundle", done.stderr), done.stderr)


if __name__ == "__main__":
    PROGRAMS = [os.path.abspath(sys.argv.pop(1)) for _ in range(2)]
    unittest.main()
