"""The launcher of a bundle: which CUDA libraries it finds on a host, what it says of those that are not there, and
what omni-gpu-check makes of its two programs. Hosts are played: nothing of this machine's CUDA and Python is seen."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
BUNDLE = os.path.join(ROOT, "apps", "bundle")
CUDA = ("libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13")
CUDNN = "libcudnn.so.9"
COMPILER = "libnvrtc.so.13"
EVERYTHING = (*CUDA, CUDNN, COMPILER)

TELLS = 'printf "%s\\n" "$LD_LIBRARY_PATH" "${OMNI_MISSING_CUDA_LIBRARIES-nothing}" "$@"\n'
# Of omni-gpu-check: what it was asked, and a status that the test chooses.
CHECKS = 'echo "${0##*/}:$#:$*"\necho "$GTEST_RANDOM_SEED" >>"$HOME/seeds"\nexit $%s\n'
LISTS = '[ "$*" != --gtest_list_tests ] || { echo "$SAYS"; exit "$LISTING"; }\n'
STARTS_WITH_STAND_INS = f"""#!{sys.executable}
import ctypes
library = ctypes.CDLL("libcudart.so.13")
library.cudaGetErrorString.restype = ctypes.c_char_p
print(library.cudaGetDeviceCount(), library.cudaGetErrorString(100).decode())
"""


class Host(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.realpath(folder.name)
        self.bundle = self.path("bundle with a blank")
        self.stand_ins = os.path.join(self.bundle, "lib", "no-cuda")
        # The one place that it knows by heart is played by another folder.
        with open(os.path.join(BUNDLE, "launcher"), encoding="ascii") as file:
            launcher = file.read()
        self.assertIn(" /usr/local/cuda ", launcher)
        launcher = launcher.replace("/usr/local/", self.path("usr-local/"))
        for program in ("omni-run", "omni-gpu-check"):
            self.write(os.path.join(self.bundle, "bin", program), launcher)
        self.program("omni-run", TELLS)
        self.program("gradcheck_tests", CHECKS % "CODELETS")
        self.program("gpu_tests", LISTS + CHECKS % "TRAININGS")
        self.write(self.path("tools", "ldconfig"), "#!/bin/sh\n")
        self.write(self.path("tools", "python3"), "#!/bin/sh\n")

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def write(self, path, text):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def program(self, name, text):
        self.write(os.path.join(self.bundle, "libexec", name), "#!/bin/sh\n" + text)

    def libraries(self, folder, names=EVERYTHING):
        for name in names:
            self.write(os.path.join(folder, name), "")
        return folder

    def python(self, path, packages):
        """Python itself, which finds what is in `packages` and nothing of this machine's."""
        self.write(path, f'#!/bin/sh\nPYTHONPATH="{packages}" exec "{sys.executable}" -S "$@"\n')

    def start(self, *arguments, program="omni-run", **environment):
        done = subprocess.run([os.path.join(self.bundle, "bin", program) if "/" not in program else program, *arguments],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60,
                              env={"PATH": f"{self.path('tools')}:/usr/bin:/bin", "HOME": self.folder, **environment})
        self.assertEqual(done.stderr, "")
        return done

    def searched(self, *arguments, **environment):
        """The folders where omni-run is told to look for libraries."""
        done = self.start(*arguments, **environment)
        self.assertEqual(done.returncode, 0)
        folders, missing = done.stdout.splitlines()[:2]
        self.assertEqual(missing, "nothing")
        return folders.split(":")


