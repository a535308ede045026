"""What is installed needs nothing of the machine's StarPU build: the library lies beside the programs, no
path leads out of the folder, and omni-run starts while the folder that it was linked from is hidden.
Called with the paths of cmake, the build folder and its omni-run."""

import os
import re
import subprocess
import sys
import tempfile


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120, **options).stdout


def starpu_of(program):
    """Where the loader finds its StarPU."""
    return os.path.realpath(re.search(r"libstarpu\S* => (\S+)", run("ldd", program))[1])


def can_hide():
    return subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0


def main(cmake, build, omni_run):
    linked = os.path.dirname(starpu_of(omni_run))
    ours = not linked.startswith(("/lib", "/usr/lib"))
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(os.path.realpath(folder), "installed")
        # It may be moved afterwards.
        run(cmake, "--install", build, "--prefix", prefix + "-at-first")
        os.rename(prefix + "-at-first", prefix)
        for program in ("omni-run", "omni-perf"):
            path = os.path.join(prefix, "bin", program)
            for found in re.findall(r"R(?:UN)?PATH\).*\[(.*)\]", run("readelf", "-d", path)):
                assert found == "$ORIGIN/../lib/omnivore", f"{program} searches {found}"
            assert linked not in run("ldd", path) or not ours, f"{program} needs {linked}"
        installed = os.path.join(prefix, "bin", "omni-run")
        if ours:
            assert starpu_of(installed).startswith(prefix), starpu_of(installed)
        library = os.path.join(prefix, "lib", "omnivore", "libomni_sched.so")
        assert "[$ORIGIN]" in run("readelf", "-d", library), f"{library} searches elsewhere"
        if ours:
            assert starpu_of(library).startswith(prefix), starpu_of(library)
        start, hidden = [installed, "devices", "--workers", "1"], "the system's StarPU is used"
        if ours and can_hide():
            empty = os.path.join(folder, "empty")
            os.mkdir(empty)
            start = ["unshare", "-rm", "sh", "-c", 'mount --bind "$1" "$2" && shift 2 && exec "$@"', "sh", empty,
                     linked, *start]
            hidden = f"{linked} hidden"
        elif ours:
            hidden = f"{linked} could not be hidden: no user namespaces here"
        devices = run(*start, env={**os.environ, "STARPU_HOME": folder})
        assert "CPU 0" in devices, devices
        dry = run(installed, "--net", "lenet", "--dry-run", env={**os.environ, "STARPU_HOME": folder}, cwd=folder)
        assert "431080" in dry, dry
        machines = os.path.join(prefix, "share", "omnivore", "machines")
        assert "8-gpus.json" in os.listdir(machines), machines
        if os.path.exists(os.path.join(build, "share", "man")):
            for path in ("man/man1/omni-run.1", "bash-completion/completions/omni-perf", "zsh/site-functions/_omni-run"):
                assert os.path.exists(os.path.join(prefix, "share", path)), path
    print(f"installed programs start by themselves ({hidden})")


if __name__ == "__main__":
    main(*sys.argv[1:])
