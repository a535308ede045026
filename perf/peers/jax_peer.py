"""Measures JAX, which jax_net.py runs with the Python that has it."""

import json
import os
import shutil
import sys

from processes import Failed, Refused, checked, run

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jax_net.py")


def find_jax(named, wanted):
    """Returns the Python that imports jax, and the version of jax; None if it was not asked for and is not there."""
    python = named or os.environ.get("OMNI_TORCH_PYTHON") or sys.executable
    if shutil.which(python) is not None:
        told = run([python, "-c", "import jax; print(jax.__version__)"])
        if told.exit_code == 0:
            return python, told.output.strip()
    if wanted:
        raise Refused(f"{python} has no JAX: `pip install jax` into a virtual environment and name its Python with "
                      "--python")
    return None


class Jax:
    name = "jax"
    compiles = True

    def __init__(self, python, net, batch, threads, rate, parameters, device):
        self.parameters = parameters
        self.command = [python, SCRIPT, "--net", net, "--batch", batch, "--learning-rate", rate,
                        *device.pytorch_arguments]
        # As much memory as is needed, so that its peak can be read.
        self.environment = {"OMP_NUM_THREADS": str(threads), "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
                            "JAX_PLATFORMS": "cuda" if device.gpu else "cpu", **device.pytorch_environment}

    def measure(self, warm_up, iterations):
        finished = checked([*self.command, "--warm-up", warm_up, "--iterations", iterations], self.environment)
        told = json.loads(finished.output.strip().splitlines()[-1])
        if told["parameters"] != self.parameters:
            raise Failed(f"jax built a net of {told['parameters']} parameters, Omnivore has {self.parameters}")
        return {"seconds": told["seconds"], "peak_memory_bytes": told["peak_memory_bytes"],
                "others": finished.others}
