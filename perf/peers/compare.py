"""Runs Omnivore and its peers on the same net, batch and threads, one after the other and again, and says
who is how much faster: medians, the ratio to the better peer, peak memory, share of the machine's peak.
perf/compare starts it."""

import argparse
import contextlib
import datetime
import json
import os
import shlex
import signal
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

from bar_plot import svg
from caffe import Caffe, find_caffe
from darknet import Darknet, find_darknet
from darknet_net import NetError, read_net
from omnivore import Omnivore
from processes import Failed, Refused, pin
from device import Device
import ranks
from jax_peer import Jax, find_jax
from pytorch import CPU_MODES, GPU_MODES, MODES, PyTorch, find_python
from summary import compare, counted, summarise, table, training_flops, warnings

DESCRIPTION = """\
Trains the same net with Omnivore and with its peers and compares them: same mini-batch, same CPUs, synthetic
input, whole iterations (forward, backward, SGD with momentum and weight decay, dropout on; a hundredth of the
net's learning rate, so that nothing diverges)."""

DETAILS = """\
How it measures. Every contender is a process of its own in every round: A B C, A B C, ... All are pinned to the
same CPUs, one per core first. A block is the median of its iterations; a contender's figure is the median of
its blocks; the ratio is the median over the rounds of Omnivore's images/s over those of the better peer, which
is the peer (or mode of it) with the best median over all rounds; the spread is its smallest and largest round.

Input. PyTorch trains on one fixed mini-batch of floats, made before. Omnivore's images lie in memory as bytes
(two mini-batches) and are shuffled and turned into floats by tasks within the iteration, so it pays a little for
input that PyTorch does not. darknet reads small PPM files while it trains, Caffe what its model says.

Omnivore first runs until two runs in a row chose the same implementations for all layers: models in --models.
Its iterations overlap: a period is from one iteration's loss to the next one's.

PyTorch's modes are NCHW or channels-last, eager or compiled; SGD is fused where it can be. On a GPU they are channels
last, eager, compiled, and compiled with max-autotune, which replays CUDA graphs; up to 12 processes compile. JAX is
compiled as one step, channels last; on a GPU it is measured if the Python that has PyTorch has JAX, too. Peak memory
is that of the whole process, libraries included; a build with CUDA has larger ones.

Peak: a matrix product on the same threads in the same rounds, the best of them. Flops of an iteration: three times
the forward products, less the gradient of the images.

With --device gpu everyone trains on the first GPU: Omnivore with CPU workers for its input, two fewer than --threads,
PyTorch's iterations timed by events in the stream, without waiting for the loss; its memory is that on the GPU then, and
the peak is a matrix product of that precision on it. In bf16 PyTorch trains under torch.autocast.

With --ranks N everyone shares each mini-batch among N processes on this machine: Omnivore's ranks, one Omnivore
process with as many workers in all, and PyTorch's DistributedDataParallel over gloo, eager. CPUs are shared evenly.
Omnivore trains then (the times are those of its metrics), and peak memory is that of the largest process.

Whoever is interrupted (Ctrl-C, SIGTERM) reports what was measured until then.

Exit codes: 0 compared, 1 a run failed or was interrupted, 2 usage, or a peer that is not there."""

# Everyone trains with this share of the net's learning rate, so that nothing diverges.
SLOWER = 0.01


def say(words):
    print(f"compare: {words}", file=sys.stderr, flush=True)


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def modes(text):
    chosen = text.split(",")
    for each in chosen:
        if each not in MODES:
            raise argparse.ArgumentTypeError(f"unknown mode '{each}'; known: {' '.join(MODES)}")
    return chosen


