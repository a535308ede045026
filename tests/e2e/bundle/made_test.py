"""A bundle is made of what this build has, unpacked elsewhere, and used: it trains, also on two ranks, and finds its
libraries without the build. Skipped where a tool is missing, or where glibc is newer than a bundle may need."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
BUILD = os.path.abspath(sys.argv.pop(1))
SKIPPED, NEWEST_GLIBC = 77, (2, 36)


class Made(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.realpath(folder.name)

    def run_there(self, *command):
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": self.folder, "STARPU_NCPU": "1"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment,
                              cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_it_runs_elsewhere(self):
        archive = os.path.join(self.folder, "a.tar.xz")
        self.run_there(os.path.join(ROOT, "apps", "bundle", "make-bundle"), BUILD, archive)
        elsewhere = os.path.join(self.folder, "any where")
        os.mkdir(elsewhere)
        self.run_there("tar", "-C", elsewhere, "--strip-components=1", "-xf", archive)
        libraries = [line.split(" => ") for line in self.run_there("ldd", elsewhere + "/libexec/omni-run").splitlines()
                     if "libstarpu" in line]
        self.assertTrue(libraries)
        for name, path in libraries:
            self.assertTrue(path.startswith(elsewhere + "/libexec/../lib/"), f"{name} comes from {path}")
        programs = elsewhere + "/bin"
        self.assertEqual(os.path.exists(programs + "/omni-gpu-check"), os.path.exists(BUILD + "/bin/gpu_tests"))
        said = self.run_there(programs + "/omni-run", "--net", "lenet", "--data", "synthetic:256", "--max-batches", "2",
                              "--trace", "trace")
        self.assertIn("test accuracy", said)
        self.run_there(programs + "/omni-perf", "summary", "trace")
        said = self.run_there(programs + "/mpiexec", "-n", "2", programs + "/omni-run", "devices")
        self.assertIn("link to rank 1", said)


def glibc():
    said = subprocess.run(["ldd", "--version"], capture_output=True, text=True, check=False).stdout
    return tuple(int(part) for part in re.search(r"(\d+)\.(\d+)$", said.splitlines()[0]).groups())


if __name__ == "__main__":
    missing = [tool for tool in ("patchelf", "readelf", "strip", "xz", "cc", "mpiexec.hydra") if not shutil.which(tool)]
    if missing or glibc() > NEWEST_GLIBC:
        print(f"skipped: {'no ' + missing[0] if missing else 'glibc is newer than a bundle may need'}")
        sys.exit(SKIPPED)
    unittest.main()
