"""A Device is where everyone trains, the CPUs or the first GPU, and in which precision."""

import json

from processes import Refused, checked


class Device:
    def __init__(self, kind, precision):
        self.gpu, self.precision, self.name = kind == "gpu", precision, "cpu"
        self.omnivore_arguments = ["--gpus", "0" if self.gpu else "none", "--precision", precision]
        self.pytorch_arguments = ["--device", kind, "--precision", precision]
        self.pytorch_environment = {"CUDA_VISIBLE_DEVICES": "0" if self.gpu else ""}

    def check(self, omni_run, peers):
        if not self.gpu and self.precision == "tf32":
            raise Refused("--precision tf32 is of GPUs: add --device gpu")
        if self.gpu or self.precision != "fp32":
            for peer in peers or []:
                if peer not in ("pytorch", "jax", "none"):
                    raise Refused(f"--peer {peer} is compared on CPUs in fp32 only: leave it out, "
                                  "or do without --device and --precision")
        if not self.gpu:
            return
        gpus = json.loads(checked([omni_run, "devices", "-q", "--json"]).output)["gpus"]
        if not gpus:
            raise Refused("--device gpu: omni-run finds no GPU (omni-run devices says why)")
        self.name = gpus[0]["name"]

    def describe(self):
        return f"{self.name} in {self.precision}" if self.gpu or self.precision != "fp32" else self.name
