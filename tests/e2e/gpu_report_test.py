"""perf/gpu-report on the GPU that is played, with a played PyTorch: what it reports, that a failure stops nothing, and
with a played clock that a budget is kept.
Called with the paths of omni-run and omni-perf, of a build with the played GPU."""

import json
import os
import re
import subprocess
import sys
import tarfile
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


class Fixture(unittest.TestCase):
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


class Report(Fixture):
    def test_all_of_a_small_net(self):
        self.write("python", PYTORCH)
        done = self.report("--steps", "suite", "trace", "compare", "--nets", "lenet:4", "--precisions", "bf16",
                           "--rounds", "1", "--block", "0.1", "--python", self.path("python"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, self.read("out", "report.md"))
        for step in ("suite-0", "time-lenet-bf16", "kernels-lenet-bf16", "idle-lenet-bf16", "compare-lenet-bf16"):
            self.assertRegex(done.stdout, rf"- {step}: ok ")
        self.assertRegex(done.stdout, r"\| lenet \| 4 \| bf16 \| \d+ \| [\d.]+ \([\d.]+ to [\d.]+; pytorch nhwc-\w+\) "
                                      r"\| \d+% \| [\d.]+% \|")
        self.assertIn("all is well", self.read("out", "suite-0.log"))
        self.assertIn("conv_forward", self.read("out", "kernels-lenet-bf16.log"))

    def test_what_fails_is_said_and_the_rest_is_done(self):
        self.write("bin/omni-gpu-check", "#!/bin/sh\necho wrong here >&2\nexit 3\n")
        done = self.report("--steps", "suite", "trace", "compare", "--nets", "nosuch:4", "lenet:4", "--precisions",
                           "tf32", "--python", self.path("nowhere"))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, r"- suite-0: exit code 3, see .*suite-0\.log")
        self.assertIn("wrong here", self.read("out", "suite-0.log"))
        self.assertRegex(done.stdout, r"- time-nosuch-tf32: exit code 2, see .*\n- compare-nosuch-tf32: exit code 2")
        self.assertIn("no Python at", self.read("out", "compare-lenet-tf32.log"))
        self.assertRegex(done.stdout, r"\| lenet \| 4 \| tf32 \| \d+ \|  \|  \| [\d.]+% \|")

    def test_tests_and_trainings_under_every_tool_of_the_sanitizer(self):
        self.write("compute-sanitizer", "#!/bin/sh\necho with: $*\n[ $2 = memcheck ] || exit 9\n")
        done = self.report("--steps", "sanitizer", "--precisions", "bf16", "--try", "lenet:8", "resnet-18-32:8",
                           PATH=f"{self.folder}:{os.environ['PATH']}")
        self.assertEqual(done.returncode, 1, done.stderr)
        for what in ("tests", "lenet-bf16", "resnet-18-32-bf16"):
            self.assertRegex(done.stdout, rf"- memcheck-{what}: ok ")
            self.assertRegex(done.stdout, rf"- racecheck-{what}: exit code 9, see .*\n(.*\n)*- synccheck-{what}: exit code 9")
        said = self.read("out", "memcheck-lenet-bf16.log")
        self.assertRegex(said, r"with: --tool memcheck --target-processes all --kernel-name kns=omni "
                               r"--report-api-errors no --print-limit 20 --error-exitcode 9 .*omni-run --net lenet ")
        said = self.read("out", "memcheck-tests.log")
        self.assertRegex(said, r"OMNI_LONGEST_TEST=1800 .*--gtest_filter=-FailingGpu\.\*:Training\.\*:\*ShippedNet\.\*")

    def test_what_hangs_is_ended(self):
        self.write("bin/omni-gpu-check", "#!/bin/sh\nsleep 600\n")
        done = self.report("--steps", "suite", "--limit", "1")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, r"- suite-0: took more than 1 s, see ")

    def test_nonsense_does_not_stop_the_rest(self):
        os.unlink(self.path("bin/omni-perf"))
        self.write("bin/omni-perf", "#!/bin/sh\necho '{\"workers\": []}'\n")
        done = self.report("--steps", "trace", "--nets", "lenet:4", "lenet:5", "--precisions", "tf32")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, r"- trace-lenet-4-tf32: its results cannot be read: StopIteration")
        self.assertRegex(done.stdout, r"- time-lenet-tf32: ok .*\n(.*\n)*- trace-lenet-5-tf32: its results")

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