class Libraries(Host):
    def test_the_folders_that_the_user_names_come_first(self):
        cuda = self.libraries(self.path("my cuda"), (*CUDA, COMPILER))
        cudnn = self.libraries(self.path("my cudnn"), (CUDNN,))
        for other in (self.path("usr-local", "cuda", "lib64"), self.path("toolkit", "lib64"), self.path("old")):
            self.libraries(other)
        found = self.searched(OMNI_CUDA_LIBRARIES=f"{cuda}:{cudnn}", CUDA_HOME=self.path("toolkit"),
                              LD_LIBRARY_PATH=self.path("old"))
        self.assertEqual(found, [cuda, cudnn, self.path("old")])

    def test_those_of_the_environment_come_next(self):
        old = self.libraries(self.path("old with a blank"))
        self.libraries(self.path("toolkit", "lib64"))
        nothing_there = self.path("empty")
        found = self.searched(LD_LIBRARY_PATH=f"{nothing_there}:{old}", CUDA_HOME=self.path("toolkit"))
        self.assertEqual(found, [old, nothing_there, old])

    def test_toolkits_in_their_order(self):
        places = ("home/lib64", "home/lib", "path/lib64", "usr-local/cuda/lib64", "usr-local/cuda-13.1/lib64")
        places = [self.libraries(self.path(place)) for place in places]
        for place in places:
            self.assertEqual(self.searched(CUDA_HOME=self.path("home"), CUDA_PATH=self.path("path")), [place])
            shutil.rmtree(place)

    def test_what_the_loader_knows(self):
        system, other = self.libraries(self.path("system"), (*CUDA, COMPILER)), self.libraries(self.path("x"), (CUDNN,))
        self.write(self.path("tools", "ldconfig"), "#!/bin/sh\n" + '[ "$*" = -p ] || exit 1\n' + "".join(
            f"printf '\\t%s (libc6,x86-64) => %s\\n' {name} '{folder}/{name}'\n"
            for name, folder in (("libc.so.6", self.path("nowhere")), (CUDA[0], system), (CUDNN, other))))
        self.assertEqual(self.searched(), [system, other])

    def test_wheels_of_a_python(self):
        packages = self.path("lib", "my python", "site-packages")
        cuda = self.libraries(os.path.join(packages, "nvidia", "cu13", "lib"), (*CUDA, COMPILER))
        cudnn = self.libraries(os.path.join(packages, "nvidia", "cudnn", "lib"), (CUDNN,))
        self.python(self.path("tools", "python3"), packages)
        self.assertEqual(sorted(self.searched()), [cuda, cudnn])

    def test_wheels_of_a_virtual_environment_rather_than_of_the_system(self):
        for python, packages in (("venv/bin", "in-venv"), ("tools", "in-system")):
            self.libraries(self.path(packages, "nvidia", "all", "lib"))
            self.python(self.path(python, "python3"), self.path(packages))
        self.assertEqual(self.searched(VIRTUAL_ENV=self.path("venv")), [self.path("in-venv", "nvidia", "all", "lib")])
        self.assertEqual(self.searched(VIRTUAL_ENV=self.path("gone")), [self.path("in-system", "nvidia", "all", "lib")])

    def test_parts_from_several_places(self):
        mine = self.libraries(self.path("mine"), (CUDNN,))
        toolkit = self.libraries(self.path("usr-local", "cuda", "lib64"))
        self.assertEqual(self.searched(OMNI_CUDA_LIBRARIES=mine), [mine, toolkit])

    def test_what_compiles_kernels_may_be_missing(self):
        folder = self.libraries(self.path("cuda"), (*CUDA, CUDNN))
        self.assertEqual(self.searched(OMNI_CUDA_LIBRARIES=folder), [folder])

    def test_one_missing_library_is_named_and_played_by_stand_ins(self):
        for missing in (*CUDA, CUDNN):
            folder = self.libraries(self.path(missing), [name for name in EVERYTHING if name != missing])
            told = self.start(OMNI_CUDA_LIBRARIES=folder, LD_LIBRARY_PATH="/mine").stdout.splitlines()
            self.assertEqual(told, [f"{self.stand_ins}:/mine", missing])

    def test_a_name_from_outside_does_not_count(self):
        folder = self.libraries(self.path("cuda"))
        self.assertEqual(self.searched(OMNI_CUDA_LIBRARIES=folder, OMNI_MISSING_CUDA_LIBRARIES="libx.so"), [folder])

    def test_started_through_a_link_from_elsewhere(self):
        os.symlink(os.path.join(self.bundle, "bin", "omni-run"), self.path("omni-run"))
        os.symlink("../omni-run", self.path("tools", "omni-run"))
        for link in (self.path("omni-run"), self.path("tools", "omni-run")):
            self.assertEqual(self.start(program=link).stdout.splitlines()[0], self.stand_ins)

    def test_arguments_and_status_are_handed_on(self):
        self.program("omni-run", TELLS + "exit 3\n")
        done = self.start("--net", "my net.cfg", "", "*")
        self.assertEqual((done.stdout.splitlines()[2:], done.returncode), (["--net", "my net.cfg", "", "*"], 3))

    @unittest.skipUnless(shutil.which("cc"), "no C compiler")
    def test_a_stand_in_says_which_are_missing(self):
        with open(self.path("symbols"), "w", encoding="ascii") as file:
            file.write("cudaGetDeviceCount libcudart.so.13\ncudaGetErrorString libcudart.so.13\n")
        os.makedirs(self.stand_ins)
        subprocess.run([os.path.join(BUNDLE, "make-stand-in"), self.path("symbols"),
                        os.path.join(self.stand_ins, "libcudart.so.13")], check=True, timeout=60)
        self.write(os.path.join(self.bundle, "libexec", "omni-run"), STARTS_WITH_STAND_INS)
        folder = self.libraries(self.path("cuda"), CUDA[1:])
        self.assertEqual(self.start(OMNI_CUDA_LIBRARIES=folder).stdout,
                         f"100 its libraries were not found on this host: libcudart.so.13 {CUDNN}\n")


