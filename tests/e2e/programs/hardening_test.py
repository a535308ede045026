"""How the built programs are armoured, as their files say: position independent, no writable code, no stack that can be
executed, addresses of functions read-only after the start, guards of the stack, checks of buffers, and no search for
libraries in the working directory. First it proves that each lack is found. Called with the paths of the programs."""

import re
import subprocess
import sys
import tempfile


def lacks(path):
    """What the file does not have."""
    said = subprocess.run(["readelf", "-hldsW", path], check=True, capture_output=True, text=True, timeout=60).stdout
    segments = re.findall(r"^ +(\w+) +0x\w+ 0x\w+ 0x\w+ 0x\w+ 0x\w+ ([RWE ]{3})", said, re.M)
    flags = dict(segments)
    shared = "(SONAME)" in said or path.endswith(".so")
    found = {
        "position independence": re.search(r"^ +Type: +DYN ", said, re.M) is not None
                                 and (shared or re.search(r"FLAGS_1\).*\bPIE\b", said) is not None),
        "read-only relocations": "GNU_RELRO" in flags and re.search(r"\(FLAGS(_1)?\).*\bNOW\b", said) is not None,
        "a stack that is not executed": "E" not in flags.get("GNU_STACK", "E"),
        "code that is not written": not any(kind == "LOAD" and "W" in rights and "E" in rights
                                           for kind, rights in segments),
        "stack guards": "__stack_chk_fail" in said,
        "checked buffers": shared or re.search(r"\b__\w+_chk(@|\b)", said.replace("__stack_chk_fail", "")) is not None,
        "paths of its own": not any("" in paths.split(":") or not all(
            each.startswith(("/", "$ORIGIN")) for each in paths.split(":"))
                                    for paths in re.findall(r"\(R(?:UN)?PATH\).*\[(.*)\]", said)),
    }
    return [name for name, held in found.items() if not held]


SOURCE = """#include <stdio.h>
#include <string.h>
int main(int count, char** words) { char text[64]; strcpy(text, words[count - 1]); return puts(text) < 0; }
"""
GOOD = ["-O1", "-fPIE", "-pie", "-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2",
        "-Wl,-z,relro,-z,now,-z,noexecstack", "-Wl,--enable-new-dtags,-rpath,$ORIGIN:/opt/lib"]


def prove_that_it_sees():
    bad = {
        "position independence": ["-no-pie"],
        "read-only relocations": ["-Wl,-z,lazy"],
        "a stack that is not executed": ["-Wl,-z,execstack"],
        "stack guards": ["-fno-stack-protector"],
        "checked buffers": ["-U_FORTIFY_SOURCE"],
        "paths of its own": ["-Wl,-rpath,"],
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, more in {"": [], **bad}.items():
            path = f"{folder}/program"
            subprocess.run(["cc", "-o", path, "-x", "c", "-", *GOOD, *more], input=SOURCE, text=True, check=True, timeout=60)
            assert lacks(path) == ([name] if name else []), (name, lacks(path))


prove_that_it_sees()
failed = [f"{path} lacks {', '.join(missing)}" for path in sys.argv[1:] if (missing := lacks(path))]
sys.exit("\n".join(failed) or 0)
