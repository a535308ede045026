"""Where everyone trains: on the CPUs, or on the first GPU with a precision."""

import json

from processes import Refused, checked


class Device:
    def __init__(self, kind, precision):
        self.gpu, self.precision, self.name = kind == "gpu", precision, ""
        if self.gpu:
            self.omnivore_arguments = ["--gpus", "0", "--precision", precision]
            self.pytorch_arguments = ["--device", "gpu", "--precision", precision]
            self.pytorch_environment = {"CUDA_VISIBLE_DEVICES": "0"}
        else:
            self.omnivore_arguments = ["--gpus", "none"]
            self.pytorch_arguments = []
            self.pytorch_environment = {"CUDA_VISIBLE_DEVICES": ""}

    def check(self, omni_run, peers):
        if not self.gpu:
            if self.precision != "fp32":
                raise Refused("--precision is of GPUs: add --device gpu")
            return
        for peer in peers or []:
            if peer not in ("pytorch", "none"):
                raise Refused(f"--peer {peer} is compared on CPUs only: leave it out, or --device gpu")
        gpus = json.loads(checked([omni_run, "devices", "-q", "--json"]).output)["gpus"]
        if not gpus:
            raise Refused("--device gpu: omni-run finds no GPU (omni-run devices says why)")
        self.name = gpus[0]["name"]

    def describe(self):
        return f"{self.name} in {self.precision}" if self.gpu else "cpu"
