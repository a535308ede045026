"""perf/compare without any peer installed: the nets are read as omni-run reads them, the figures follow from
made-up times, peers are played by small programs, and what is missing is refused.
Called with the path of omni-run."""

import json
import os
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import unittest
from unittest import mock
from xml.etree import ElementTree

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMPARE = os.path.join(ROOT, "perf", "compare")
NETS = os.path.join(ROOT, "apps", "nets")
sys.path.insert(0, os.path.join(ROOT, "perf", "peers"))

from bar_plot import svg
from darknet import LINE as DARKNET_LINE
from darknet_net import NetError, read_net
from caffe import LINE as CAFFE_LINE
from device import Device
from omnivore import Omnivore
from processes import physical_first, run
from ranks import Training
from summary import compare, summarise, table, training_flops, warnings

OMNI_RUN = ""


def block(*seconds, memory=2**20, others=0.0):
    return {"seconds": list(seconds), "peak_memory_bytes": memory, "others": others}


def made_up():
    """Three rounds; in the last one the better peer is not the fastest."""
    blocks = {"omnivore": [block(1.0, 9.0, 1.0), block(2.0), block(1.0)],
              "slow": [block(4.0), block(4.0), block(1.5)],
              "good": [block(3.0), block(2.0), block(3.0, memory=2**21, others=0.5)]}
    contenders = {name: summarise(each, 6, flops=12, peak=24) for name, each in blocks.items()}
    return {"contenders": contenders, **compare(contenders), "batch": 6, "rounds": 3, "net": "a<b",
            "threads": 2, "date": "today", "cpu": "some", "placement_settled": True, "not_measured": []}


class Nets(unittest.TestCase):
    def test_all_shipped_nets_are_read_as_omni_run_reads_them(self):
        nets = sorted(each for each in os.listdir(NETS) if each.endswith(".cfg"))
        self.assertGreaterEqual(len(nets), 9)
        for name in nets:
            path = os.path.join(NETS, name)
            told = json.loads(subprocess.run([OMNI_RUN, "-q", "--json", "--dry-run", "--net", path],
                                             capture_output=True, text=True, check=True).stdout)
            net = read_net(path)
            ours = [(each.kind, list(each.source), list(each.output), each.parameters) for each in net.layers]
            theirs = [(each["type"], each["input"], each["output"], each["parameters"])
                      for each in told["layers"]]
            self.assertEqual(ours, theirs, name)
            self.assertEqual(net.parameters, told["parameters"], name)

    def test_what_no_peer_knows_is_refused_with_its_place(self):
        for text, said in (("[region]\n", "2: peers know no [region]"),
                           ("[conv]\nfilters=x\n", "2: filters=x is not a number"),
                           ("[shortcut]\nfrom=-3\n", "2: there is no layer -3 before it"),
                           ("[conv]\nsize=3\n[shortcut]\nfrom=0\n[avgpool]\n[shortcut]\nfrom=0", "7: peers add only"),
                           ("words\n", "2: expected [section]")):
            with tempfile.NamedTemporaryFile("w", suffix=".cfg") as file:
                file.write("[net] \n" + text)
                file.flush()
                with self.assertRaises(NetError) as caught:
                    read_net(file.name)
                self.assertIn(said, str(caught.exception))


class Figures(unittest.TestCase):
    def test_medians_within_a_block_and_over_the_rounds(self):
        ours = made_up()["contenders"]["omnivore"]
        self.assertEqual(ours["seconds"], [1.0, 2.0, 1.0])
        self.assertEqual(ours["median_seconds"], 1.0)
        self.assertEqual(ours["images_per_second"], 6.0)
        self.assertEqual(ours["fraction_of_peak"], 0.5)

    def test_the_better_peer_is_chosen_once_and_rounds_are_paired(self):
        result = made_up()
        self.assertEqual(result["better_peer"], "good")
        self.assertEqual(result["contenders"]["good"]["ratios"], [3.0, 1.0, 3.0])
        self.assertEqual((result["ratio"], result["ratio_spread"]), (3.0, [1.0, 3.0]))
        self.assertEqual(result["contenders"]["slow"]["ratio"], 2.0)

    def test_without_a_peer_there_is_no_ratio(self):
        alone = {"omnivore": summarise([block(1.0)], 1, 1, 1)}
        self.assertEqual(compare(alone)["ratio"], None)

    def test_training_flops_leave_out_the_gradient_of_the_images(self):
        layers = [{"forward_flops_per_image": 5.0, "parameters": 0},
                  {"forward_flops_per_image": 10.0, "parameters": 1},
                  {"forward_flops_per_image": 100.0, "parameters": 1}]
        self.assertEqual(training_flops({"batch": 2, "layers": layers}), 2 * (2 * 10 + 3 * 100))

    def test_table_and_plot_hold_everyone(self):
        result = made_up()
        words = table(result)
        self.assertIn("3.00 times as fast as good (1.00 to 3.00 in 3 rounds)", words)
        self.assertIn("in 1 round)", table({**result, "rounds": 1}))
        tree = ElementTree.fromstring(svg(result))
        shown = [each.text for each in tree.iter("{http://www.w3.org/2000/svg}text")]
        for name in result["contenders"]:
            self.assertIn(name, words)
            self.assertIn(name, shown)

    def test_a_busy_machine_and_unsettled_models_are_said(self):
        result = {**made_up(), "placement_settled": False}
        self.assertIn("had not settled", warnings(result)[0])
        self.assertEqual(len(warnings(result)), 1)  # one disturbed block of three is not the median
        result["contenders"]["slow"]["cpu_share_of_others"] = 0.4
        self.assertIn("others used 40%", warnings(result)[1])


