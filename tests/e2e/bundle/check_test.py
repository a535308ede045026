"""What a bundle promises is looked at before it is handed out: apps/bundle/check-bundle passes a small one and says
what is wrong with others. Skipped where there is no C compiler or no readelf."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
SKIPPED = 77


class Check(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.makedirs(self.path("libexec"))
        os.makedirs(self.path("lib", "no-cuda"))
        os.makedirs(self.path("lib", "omnivore"))
        self.compile("libexec/program", "int main(void) { return 0; }", "-Wl,-rpath,$ORIGIN/../lib")
        self.compile("lib/libours.so.1", "int f(void) { return 0; }", "-shared", "-Wl,-rpath,$ORIGIN")
        self.compile("lib/no-cuda/libx.so", "int f(void) { return 0; }", "-shared")
        self.compile("lib/omnivore/libload.so", "int f(void) { return 0; }", "-shared", "-Wl,-rpath,$ORIGIN/..")
        self.archive_of(1 << 20)

    def path(self, *parts):
        return os.path.join(self.folder, "a bundle", *parts)

    def compile(self, name, source, *arguments):
        subprocess.run(["cc", "-fPIC", "-o", self.path(name), "-x", "c", "-", "-x", "none", *arguments], input=source,
                       text=True, check=True, timeout=60)

    def archive_of(self, size):
        with open(os.path.join(self.folder, "archive"), "wb") as file:
            file.truncate(size)

    def says(self, *expected):
        done = subprocess.run([os.path.join(ROOT, "apps", "bundle", "check-bundle"), os.path.join(self.folder, "archive"),
                               self.path()], capture_output=True, text=True, check=False, timeout=60)
        said = done.stderr.replace(self.folder, "").splitlines()
        self.assertEqual(said, [f"check-bundle: {line}" for line in expected])
        self.assertEqual((done.returncode, done.stdout), (1 if expected else 0, ""))

    def test_a_good_one_passes(self):
        self.says()

    def test_it_is_small(self):
        self.archive_of(60 * 1048576 - 1)
        self.says()
        self.archive_of(60 * 1048576)
        self.says("/archive has 60 MiB, and less than 60 are promised")

    def test_paths_begin_beside_the_program(self):
        for paths, wrong in (("/opt/lib", "/opt/lib"), ("$ORIGIN/../lib:/opt/lib:$ORIGIN", "/opt/lib"),
                             ("$ORIGINAL", "$ORIGINAL"), ("$ORIGIN/../../lib", "$ORIGIN/../../lib"), ("lib", "lib"),
                             ("$ORIGIN::$ORIGIN/../lib", "")):
            for kind in ("--enable-new-dtags", "--disable-new-dtags"):  # RUNPATH, RPATH
                self.compile("lib/libours.so.1", "int f(void) { return 0; }", "-shared", f"-Wl,{kind},-rpath,{paths}")
                self.says(f"/a bundle/lib/libours.so.1 looks for libraries in '{wrong}', not beside itself")
        self.setUp()
        self.compile("lib/omnivore/libload.so", "int f(void) { return 0; }", "-shared", "-Wl,-rpath,/opt/lib")
        self.says("/a bundle/lib/omnivore/libload.so looks for libraries in '/opt/lib', not beside itself")

    def test_nothing_needs_a_newer_glibc(self):
        for version, newer in (("2.4", False), ("2.36", False), ("2.37", True), ("2.100", True), ("3.0", True)):
            with open(self.path("versions"), "w", encoding="ascii") as file:
                file.write(f"GLIBC_{version} {{ from_glibc; }};\n")
            self.compile("played_libc.so", "int from_glibc(void) { return 0; }", "-shared", "-Wl,-soname,libplayed.so.6",
                         f"-Wl,--version-script,{self.path('versions')}")
            self.compile("lib/no-cuda/libx.so", "int puts(const char*); int from_glibc(void);"
                         "int f(void) { return puts(\"\") + from_glibc(); }", "-shared", self.path("played_libc.so"))
            self.says(*[f"/a bundle/lib/no-cuda/libx.so needs glibc {version}, and 2.36 is promised"] * newer)

    def test_what_it_cannot_read_is_no_success(self):
        with open(self.path("libexec", "program"), "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n")
        self.says("/a bundle/libexec/program cannot be read by readelf")

    def test_an_empty_folder_is_no_success(self):
        shutil.rmtree(self.path())
        os.makedirs(self.path())
        self.says("/a bundle holds no programs and libraries")


if __name__ == "__main__":
    if not shutil.which("cc") or not shutil.which("readelf"):
        print("skipped: no C compiler or no readelf")
        sys.exit(SKIPPED)
    unittest.main()