class GpuCheck(Host):
    def check(self, *arguments, codelets=0, trainings=0, listing=0, **environment):
        self.libraries(self.path("usr-local", "cuda", "lib64"))
        done = self.start(*arguments, program="omni-gpu-check", CODELETS=str(codelets), TRAININGS=str(trainings),
                          LISTING=str(listing), SAYS="the listing", **environment)
        return [line for line in done.stdout.splitlines() if not line.startswith("GTEST_RANDOM_SEED=")], done.returncode

    def seeds(self):
        with open(self.path("seeds"), encoding="ascii") as file:
            return [int(line) for line in file]

    def test_values_are_drawn_anew_unless_a_seed_is_given(self):
        self.check()
        first, second = self.seeds()
        self.assertEqual(first, second)
        self.assertTrue(1 <= first <= 99999)
        self.check(GTEST_RANDOM_SEED="42")
        self.assertEqual(self.seeds()[2:], [42, 42])

    def test_codelets_come_first_and_trainings_whatever_they_say(self):
        for codelets, trainings, status in ((0, 0, 0), (1, 0, 1), (0, 1, 1), (134, 1, 134), (1, 134, 134),
                                            (1, 77, 1), (77, 1, 1), (139, 77, 139), (0, 77, 77), (77, 0, 77), (77, 77, 77)):
            with self.subTest(codelets=codelets, trainings=trainings):
                self.assertEqual(self.check(codelets=codelets, trainings=trainings),
                                 (["gradcheck_tests:0:", "gpu_tests:0:"], status))

    def test_arguments_go_to_both(self):
        self.assertEqual(self.check("--gtest_filter=-A.*:B C.*", "--x"),
                         (["gradcheck_tests:2:--gtest_filter=-A.*:B C.* --x",
                           "gpu_tests:2:--gtest_filter=-A.*:B C.* --x"], 0))

    def test_both_list_their_tests(self):
        self.assertEqual(self.check("--gtest_list_tests"),
                         (["gradcheck_tests:1:--gtest_list_tests", "the listing"], 0))

    def test_without_a_gpu_nothing_runs(self):
        self.assertEqual(self.check(listing=77), (["the listing"], 77))

    def test_a_program_that_cannot_even_list_does_not_keep_the_other_from_running(self):
        self.assertEqual(self.check(listing=127, trainings=127), (["gradcheck_tests:0:", "gpu_tests:0:"], 127))

    def test_without_libraries_it_names_them(self):
        folder = self.libraries(self.path("cuda"), CUDA[:2])
        done = self.start(program="omni-gpu-check", OMNI_CUDA_LIBRARIES=folder)
        self.assertEqual((done.stdout, done.returncode),
                         (f"skipped: no GPU (not found: libcublasLt.so.13 {CUDNN})\n", 77))


if __name__ == "__main__":
    unittest.main()