# Plays every program: notes how it was called, and says what such a program says. What {ACTS} has for such a call sets
# the clock, and makes it fail or hang.
PLAYED = f"""#!{sys.executable}
import json, os, re, sys, time
words = " ".join([os.path.basename(sys.argv[0]), *sys.argv[1:]])
settings = [os.environ.get(each, "") for each in ("CUDA_LAUNCH_BLOCKING", "GTEST_SHARD_INDEX")]
with open(os.environ["CALLS"], "a") as calls:
    calls.write(":".join([*settings, words]) + "\\n")
for words_of_it, answer in (
        ("--version", "omni-run 7 (StarPU)"),
        (" --peaks", '{{"peaks": {{"gpu_gemm_flops_per_second": 7.76e14}}}}'),
        ("omni-run devices", '{{"gpus": [{{"name": "Played"}}]}}'),
        ("omni-run time", '{{"images_per_second": 4321}}'),
        ("omni-perf idle", '{{"workers": [{{"kind": "CUDA", "wall": 100, "parts": {{"compute": 98}}}}]}}')):
    if words_of_it in words:
        print(answer)
        break
for like, act in json.loads(os.environ["ACTS"]).items():
    if re.search(like, ":".join([*settings, words])):
        print(act.get("says", ""), flush=True)
        if "clock" in act:
            with open(os.environ["OMNI_REPORT_CLOCK"] + ".new", "w") as clock:
                clock.write(str(act["clock"]))
            os.replace(clock.name, os.environ["OMNI_REPORT_CLOCK"])
        if act.get("hangs"):
            time.sleep(600)
        sys.exit(act.get("code", 0))
"""


