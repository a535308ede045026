"""A build that plays a GPU says what it lacks, where that is so."""

import subprocess
import sys
import tempfile

cmake, source = sys.argv[1:]


def check(lacking, said):
    """`lacking`: cache variables as CMake would have them where something was not found."""
    with tempfile.TemporaryDirectory() as build:
        run = subprocess.run([cmake, "--preset", "played-gpu", "-S", source, "-B", build, f"-D{lacking}="],
                             cwd=source, capture_output=True, text=True)
    output = " ".join((run.stdout + run.stderr).split())
    if run.returncode != 1 or said not in output:
        sys.exit(f"without {lacking}: exit code {run.returncode}, and not '{said}':\n{run.stdout}{run.stderr}")


check("OMNI_CUDA_HEADERS", "OMNI_CUDA=PLAYED, but cuda_runtime.h or cudnn.h was not found (set CUDAToolkit_ROOT)")
check("OMNI_CUDNN_HEADERS", "OMNI_CUDA=PLAYED, but cuda_runtime.h or cudnn.h was not found (set CUDAToolkit_ROOT)")
check("omni_starpu_cuda", "OMNI_CUDA=PLAYED, but this StarPU was built without CUDA "
      "(runtime/build-starpu builds one with it when CUDA_HOME is set)")
