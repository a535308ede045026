"""What `omni-run plan --nodes` forecasts for one synchronous group, against a simulation of the nodes on StarPU-MPI
over SMPI. Both take the same seconds and bytes: the simulation checks how they are combined. Needs Debian's
libsimgrid-dev and xsltproc, and builds a StarPU of its own once.

usage: node_iterations.py OMNI_RUN NET BATCH NODES LINK [OPTION OF SIMGRID...]
       node_iterations.py build/bin/omni-run cifar10-quick 100 8,16 1gbit:50us
"""

import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.insert(0, os.path.join(ROOT, "perf", "peers"))

from darknet_net import affine_parameters, normalises, read_net

WORKERS = 2
SETTLING, MEASURED = 3, 6  # iterations
ADDED = 10e9 / 3  # bytes of gradients per second that a worker adds to others: two reads and a write
# The forecast's link has the rate and the latency that messages get: SMPI must not change them.
OPTIONS = ["--cfg=smpi/bw-factor:0:1", "--cfg=smpi/lat-factor:0:1", "--log=root.thres:error"]
NODE = {  # what StarPU wants to know of a node; it has cores only
    "config": f"# Cores\n{WORKERS + 1} # Number of CPUs\n1 # Number of NUMA nodes\n" + "".join(
        f"0 # Number of {kind} nodes\n" for kind in ("CUDA", "OpenCL", "FPGA", "Disk", "MPI_MS", "TCPIP_MS", "HIP")),
    "bandwidth": "# memories\n0" + "\tnan" * 15 + "\n" + ("nan\t" * 16 + "\n") * 15,
    "latency": "# memories\n0" + "\tnan" * 15 + "\n" + ("nan\t" * 16 + "\n") * 15,
    "affinity": "# GPU\tNUMA0\n",
    "platform.v4.xml": "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM 'simgrid.dtd'>\n<platform version='4.1'>\n"
    "<AS id='AS0' routing='Full'>\n" + "".join(f"<host id='{name}' speed='1e9f'/>\n" for name in (
        "MAIN", "RAM", *(f"CPU{core}" for core in range(WORKERS + 1)))) + "</AS>\n</platform>\n"}


def output(*command, **environment):
    run = subprocess.run([str(each) for each in command], capture_output=True, text=True, check=False,
                         env={**os.environ, **environment})
    return run.stdout if run.returncode == 0 else sys.exit(f"{command[0]} failed:\n{run.stderr}")


def put(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="ascii") as file:
        file.write(text)
    return file.name


