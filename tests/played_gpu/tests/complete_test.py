"""Every function of CUDA and cuBLAS that libstarpu calls is one that is played: else the real library would
answer, which knows no device."""

import re
import subprocess
import sys

program, library = sys.argv[1:]


def symbols(path, kind):
    """Names of dynamic symbols: 'U' what is needed, 'T' what is there."""
    lines = subprocess.run(["nm", "--dynamic", path], check=True, capture_output=True, text=True).stdout
    return {match[1] for match in re.finditer(rf" {kind} ((?:cuda|cublas|cudnn)\w+)", lines)}


needed, played = symbols(library, "U"), symbols(program, "T")
if len(needed) < 20:
    sys.exit(f"this test is broken: {library} needs only {sorted(needed)}")
missing = sorted(needed - played)
if missing:
    sys.exit(f"StarPU calls what tests/played_gpu does not define: {' '.join(missing)}")
if real := sorted(symbols(program, "U")):
    sys.exit(f"{program} takes from a real library: {' '.join(real)}")
print(f"{len(needed)} functions that StarPU calls, {len(played)} played")