def parse(arguments):
    parser = argparse.ArgumentParser(prog="compare", description=DESCRIPTION, epilog=DETAILS,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--net", required=True, help="net description (.cfg): a file, or the name of a shipped net")
    add("--batch", type=positive, help="images per mini-batch; default: the net's")
    add("--device", choices=["cpu", "gpu"], default="cpu", help="default: cpu")
    add("--precision", choices=["fp32", "tf32", "bf16"], default="fp32",
        help="of what is multiplied; tf32 on a GPU only; default: fp32")
    add("--threads", type=positive, help="CPUs for everyone; default: all that this process may use")
    add("--peer", action="append", choices=["pytorch", "jax", "darknet", "caffe", "none"],
        help="whom to compare with, may be repeated; default: pytorch, on a GPU also jax if it is there")
    add("--ranks", type=positive, metavar="N", help="processes that share each mini-batch; default: one, and no "
        "launcher")
    add("--modes", type=modes, metavar="MODE,...",
        help=f"of PyTorch; default: all that work of {' '.join(CPU_MODES)}, on a GPU of {' '.join(GPU_MODES)}")
    add("--rounds", type=positive, default=5, help="default: 5")
    add("--block", type=float, default=10, metavar="SECONDS",
        help="choose the iterations so that Omnivore's block takes about so long; default: 10")
    add("--iterations", type=positive, help="measured iterations per block, instead of --block")
    add("--warm-up", type=positive, help="iterations before that; default: a tenth, at least 3")
    add("--omni-run", default=os.path.join(ROOT, "build", "bin", "omni-run"), metavar="PATH",
        help="default: the one in build/")
    add("--models", metavar="FOLDER", help="Omnivore's performance models; default: a new folder")
    add("--python", metavar="PATH", help="Python with PyTorch; default: $OMNI_TORCH_PYTHON, else this one")
    add("--darknet", metavar="PATH", help="default: darknet")
    add("--caffe", metavar="PATH", help="Caffe's program")
    add("--caffe-model", metavar="FILE", help="the same net as prototxt, with its own input")
    add("--json", metavar="FILE", help="write everything there; -: to stdout, and the table to stderr")
    add("--plot", metavar="FILE.svg", help="draw it")
    return parser.parse_args(arguments)


def check_writable(option, path):
    """Refuses a path now, not after all the measuring. A file that is there stays as it is."""
    existed = os.path.lexists(path)
    try:
        with open(path, "ab"):
            pass
    except OSError as problem:
        raise Refused(f"{option} {path} cannot be written: {problem.strerror} (choose another place)") from None
    if not existed:
        os.unlink(path)


def find_net(name):
    folder = os.path.join(ROOT, "apps", "nets")
    for path in (name, os.path.join(folder, name), os.path.join(folder, name + ".cfg")):
        if os.path.isfile(path):
            return os.path.abspath(path)
    raise Refused(f"--net {name}: no such file, and none in {folder}")


def cpu_model():
    with contextlib.suppress(OSError, StopIteration):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    return "unknown CPU"


def find_peers(arguments, batch):
    """Returns {peer: (program, version)}. A missing peer is refused now, before minutes of measuring."""
    found = {}
    for peer in arguments.peer or ["pytorch"]:
        if peer == "pytorch":
            found[peer] = find_python(arguments.python)
        elif peer == "jax":
            found[peer] = find_jax(arguments.python, wanted=True)
        elif peer == "darknet":
            found[peer] = find_darknet(arguments.darknet)
        elif peer == "caffe":
            found[peer] = find_caffe(arguments.caffe, arguments.caffe_model, batch)
    asked = arguments.peer or arguments.modes  # who names a peer or modes wants these alone
    jax = find_jax(arguments.python, wanted=False) if arguments.device == "gpu" and not asked else None
    return {**found, "jax": jax} if jax else found


def make_peers(arguments, found, net, path, batch, threads, rate, folder, device):
    for peer, (program, _) in found.items():
        own = os.path.join(folder, peer)
        os.makedirs(own)
        if peer == "pytorch":
            usual = GPU_MODES if device.gpu else ranks.MODES if arguments.ranks else CPU_MODES
            for mode in arguments.modes or usual:
                yield PyTorch(program, path, batch, threads, rate, mode, own, net.parameters, device,
                              arguments.ranks or 1)
        elif peer == "jax":
            yield Jax(program, path, batch, threads, rate, net.parameters, device)
        elif peer == "darknet":
            yield Darknet(program, net, path, batch, threads, rate, own)
        else:
            yield Caffe(program, net, arguments.caffe_model, threads, rate, own)


class Comparison:
    def __init__(self, arguments, folder):
        path = find_net(arguments.net)
        net = read_net(path)
        batch = arguments.batch or net.options.integer("batch", 1)
        threads = arguments.threads or len(os.sched_getaffinity(0))
        if not os.access(arguments.omni_run, os.X_OK):
            raise Refused(f"no omni-run at {arguments.omni_run}: `./bootstrap build`, or name it with "
                          "--omni-run")
        if arguments.ranks:
            ranks.check(arguments.ranks, batch, threads, arguments.device, arguments.peer)
        device = Device(arguments.device, arguments.precision)
        device.check(arguments.omni_run, arguments.peer)
        found = find_peers(arguments, batch)
        self.cpus = pin(threads)
        rate = SLOWER * net.options.real("learning_rate", 0.001)
        self.omnivore = Omnivore(arguments.omni_run, path, batch, threads, rate,
                                 arguments.models or os.path.join(folder, "models"), device)
        self.facts = self.omnivore.facts()
        if net.parameters != self.facts["parameters"]:
            raise Failed(f"read as {net.parameters} parameters here, {self.facts['parameters']} by Omnivore")
        ours = [self.omnivore]
        if arguments.ranks:
            ours = [ranks.Training(self.omnivore, count, batch, threads) for count in (arguments.ranks, 1)]
            self.omnivore = ours[0]
        self.contenders = [*ours, *make_peers(arguments, found, net, path, batch, threads, rate,
                                                      folder, device)]
        self.device = device
        self.arguments, self.batch, self.threads = arguments, batch, threads
        self.versions = {"omnivore": self.omnivore.version(),
                         **{peer: version for peer, (_, version) in found.items()}}
        self.blocks = {each.name: [] for each in self.contenders}
        self.not_measured, self.peaks = [], []

    def lengths(self, seconds):
        """Returns the warm-up and the measured iterations of a block."""
        iterations = self.arguments.iterations or max(5, min(2000, round(self.arguments.block / seconds)))
        return self.arguments.warm_up or max(3, iterations // 10), iterations

    def run(self):
        seconds = [each.calibrate(self.facts, say) for each in self.contenders if hasattr(each, "calibrate")]
        self.warm_up, self.iterations = self.lengths(seconds[0])
        for number in range(1, self.arguments.rounds + 1):
            self.peaks.append(self.omnivore.peak_flops_per_second())
            for each in list(self.contenders):
                self.measure(each, number)

    def measure(self, contender, number):
        try:
            block = contender.measure(self.warm_up, self.iterations)
        except Failed as problem:
            # Not everyone has a compiler that PyTorch likes; the eager modes remain.
            if number > 1 or self.arguments.modes or not getattr(contender, "compiles", False):
                raise
            self.not_measured.append(f"{contender.name} does not work here: {problem}")
            self.contenders.remove(contender)
            return
        self.blocks[contender.name].append(block)
        middle = sorted(block["seconds"])[len(block["seconds"]) // 2]
        say(f"round {number}: {contender.name} {self.batch / middle:.1f} images/s")

    def tells_something(self):
        return bool(self.blocks[self.omnivore.name])

    def cut_off(self):
        """Returns what was measured until now; the last round may lack some contenders."""
        unknown = [each.name for each in self.contenders if not self.blocks[each.name]]
        self.not_measured += [f"{each} was not measured before the end" for each in unknown]
        return self.result()

    def result(self):
        peak = max(self.peaks)
        flops = training_flops(self.facts)
        contenders = {name: summarise(blocks, self.batch, flops, peak)
                      for name, blocks in self.blocks.items() if blocks}
        better = compare(contenders, self.omnivore.name)
        return {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
                "command": shlex.join(["perf/compare", *sys.argv[1:]]), "versions": self.versions,
                "device": self.device.describe(), "cpu": cpu_model(), "cpus": self.cpus, "net": self.facts["net"],
                "parameters": self.facts["parameters"], "batch": self.batch, "threads": self.threads,
                "rounds": self.arguments.rounds, "warm_up": self.warm_up, "iterations": self.iterations,
                "peak_flops_per_second": peak, "training_flops_per_iteration": flops, **better,
                "placement_settled": self.omnivore.settled,
                "images_per_slice": self.omnivore.images_per_slice,
                "implementations": self.blocks[self.omnivore.name][-1]["implementations"],
                "not_measured": self.not_measured, "contenders": contenders}


def headline(result):
    versions = ", ".join(f"{name}: {version}" for name, version in result["versions"].items())
    where = "" if result["device"] == "cpu" else f"{result['device']}, "
    return (f"{result['net']}, batch {result['batch']}, {where}{counted(result['threads'], 'thread')} on CPUs "
            f"{result['cpus']}, {result['cpu']}, {1e-9 * result['peak_flops_per_second']:.0f} GFLOP/s at best\n"
            f"{result['date']}; {versions}\n{result['command']}")


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def report(arguments, result):
    words = f"{headline(result)}\n{table(result)}"
    print(words, file=sys.stderr if arguments.json == "-" else sys.stdout)
    for each in warnings(result):
        say(f"note: {each}")
    if arguments.json == "-":
        print(json.dumps(result, indent=2))
    elif arguments.json:
        write(arguments.json, json.dumps(result, indent=2) + "\n")
    if arguments.plot:
        write(arguments.plot, svg(result))


def interrupted(*_):
    raise KeyboardInterrupt


def main():
    arguments = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, interrupted)  # the contender must not be left running
    try:
        for option, path in (("--json", arguments.json), ("--plot", arguments.plot)):
            if path and path != "-":
                check_writable(option, path)
        with tempfile.TemporaryDirectory(prefix="omnivore-compare-") as folder:
            comparison = Comparison(arguments, folder)
            try:
                comparison.run()
            except KeyboardInterrupt:
                if comparison.tells_something():
                    report(arguments, comparison.cut_off())
                raise
            report(arguments, comparison.result())
    except (Refused, NetError) as problem:
        say(problem)
        return 2
    except (Failed, OSError) as problem:
        say(problem)
        return 1
    except KeyboardInterrupt:
        say("interrupted")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