def parts_of(net):
    """(layer, bytes) of what has one owner; connected layers as choose_connected_blocks cuts them"""
    parts = []
    for layer in net.layers:
        if layer.kind not in ("convolutional", "connected"):
            continue
        outputs, blocks = layer.output[2], 1
        affine = affine_parameters(layer.section, outputs)
        weights = layer.parameters - affine
        if layer.kind == "connected" and weights >= 1 << 20 and not normalises(layer.section):
            blocks = 8
        width = outputs if blocks == 1 else -(-outputs // blocks // 16) * 16
        for first in range(0, outputs, width):
            own = min(width, outputs - first)
            parts += [(layer.index, 4 * own * weights // outputs)] + [(layer.index, 4 * own)] * (affine // outputs)
    return parts


def pieces_of(parts, nodes):
    """As piece_values() cuts them"""
    wanted = max(4 * (65536 // min(max(nodes, 4), 16)), 4 * (sum(size for _, size in parts) // 4 // (2 * nodes)))
    pieces = []
    for layer, size in parts:
        width = -(-size // max(1, (size + wanted // 2) // wanted) // 256) * 256
        pieces += [(layer, min(width, size - first)) for first in range(0, size, width)]
    return pieces


def deal(parts, nodes):
    """The owner of each part, and bytes by owner: the largest first, to who owns least."""
    owners, owned = [0] * len(parts), [0] * nodes
    for at in sorted(range(len(parts)), key=lambda at: -parts[at][1]):
        owners[at] = owned.index(min(owned))
        owned[owners[at]] += parts[at][1]
    return owners, owned


def simulated(folder, starpu, nodes, link, numbers, options):
    """Seconds of an iteration"""
    cluster = (f"\n\n<cluster id='nodes' prefix='n' suffix='' radical='0-{nodes - 1}' speed='1Gf' "
               f"sharing_policy='SPLITDUPLEX' bw='{link['bytes_per_second']}Bps' "
               f"lat='{link['latency_seconds'] / 2}s'/>\n")
    hosts = "".join(f"n{node}\n" for node in range(nodes))
    told = output(os.path.join(starpu, "bin", "starpu_smpirun"), "-np", nodes, "-platform",
                  put(folder, "cluster", cluster), "-hostfile", put(folder, "hosts", hosts),
                  os.path.join(folder, "simulation"), put(folder, "numbers", numbers), *OPTIONS, *options,
                  STARPU_PERF_MODEL_DIR=folder, STARPU_HOSTNAME="node", STARPU_NCPU=str(WORKERS),
                  STARPU_MPI_NDETACHED_SEND="0")  # Omnivore starts all messages at once
    times = [float(line) for line in told.split()]
    return (times[-1] - times[SETTLING]) / (len(times) - 1 - SETTLING)


def main(program, name, batch, nodes, link, *options):
    build = os.path.join(ROOT, "runtime", "build-starpu")
    output(build, "--smpi")
    packages = {"PKG_CONFIG_PATH": output(build, "--smpi", "--find").strip()}
    starpu = output("pkg-config", "--variable=prefix", "starpumpi-1.4", **packages).strip()
    flags = output("pkg-config", "--static", "--cflags", "--libs", "starpumpi-1.4", **packages).split()
    common = ["--net", name, "--batch", batch, "--workers", WORKERS, "--gpus", "none", "--json"]
    layers = {each["index"]: (each["forward_seconds"], each["backward_seconds"])
              for each in json.loads(output(program, "time", *common))["layers"] if each["index"] >= 0}
    plan = json.loads(output(program, "plan", *common, "--fc", "replicated", "--most-groups", 1, "--nodes",
                             f"1,{nodes}", "--link", link))
    link, net = plan["link"], read_net(os.path.join(ROOT, "apps", "nets", f"{name}.cfg"))
    print("| nodes | compute, ms | network, ms | forecast, ms | simulated, ms | ratio |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "bus"))
        for ending, text in NODE.items():
            put(folder, f"bus/node.{ending}", text)
        output("smpicxx", "-std=c++20", "-O2", "-fPIC", os.path.join(HERE, "node_iterations.cpp"), "-o",
               os.path.join(folder, "simulation"), *flags)
        for row in [each for each in plan["nodes"] if each["groups"] == 1]:
            count, compute, network = row["nodes"], row["compute_seconds"], row["network_seconds"]
            parts = pieces_of(parts_of(net), count)
            owners, owned = deal(parts, count)
            busiest = max(sum(owned) - min(owned), max(owned) * (count - 1))
            if row["activations_seconds"] > 0:
                sys.exit(f"{count} nodes divide neurons of {name}, which is not simulated")
            own = 2 * (busiest / link["bytes_per_second"] + link["latency_seconds"])
            if count > 1 and abs(own / network - 1) > 0.15:  # the forecast cuts layers into equal parts
                sys.exit(f"{count} nodes: {own} s of network, the forecast says {network} s: its parts are others")
            # All layers together take what the forecast says; `time` knows their shares.
            scale = 1e6 * compute / sum(map(sum, layers.values()))
            lines = [(SETTLING + MEASURED + 1, WORKERS, len(net.layers), len(parts), max(size for _, size in parts)),
                     *([scale * each for each in layers.get(at, (0, 0))] for at in range(len(net.layers))),
                     *((layer, size, owner, 1e6 * size / ADDED) for (layer, size), owner in zip(parts, owners))]
            numbers = "".join(" ".join(map(str, line)) + "\n" for line in lines)
            took = simulated(folder, starpu, count, link, numbers, options)
            predicted = row["predicted_seconds"] - row["statistics_seconds"]  # which are not simulated
            figures = [f"{1e3 * each:.2f}" for each in (compute, network, predicted, took)]
            print("|", count, "|", " | ".join(figures), f"| {took / predicted:.2f} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 6:
        sys.exit(__doc__)
    main(*sys.argv[1:])
