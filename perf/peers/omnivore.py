"""Measures Omnivore: calibrates its performance models until the choices settle, then runs `omni-run time`.
It also asks omni-run for the net's facts and the machine's peak."""

import json

from processes import checked

# The models want some ten runs of each of up to seven implementations, per shape; a slice is a run.
RUNS_WANTED = 70
FIRST_ITERATIONS, MORE_ITERATIONS, MAX_CALIBRATIONS = 20, 12, 8


class Omnivore:
    name = "omnivore"

    def __init__(self, program, net, batch, threads, rate, models, device):
        self.program, self.models = program, models
        # The worker of a GPU has a core of its own, and so has the thread that submits.
        self.workers = self.all_workers = max(1, threads - 2) if device.gpu else threads
        self.device_arguments = device.omnivore_arguments
        self.net_arguments = ["--net", net, "--batch", batch, "--subdivisions", 1, "--learning-rate", rate]
        self.settled = False

    def version(self):
        return checked([self.program, "--version"]).output.strip()

    def facts(self):
        """Returns what the dry run says of the net."""
        return json.loads(checked([self.program, "-q", "--json", "--dry-run", *self.net_arguments,
                                   *self.device_arguments]).output)

    def peak_flops_per_second(self):
        """Returns the rate of a matrix product on all threads, whatever a rank has of them. It runs in a process of
        its own, so that training's peak memory does not include its memory."""
        found = checked([self.program, "devices", "-q", "--json", "--peaks", "--workers", self.all_workers,
                         *self.device_arguments])
        peaks = json.loads(found.output)["peaks"]
        return peaks.get("gpu_gemm_flops_per_second", peaks["gemm_flops_per_second"])

    def time(self, warm_up, iterations, *more):
        finished = checked([self.program, "time", "-q", "--json", *self.net_arguments, "--workers",
                            self.workers, "--models", self.models, "--warm-up", warm_up,
                            "--iterations", iterations, *self.device_arguments, *more])
        return json.loads(finished.output), finished

    def calibrate(self, facts, say):
        """Runs until two runs in a row chose the same implementations for every layer; returns the
        seconds per iteration of the last one."""
        self.images_per_slice = facts["slices"][0]
        slices = -(facts["batch"] // -self.images_per_slice)
        before, warm_up = None, max(FIRST_ITERATIONS, -(RUNS_WANTED // -slices))
        for count in range(1, MAX_CALIBRATIONS + 1):
            told, _ = self.time(warm_up, 3)
            warm_up = MORE_ITERATIONS
            chosen = choices(told)
            changed = [index for index in chosen if before is None or chosen[index] != before.get(index)]
            say(f"calibration {count}: {1e3 * told['iteration_seconds']:.1f} ms per iteration, "
                f"choices changed in {len(changed)} of {len(chosen)} layers")
            if not changed:
                self.settled = True
                break
            before = chosen
        return told["iteration_seconds"]

    def measure(self, warm_up, iterations):
        # N + 1 iterations have N periods from one loss to the next.
        told, finished = self.time(warm_up, iterations + 1)
        return {"seconds": told["iteration_periods"], "peak_memory_bytes": finished.peak_memory,
                "others": finished.others,
                "implementations": {str(index): list(each) for index, each in choices(told).items()}}


def choices(told):
    return {layer["index"]: tuple(sorted(layer["implementations"])) for layer in told["layers"]
            if layer["index"] >= 0}