class Logs(unittest.TestCase):
    def test_darknet(self):
        log = ("Loaded: 0.000025 seconds\n1, 0.250: 2.302585, 2.302585 avg, 0.000000 rate, 1.250000 seconds, 4 images\n"
               "Loaded: 0.1 seconds\n2, 0.500: -nan, 2.3 avg, 0.1 rate, 0.750000 seconds, 8 images\n")
        self.assertEqual([float(each) for _, each in DARKNET_LINE.findall(log)], [1.25, 0.75])

    def test_caffe(self):
        log = ("I1121 15:00:01.500000 7 solver.cpp:239] Iteration 3 (0.5 iter/s, 2.5s/1 iters), loss = 2.3\n"
               "I1121 15:00:01.600000 7 solver.cpp:258]     Train net output #0: loss = 2.3\n"
               "I20261121 15:00:04.000000 7 solver.cpp:231] Iteration 4, loss = 2.2\n"
               "I20261121 15:00:04.100000 7 sgd_solver.cpp:106] Iteration 4, lr = 0.1\n")
        self.assertEqual(CAFFE_LINE.findall(log), [("15", "00", "01.500000", "3"),
                                                     ("15", "00", "04.000000", "4")])


class Processes(unittest.TestCase):
    def test_what_a_program_said_and_how_it_ended(self):
        finished = run([sys.executable, "-c", "import sys; print('out'); sys.exit('wrong')"])
        self.assertEqual((finished.output, finished.errors, finished.exit_code), ("out\n", "wrong\n", 1))
        self.assertGreater(finished.peak_memory, 2**20)

    @mock.patch("processes.PATIENCE", 600)
    def test_what_a_program_did_not_wait_for_counts_as_its_own(self):
        # As under mpiexec: the one that works is no child of the one that is waited for.
        work = "import time\nwhile time.process_time() < 0.5: pass\nbytearray(2**26)"
        starts = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]])"
        left = run([sys.executable, "-c", starts, work])
        self.assertGreaterEqual(left.cpu_seconds, 0.5)
        self.assertGreater(left.peak_memory, 2**26)
        between = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1], sys.argv[2]])"
        self.assertGreaterEqual(run([sys.executable, "-c", between, starts, work]).cpu_seconds, 0.5)
        waits = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
        self.assertGreaterEqual(run([sys.executable, "-c", waits, work]).cpu_seconds, 0.5)

    @unittest.skipUnless(shutil.which("mpiexec.mpich") or shutil.which("mpiexec.hydra"), "no MPICH")
    @mock.patch("processes.PATIENCE", 600)
    def test_the_time_of_ranks_is_no_time_of_others(self):
        mpiexec = shutil.which("mpiexec.mpich") or shutil.which("mpiexec.hydra")
        work = "import time\nwhile time.process_time() < 0.4: pass"
        finished = run([mpiexec, "-n", 2, sys.executable, "-c", work])
        self.assertEqual(finished.exit_code, 0, finished.errors)
        self.assertGreaterEqual(finished.cpu_seconds, 0.8)

    def test_the_peak_of_ranks_is_that_of_all_their_cores(self):
        asked = []
        with mock.patch("omnivore.checked", lambda words: asked.append(words) or mock.Mock(
                output='{"peaks": {"gemm_flops_per_second": 7}}')), \
             mock.patch("ranks.find_mpiexec", lambda: "mpiexec"):
            omnivore = Omnivore("omni-run", "net", 8, 4, 0.1, "", Device("cpu", "fp32"))
            for ranks in (1, 2, 4):
                training = Training(omnivore, ranks, 8, 4)
                self.assertEqual(training.workers, 4 // ranks)
                self.assertEqual(training.peak_flops_per_second(), 7)
        self.assertEqual([words[words.index("--workers") + 1] for words in asked], [4, 4, 4])

    def test_the_worker_of_a_gpu_has_its_core_to_itself(self):
        for kind, workers in (("gpu", 10), ("cpu", 12)):
            self.assertEqual(Omnivore("", "", 1, 12, 0.1, "", Device(kind, "bf16")).workers, workers)
        self.assertEqual(Omnivore("", "", 1, 2, 0.1, "", Device("gpu", "bf16")).workers, 1)

    def test_every_cpu_once(self):
        self.assertEqual(sorted(physical_first({0, 1, 5})), [0, 1, 5])


# Plays the Python that has PyTorch: version, or a block; {mode} decides what goes wrong.
PLAYED_PYTHON = """#!{python}
import json, sys
if sys.argv[1] == "-c":
    print("9.9")
    sys.exit()
told = dict(zip(sys.argv[2::2], sys.argv[3::2]))
if told.get("--mode") == "nhwc-compile":
    sys.exit("no compiler that it likes")
print(json.dumps({{"parameters": {parameters}, "seconds": [0.5] * int(told["--iterations"]),
                  "peak_memory_bytes": 1000, "fused_sgd": True}}))
"""
PLAYED_SLOW_PYTHON = """#!{python}
import os, sys, time
if sys.argv[1] == "-c":
    print("9.9")
    sys.exit()
with open(os.environ["MARK"], "w") as mark:
    mark.write(str(os.getpid()))
time.sleep(600)
"""
PLAYED_CAFFE = """#!{python}
import re, sys
if sys.argv[1] == "--version":
    print("caffe version 1.0.0")
    sys.exit()
assert sys.argv[1] == "train"
count = int(re.search(r"max_iter: (\\d+)", open(sys.argv[2].split("=")[1]).read())[1])
for i in range(count):
    print(f"I1130 23:59:{{59 + i / 2 if i < 2 else (i - 2) / 2:09.6f}} 7 solver.cpp:1] Iteration {{i}}, loss = 2",
          file=sys.stderr)
"""
SMALL = ["--net", "lenet", "--batch", "4", "--threads", "1", "--rounds", "2", "--iterations", "2"]
LENET_PARAMETERS = 431080


class Command(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def played(self, name, text, **values):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text.format(python=sys.executable, **values))
        os.chmod(self.path(name), 0o755)
        return self.path(name)

    def compare(self, *arguments):
        environment = {key: value for key, value in os.environ.items() if key != "OMNI_TORCH_PYTHON"}
        environment["CXX"] = sys.executable  # there is one; nothing is compiled
        return subprocess.run([COMPARE, "--omni-run", OMNI_RUN, *arguments],
                              capture_output=True, text=True, check=False, env=environment)

    def refused(self, said, *arguments):
        finished = self.compare(*arguments)
        self.assertEqual(finished.returncode, 2, finished.stderr)
        self.assertIn(said, finished.stderr)

    def test_a_peer_that_is_missing_or_cannot_is_refused(self):
        nowhere = self.path("nowhere")
        self.refused("no darknet at", *SMALL, "--peer", "darknet", "--darknet", nowhere)
        self.refused("apt-get install darknet", *SMALL, "--peer", "darknet", "--darknet", nowhere)
        self.refused("no Python at", *SMALL, "--python", nowhere)
        self.refused("pip install torch", *SMALL, "--python", "false")
        self.refused("--caffe PATH and --caffe-model FILE", *SMALL, "--peer", "caffe")
        self.refused("no caffe at", *SMALL, "--peer", "caffe", "--caffe", nowhere, "--caffe-model", COMPARE)
        self.refused("no such file", *SMALL, "--peer", "caffe", "--caffe", "true", "--caffe-model", nowhere)
        self.refused("colour images", *SMALL, "--peer", "darknet", "--darknet", "true")
        self.refused("always global", *SMALL[2:], "--net", "cifar10-quick", "--peer", "darknet", "--darknet", "true")

    def test_what_a_gpu_comparison_cannot_do_is_refused(self):
        self.refused("tf32 is of GPUs: add --device gpu", *SMALL, "--precision", "tf32")
        self.refused("on CPUs in fp32 only", *SMALL, "--device", "gpu", "--peer", "darknet")
        self.refused("on CPUs in fp32 only", *SMALL, "--precision", "bf16", "--peer", "darknet")

    def test_an_uncommon_peer_or_mode_that_is_missing_is_refused(self):
        python = self.played("python", PLAYED_PYTHON, parameters=LENET_PARAMETERS)
        self.refused("nhwc-autotune is of GPUs: add --device gpu", *SMALL, "--python", python, "--modes", "nhwc-autotune")
        self.refused("has no JAX: `pip install jax`", *SMALL, "--peer", "jax", "--python", "false")

    def test_jax_is_a_contender(self):
        python = self.played("python", PLAYED_PYTHON, parameters=LENET_PARAMETERS)
        finished = self.compare(*SMALL, "--peer", "jax", "--python", python, "--json", "-")
        self.assertEqual(finished.returncode, 0, finished.stderr)
        result = json.loads(finished.stdout)
        self.assertEqual(list(result["contenders"]), ["omnivore", "jax"])
        self.assertEqual(result["versions"]["jax"], "9.9")

    def test_what_ranks_cannot_share_is_refused(self):
        shared = ["--net", "lenet", "--batch", "4", "--threads", "2"]
        self.refused("--batch 4: 3 ranks cannot share it evenly (take a multiple of 3)", *shared, "--ranks", "3")
        self.refused("--threads 2: 4 ranks cannot share it evenly", *shared, "--ranks", "4")
        self.refused("leave out --device", *shared, "--ranks", "2", "--device", "gpu", "--peer", "none")
        self.refused("darknet does not train over several processes", *shared, "--ranks", "2", "--peer", "darknet")

    @unittest.skipUnless(shutil.which("mpiexec.mpich") or shutil.which("mpiexec.hydra"), "no MPICH")
    @unittest.skipUnless(len(os.sched_getaffinity(0)) > 1, "needs two CPUs")
    def test_ranks_are_compared_with_one_process_and_ddp(self):
        python = self.played("python", PLAYED_PYTHON, parameters=LENET_PARAMETERS)
        finished = self.compare(*SMALL, "--threads", "2", "--ranks", "2", "--python", python, "--json", "-")
        self.assertEqual(finished.returncode, 0, finished.stderr)
        result = json.loads(finished.stdout)
        self.assertEqual(list(result["contenders"]), ["omnivore 2 ranks", "omnivore 1 rank", "pytorch ddp nchw-eager",
                                                      "pytorch ddp nhwc-eager"])
        for told in result["contenders"].values():
            self.assertEqual([len(each) for each in told["block_seconds"]], [2, 2])
        self.assertEqual(result["contenders"]["omnivore 1 rank"]["ratio"], statistics.median(
            one / ranks for one, ranks in zip(*(result["contenders"][name]["seconds"] for name in
                                                ("omnivore 1 rank", "omnivore 2 ranks")))))

    def test_wrong_usage_is_refused(self):
        self.refused("no such file", "--net", "nosuch")
        self.refused("unknown mode 'fast'", *SMALL, "--modes", "fast")
        self.refused("at least 1", "--net", "lenet", "--rounds", "0")
        self.refused("this process may use", "--net", "lenet", "--threads", "9999", "--peer", "none")
        self.refused("no omni-run at", *SMALL, "--omni-run", self.path("nowhere"))

    def test_a_result_that_cannot_be_written_is_refused_before_measuring(self):
        python = self.played("python", PLAYED_SLOW_PYTHON)  # as a peer it would take ten minutes
        nowhere = self.path("nowhere/result")
        for option in ("--json", "--plot"):
            self.refused(f"{option} {nowhere} cannot be written: No such file or directory (choose another place)",
                         *SMALL, "--python", python, option, nowhere)
            self.refused(f"{option} {self.folder.name} cannot be written: Is a directory", *SMALL, option,
                         self.folder.name)
        # Neither emptied nor left behind when another thing is wrong.
        with open(self.path("before"), "w", encoding="ascii") as file:
            file.write("results of last week")
        self.refused("no Python at", *SMALL, "--python", nowhere, "--json", self.path("before"), "--plot",
                     self.path("plot.svg"))
        with open(self.path("before"), encoding="ascii") as file:
            self.assertEqual(file.read(), "results of last week")
        self.assertFalse(os.path.exists(self.path("plot.svg")))

    def test_without_python_it_says_so(self):
        os.mkdir(self.path("bin"))
        for tool in ("sh", "dirname", "readlink"):
            os.symlink(shutil.which(tool), self.path("bin/" + tool))
        finished = subprocess.run([COMPARE, "--help"], capture_output=True, text=True, check=False,
                                  env={"PATH": self.path("bin")})
        self.assertEqual(finished.returncode, 2)
        self.assertEqual(finished.stderr,
                         "compare: needs python3 (apt-get install python3; ./bootstrap test installs it, too)\n")

    def test_a_whole_comparison(self):
        python = self.played("python", PLAYED_PYTHON, parameters=LENET_PARAMETERS)
        caffe = self.played("caffe", PLAYED_CAFFE)
        with open(self.path("net.prototxt"), "w", encoding="ascii") as file:
            file.write("layer { dummy_data_param { shape { dim: 4 dim: 1 } } }")
        finished = self.compare(*SMALL, "--peer", "pytorch", "--python", python, "--peer", "caffe", "--caffe",
                                caffe, "--caffe-model", self.path("net.prototxt"), "--json", "-", "--plot",
                                self.path("plot.svg"))
        self.assertEqual(finished.returncode, 0, finished.stderr)
        result = json.loads(finished.stdout)
        self.assertEqual(list(result["contenders"]), ["omnivore", "pytorch nchw-eager", "pytorch nhwc-eager",
                                                      "pytorch nchw-compile", "caffe"])
        self.assertIn("nhwc-compile does not work here", result["not_measured"][0])
        self.assertEqual(result["versions"]["pytorch"], "9.9")
        self.assertEqual(result["versions"]["caffe"], "caffe version 1.0.0")
        for told in result["contenders"].values():
            self.assertEqual([len(each) for each in told["block_seconds"]], [2, 2])
        self.assertEqual(result["contenders"]["caffe"]["seconds"], [0.5, 0.5])
        low, high = result["ratio_spread"]
        self.assertLessEqual(low, result["ratio"])
        self.assertLessEqual(result["ratio"], high)
        self.assertGreater(result["peak_flops_per_second"], 1e6)
        self.assertGreater(result["contenders"]["omnivore"]["peak_memory_bytes"], 10 * 2**20)
        self.assertIn("times as fast as", finished.stderr)  # the table, since stdout is taken
        ElementTree.parse(self.path("plot.svg"))

    def test_stopped_it_leaves_nothing_behind_and_tells_what_it_has(self):
        python = self.played("python", PLAYED_SLOW_PYTHON)
        os.mkfifo(self.path("mark"))
        mark = os.open(self.path("mark"), os.O_RDWR)  # does not wait for who writes
        self.addCleanup(os.close, mark)
        stopped = subprocess.Popen([COMPARE, "--omni-run", OMNI_RUN, *SMALL, "--python", python,
                                    "--modes", "nchw-eager", "--json", self.path("told")], stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, "TMPDIR": self.folder.name, "MARK": self.path("mark")})
        while not select.select([mark], [], [], 0.1)[0]:  # until the contender runs
            self.assertIsNone(stopped.poll(), "it ended before the contender was started")
        contender = int(os.read(mark, 100))
        stopped.terminate()
        self.assertIn("interrupted", stopped.communicate()[1])
        self.assertEqual(stopped.returncode, 1)
        self.assertFalse([each for each in os.listdir(self.folder.name) if each.startswith("omnivore-")])
        with self.assertRaises(ProcessLookupError):
            os.kill(contender, 0)
        with open(self.path("told"), encoding="utf-8") as file:
            told = json.load(file)
        self.assertEqual(list(told["contenders"]), ["omnivore"])
        self.assertEqual(told["ratio"], None)
        self.assertEqual(told["not_measured"], ["pytorch nchw-eager was not measured before the end"])

    def test_a_peer_with_another_net_fails(self):
        python = self.played("python", PLAYED_PYTHON, parameters=7)
        finished = self.compare(*SMALL, "--python", python, "--modes", "nchw-eager")
        self.assertEqual(finished.returncode, 1, finished.stderr)
        self.assertIn("built a net of 7 parameters, Omnivore has 431080", finished.stderr)

    def test_a_mode_that_was_asked_for_and_fails_is_an_error(self):
        python = self.played("python", PLAYED_PYTHON, parameters=LENET_PARAMETERS)
        finished = self.compare(*SMALL, "--python", python, "--modes", "nhwc-compile")
        self.assertEqual(finished.returncode, 1, finished.stderr)
        self.assertIn("no compiler that it likes", finished.stderr)


if __name__ == "__main__":
    OMNI_RUN = os.path.abspath(sys.argv.pop(1))
    if not os.access(OMNI_RUN, os.X_OK):
        sys.exit(f"compare_test: no omni-run at {OMNI_RUN} (build it: cmake --build build --target omni-run)")
    unittest.main()