class Budget(Fixture):
    """With a clock that only programs move."""

    def setUp(self):
        super().setUp()
        for name in ("omni-run", "omni-perf", "omni-gpu-check"):
            with_no_link = self.path("bin", name)
            os.unlink(with_no_link)
            self.write(os.path.join("bin", name), PLAYED)
        os.mkdir(self.path("tools"))
        self.write("tools/compute-sanitizer", "#!/bin/sh\nwhile [ \"${1##*/bin/}\" = \"$1\" ]; do shift; done\n\"$@\"\n")

    def call(self, acts, *arguments):
        self.write("calls", "")
        self.write("clock", "0")
        done = self.report("--pack", self.path("pack"), *arguments, ACTS=json.dumps(acts), CALLS=self.path("calls"),
                           OMNI_REPORT_CLOCK=self.path("clock"), PATH=f"{self.path('tools')}:{os.environ['PATH']}")
        self.assertEqual(done.stdout, self.read("pack", "report.md"))
        self.assertEqual(sorted(os.listdir(self.path("pack"))), ["gpu-report.tar.gz", "report.md"])
        return done

    STEPS = ("--steps", "train", "peaks", "suite", "trace", "sanitizer", "--nets", "a:1", "b:2", "--shards", "2",
             "--try", "lenet:8")

    def test_the_most_valuable_comes_first_and_nothing_twice(self):
        # The first net takes more than its share, after which there is time for one more program.
        first = self.call({"time .*--net a": {"clock": 185, "hangs": True}, "idle": {"clock": 190}},
                          "--budget", "200", *self.STEPS)
        self.assertEqual(first.returncode, 1, first.stderr)
        names = re.findall(r"^- (\S+): ", first.stdout, re.MULTILINE)
        self.assertEqual(names[:8], ["train-lenet-fp32", "train-lenet-bf16", "peaks", "suite-0", "suite-1", "time-a-bf16",
                                     "time-b-bf16", "kernels-b-bf16"])
        self.assertRegex(first.stdout, r"- time-a-bf16: took more than 120 s, see ")
        self.assertRegex(first.stdout, r"- time-b-bf16: ok (.*\n)*- idle-b-bf16: ok .*\n- memcheck-lenet-bf16: no time left")
        self.assertIn("gpu_gemm_flops_per_second: 7.76e+14 (bf16)", first.stdout)
        self.assertIn("| b | 2 | bf16 | 4321 |  |  | 2.0% |", first.stdout)
        with tarfile.open(self.path("pack", "gpu-report.tar.gz")) as archive:
            self.assertLessEqual({"done.json", "models", "suite-1.log", "report.md"}, set(archive.getnames()))

        second = self.call({}, "--budget", "200", *self.STEPS)
        self.assertEqual(second.returncode, 0, second.stderr)
        self.assertRegex(second.stdout, r"- train-lenet-fp32: ok \(0 s\), in an earlier call")
        self.assertIn("gpu_gemm_flops_per_second: 7.76e+14 (bf16)", second.stdout)
        calls = [each for each in self.read("calls").splitlines() if "devices" not in each and "--version" not in each]
        self.assertRegex(calls[0], "omni-run time .*--net a ")
        self.assertEqual(len([each for each in calls if "--net b" in each or "--max-batches 20" in each]), 0)
        self.assertIn("| b | 2 | bf16 | 4321 |  |  | 2.0% |", second.stdout)

    def test_other_programs_begin_anew(self):
        for version in ("7", "8"):
            self.write("bin/omni-run", PLAYED.replace("omni-run 7", f"omni-run {version}"))
            self.call({}, "--budget", "200", "--steps", "peaks")
            self.assertIn(" --peaks ", self.read("calls"))

    def test_a_training_that_fails_is_explained_and_nothing_is_compared(self):
        done = self.call({"^:.*--precision bf16": {"code": 5, "says": "error: somewhere"},
                          "^1:.*--precision bf16": {"code": 5, "says": "error: codelet x, layer 3"}},
                         "--budget", "200", *self.STEPS)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, r"- train-lenet-bf16: exit code 5, see .*\n- train-lenet-bf16-blocking: exit code 5.*\n"
                                      r"- train-lenet-bf16-memcheck: exit code 5")
        self.assertIn("train-lenet-bf16-blocking: error: codelet x, layer 3", done.stdout)
        self.assertRegex(done.stdout, r"- suite-1: ok .*\n- trace-a-1-bf16: left out, since a short training failed")

    def test_tests_that_fail_run_again_alone(self):
        said = ("[ RUN      ] A.ends\n[       OK ] A.ends (3 ms)\n[ RUN      ] B.fails\n[  FAILED  ] B.fails (3 ms)\n"
                "[  PASSED  ] 41 tests.\n[ RUN      ] C/D.crashes/0\n")
        done = self.call({":1:omni-gpu-check": {"code": 134, "says": said}}, "--budget", "200", *self.STEPS[:2], "suite",
                         "--shards", "2")
        self.assertIn("suite: 41 tests passed\nsuite: failed: B.fails C/D.crashes/0\n", done.stdout)
        self.assertIn("1::omni-gpu-check --gtest_filter=B.fails:C/D.crashes/0\n", self.read("calls"))
        self.assertRegex(done.stdout, r"- suite-memcheck: ok")

    def test_a_comparison_that_is_cut_off_tells_what_it_has(self):
        for name, program in zip(("omni-run", "omni-perf"), PROGRAMS):
            os.unlink(self.path("bin", name))
            os.symlink(program, self.path("bin", name))
        self.write("python", PLAYED.replace("# Plays", "").replace("import json", f"import sys\nif sys.argv[1] == '-c':\n"
                                            "    print(9)\n    sys.exit()\nimport json"))
        done = self.call({"python .*--mode": {"clock": 500, "hangs": True}}, "--budget", "400", "--steps", "compare",
                         "--nets", "lenet:4", "--python", self.path("python"), "--modes", "nhwc-eager")
        self.assertRegex(done.stdout, r"- compare-lenet-bf16: took more than 160 s, see ")
        self.assertRegex(done.stdout, r"\| lenet \| 4 \| bf16 \| \d+ \|  \| \d+% \|  \|")


if __name__ == "__main__":
    PROGRAMS = [os.path.abspath(sys.argv.pop(1)) for _ in range(2)]
    unittest.main()
