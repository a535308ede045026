"""What ./bootstrap and runtime/build-starpu say and refuse, in a copy where packages, StarPU and CMake are
played by small programs: nothing is installed or built. bootstrap_chroot.sh has the whole."""

import fcntl
import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PLAYED = {
    "bin/dpkg-query": 'for package; do printf "installed:%s " "$package"; done',
    "bin/cmake": ":",
    "bin/ctest": 'echo "ctest $*"',
    "clone/runtime/build-starpu": 'echo "$*" >>"$HOME/asked"; echo /nowhere',
}
NOBODY = 65534


class Bootstrap(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.clone = folder.name, os.path.join(folder.name, "clone")
        os.chmod(self.folder, 0o755)
        for name, text in PLAYED.items():
            path = os.path.join(self.folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="ascii") as file:
                file.write(f"#!/bin/sh\n{text}\n")
            os.chmod(path, 0o755)
        for name in ("bootstrap", "CMakePresets.json"):
            shutil.copy(os.path.join(ROOT, name), self.clone)

    def start(self, *arguments, program="bootstrap", **options):
        environment = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "HOME": self.folder,
                       **options.pop("environment", {})}
        return subprocess.Popen([os.path.join(self.clone, program), *arguments], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **options)

    def ends(self, exit_code, process):
        output, errors = process.communicate(timeout=30)
        self.assertEqual(process.returncode, exit_code, errors)
        return output + errors

    def test_it_builds(self):
        self.assertIn("[bootstrap] ready after", self.ends(0, self.start("build")))

    def test_some_tests_have_a_starpu_and_a_build_of_their_own(self):
        for tests, flavour, which in (("nodes", "opencl", "^nodes$"),
                                      ("simgrid", "simgrid", f"^simgrid_ -j {len(os.sched_getaffinity(0))}")):
            said = self.ends(0, self.start(tests, "-V"))
            folder = os.path.join(os.path.realpath(self.clone), f"build-{flavour}")
            self.assertIn(f"ctest --test-dir {folder} --output-on-failure -R {which} -V\n", said)
            with open(os.path.join(self.folder, "asked"), encoding="ascii") as asked:
                self.assertEqual(asked.read().splitlines()[-1], f"--{flavour} --find")

    def test_what_failed_is_said_last(self):
        with open(os.path.join(self.folder, "bin/ctest"), "w", encoding="ascii") as file:
            file.write("""#!/bin/sh
mkdir -p "$2/Testing/Temporary"; echo 'a_test.cpp:7: Failure
Which is: 3' >"$2/Testing/Temporary/LastTest.log"; exit 8
""")
        self.assertTrue(self.ends(8, self.start("test")).endswith("a_test.cpp:7: Failure\nWhich is: 3\n"))

    def test_jobs_of_slurm_are_no_part_of_all_tests(self):
        folder = os.path.join(os.path.realpath(self.clone), "build")
        self.assertIn(f"ctest --test-dir {folder} --output-on-failure -L ^slurm$ -V\n", self.ends(0, self.start("cluster", "-V")))
        self.assertIn(f"ctest --test-dir {folder} --output-on-failure -LE ^slurm$ -j ", self.ends(0, self.start("test")))

    def test_a_played_gpu_needs_the_toolkit_and_has_a_build_of_its_own(self):
        toolkit = os.path.join(self.folder, "cuda")
        os.makedirs(os.path.join(toolkit, "bin"))
        shutil.copy("/bin/true", os.path.join(toolkit, "bin", "nvcc"))
        said = self.ends(0, self.start("gpu", "-V", environment={"CUDA_HOME": toolkit}))
        folder = os.path.join(os.path.realpath(self.clone), "build-played-gpu")
        self.assertIn(f"ctest --test-dir {folder} --output-on-failure -L ^gpu$ -j {os.cpu_count()} -V\n", said)
        for command in ("gpu", "bundle"):
            for nothing in ("", self.folder):
                self.assertEqual("bootstrap: no CUDA toolkit was found (set CUDA_HOME); a GPU is not needed\n",
                                 self.ends(1, self.start(command, environment={"CUDA_HOME": nothing})))

    def test_the_second_says_for_whom_it_waits(self):
        os.mkdir(os.path.join(self.clone, "build"))
        with open(os.path.join(self.clone, "build", ".lock"), "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lock.write("4711\n")
            lock.flush()
            second = self.start("build")
            said = second.stderr.readline()
            self.assertEqual(said, f"[bootstrap] process 4711 is building in {os.path.realpath(self.clone)}/build; "
                                   "waiting until it is done\n")
            self.assertIsNone(second.poll())
        self.assertIn("ready after", self.ends(0, second))
        with open(os.path.join(self.clone, "build", ".lock"), encoding="ascii") as lock:
            self.assertEqual(lock.read(), f"{second.pid}\n")

    def cannot_write(self, **options):
        said = self.ends(1, self.start("build", **options))
        self.assertEqual(said, f"bootstrap: cannot write to {os.path.realpath(self.clone)}/build, where everything is "
                               "built\n  (make it yours, or clone to a place where you may write)\n")

    def test_a_clone_that_cannot_be_written(self):
        nobody = {"user": NOBODY} if os.getuid() == 0 else {}
        os.chmod(self.clone, 0o555)
        self.cannot_write(**nobody)  # no build folder can be made
        os.chmod(self.clone, 0o755)
        os.mkdir(os.path.join(self.clone, "build"), 0o555)
        self.cannot_write(**nobody)  # there is one, of somebody else
        os.rmdir(os.path.join(self.clone, "build"))

    def test_usage(self):
        for arguments, said in (((), "what shall be done?"), (("buidl",), "unknown argument 'buidl' (hint: run, test"),
                                (("build", "x"), "'build' takes no argument, got 'x'"),
                                (("site", "x"), "'site' takes no argument, got 'x'")):
            self.assertIn(said, self.ends(2, self.start(*arguments)))
        self.assertIn("usage: ./bootstrap run", self.ends(0, self.start("--help")))

    def test_build_starpu(self):
        shutil.copy(os.path.join(ROOT, "runtime", "build-starpu"), os.path.join(self.clone, "runtime"))
        program = "runtime/build-starpu"
        for asked in ("-h", "--help"):
            self.assertIn("usage: runtime/build-starpu [--opencl | --simgrid | --smpi] [--find", self.ends(0, self.start(asked, program=program)))
        for arguments in (("--hepl",), ("--opencl", "--hepl"), ("--simgrid", "--hepl")):
            self.assertIn("unknown arguments '--hepl' (runtime/build-starpu --help)",
                          self.ends(2, self.start(*arguments, program=program)))
        self.assertIn("cannot make /proc/omnivore, where StarPU is built: set OMNIVORE_CACHE to a folder of yours",
                      self.ends(1, self.start("--find", program=program,
                                              environment={"OMNIVORE_CACHE": "/proc/omnivore"})))


if __name__ == "__main__":
    unittest.main()
