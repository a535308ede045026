"""Measures PyTorch: every mode is a contender, which pytorch_net.py runs with the Python that has torch."""

import json
import os
import shutil
import sys

from processes import Failed, Refused, checked, run

CPU_MODES = ("nchw-eager", "nhwc-eager", "nchw-compile", "nhwc-compile")
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pytorch_net.py")


# On a GPU only these are worth the time: its matrix units want channels last. `autotune` is the mode max-autotune of
# torch.compile: it times kernels for every product, and replays whole passes as CUDA graphs.
GPU_MODES = ("nhwc-eager", "nhwc-compile", "nhwc-autotune")
MODES = (*CPU_MODES, "nhwc-autotune")
MOST_COMPILERS = 12


def find_python(named):
    """Returns the Python that imports torch, and the version of torch."""
    python = named or os.environ.get("OMNI_TORCH_PYTHON") or sys.executable
    if shutil.which(python) is None:
        raise Refused(f"no Python at {python}: name the one that has PyTorch with --python")
    told = run([python, "-c", "import torch; print(torch.__version__)"])
    if told.exit_code != 0:
        raise Refused(f"{python} has no PyTorch: `pip install torch` into a virtual environment and name "
                      "its Python with --python or $OMNI_TORCH_PYTHON")
    return python, told.output.strip()


class PyTorch:
    def __init__(self, python, net, batch, threads, rate, mode, cache, parameters, device, ranks=1):
        self.name = f"pytorch {mode}" if ranks == 1 else f"pytorch ddp {mode}"
        self.mode, self.parameters = mode, parameters
        self.compiles = not mode.endswith("eager")
        if mode.endswith("autotune") and not device.gpu:
            raise Refused(f"mode {mode} is of GPUs: add --device gpu")
        if self.compiles and shutil.which(os.environ.get("CXX", "g++")) is None:
            raise Refused(f"{mode} needs a C++ compiler: install g++, or leave it out of --modes")
        self.command = [python, SCRIPT, "--net", net, "--batch", batch // ranks, "--threads", threads // ranks,
                        "--mode", mode, "--learning-rate", rate, *device.pytorch_arguments]
        if ranks > 1:
            self.command += ["--ranks", ranks]
        # On CPUs a pool of compilers would keep the cores busy while we measure.
        compilers = min(MOST_COMPILERS, threads) if device.gpu else 1
        self.environment = {"OMP_NUM_THREADS": str(threads // ranks), "TORCHINDUCTOR_CACHE_DIR": cache,
                            "TORCHINDUCTOR_COMPILE_THREADS": str(compilers),
                            **device.pytorch_environment}

    def measure(self, warm_up, iterations):
        finished = checked([*self.command, "--warm-up", warm_up, "--iterations", iterations],
                           self.environment)
        told = json.loads(finished.output.strip().splitlines()[-1])
        if told["parameters"] != self.parameters:
            raise Failed(f"{self.name} built a net of {told['parameters']} parameters, "
                         f"Omnivore has {self.parameters}")
        # The script measures its own peak: the kernel's figure would count the compiler that it starts.
        return {"seconds": told["seconds"], "peak_memory_bytes": told["peak_memory_bytes"],
                "others": finished.others, "fused_sgd": told["fused_sgd"]}
