#!/usr/bin/env python3
"""Trains a net in Darknet's format with PyTorch on one fixed mini-batch of random images, and prints the
seconds of every iteration as JSON. perf/compare starts it, with the Python that has PyTorch."""

import argparse
import ctypes
import json
import os
import signal
import socket
import sys
import time

sys.dont_write_bytecode = True

import torch
from torch import nn
from torch.nn import functional

from darknet_net import NetError, conv_padding, normalises, pool_window, read_net

MODES = ("nchw-eager", "nhwc-eager", "nchw-compile", "nhwc-compile", "nhwc-autotune")
COMPILERS = {"compile": "default", "autotune": "max-autotune"}  # names of torch.compile

ACTIVATIONS = {"relu": lambda: nn.ReLU(inplace=True),
               "leaky": lambda: nn.LeakyReLU(0.1, inplace=True),
               "relie": lambda: nn.LeakyReLU(0.01, inplace=True),
               "logistic": nn.Sigmoid, "tanh": nn.Tanh, "elu": nn.ELU, "selu": nn.SELU}


def activation_of(layer, fallback):
    name = layer.section.get("activation", fallback)
    if name == "linear":
        return []
    if name not in ACTIVATIONS:
        layer.refuse(f"activation={name} is not written for PyTorch here")
    return [ACTIVATIONS[name]()]


def convolutional(layer):
    s = layer.section
    stride = s.integer("stride", 1)
    filters = s.integer("filters", 1)
    parts = [nn.Conv2d(layer.source[2], filters, s.integer("size", 1),
                       (s.integer("stride_y", stride), s.integer("stride_x", stride)),
                       conv_padding(s), s.integer("dilation", 1), s.integer("groups", 1),
                       bias=not normalises(s))]
    if normalises(s):
        parts.append(nn.BatchNorm2d(filters, momentum=0.01))
    return nn.Sequential(*parts, *activation_of(layer, "logistic"))


def connected(layer):
    s, outputs = layer.section, layer.output[2]
    h, w, c = layer.source
    parts = [nn.Flatten()] if h * w > 1 else []
    parts.append(nn.Linear(h * w * c, outputs, bias=not normalises(s)))
    if normalises(s):
        parts.append(nn.BatchNorm1d(outputs, momentum=0.01))
    return nn.Sequential(*parts, *activation_of(layer, "logistic"))


def pool_out(size, kernel, stride, pad, ceil):
    """Returns the size of the output that PyTorch makes of these arguments."""
    out = -((size + 2 * pad - kernel) // -stride) + 1 if ceil else (size + 2 * pad - kernel) // stride + 1
    return out - 1 if ceil and (out - 1) * stride >= size + pad else out


def window(layer):
    """Returns PyTorch's arguments for Darknet's total padding, in which the smaller half comes first."""
    h, w, _ = layer.source
    kernel, stride, total = pool_window(layer.section)
    pad = total // 2
    for ceil in (False, True):
        if layer.output[:2] == tuple(pool_out(each, kernel, stride, pad, ceil) for each in (h, w)):
            return {"kernel_size": kernel, "stride": stride, "padding": pad, "ceil_mode": ceil}
    return layer.refuse("PyTorch cannot pad a pool like this")


def maxpool(layer):
    return nn.MaxPool2d(**window(layer))


def avgpool(layer):
    if "size" not in layer.section:
        return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.AvgPool2d(**window(layer), count_include_pad=False)


def normalization(layer):
    s = layer.section
    size = s.integer("size", 5)  # PyTorch divides alpha by it
    return nn.LocalResponseNorm(size, s.real("alpha", 1e-4) * size, s.real("beta", 0.75), s.real("kappa", 1))


class Shortcut(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.alpha, self.beta = layer.section.real("alpha", 1), layer.section.real("beta", 1)
        self.activation = nn.Sequential(*activation_of(layer, "linear"))

    def forward(self, last, earlier):
        total = last + earlier if self.alpha == self.beta == 1 else self.alpha * last + self.beta * earlier
        return self.activation(total)


class Route(nn.Module):
    def forward(self, *parts):
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


class Flat(nn.Module):
    """Stands for [softmax]: the loss takes its logits."""

    def forward(self, logits):
        return logits.flatten(1)


MODULES = {"convolutional": convolutional, "connected": connected, "maxpool": maxpool, "avgpool": avgpool,
           "normalization": normalization, "shortcut": Shortcut, "route": lambda layer: Route(),
           "batchnorm": lambda layer: nn.BatchNorm2d(layer.source[2], momentum=0.01),
           "dropout": lambda layer: nn.Dropout(layer.section.real("probability", 0.5)),
           "activation": lambda layer: nn.Sequential(*activation_of(layer, "linear")),
           "softmax": lambda layer: Flat()}


class TorchNet(nn.Module):
    def __init__(self, net):
        super().__init__()
        for layer in net.layers:
            if layer.kind not in MODULES:
                layer.refuse(f"[{layer.kind}] is not written for PyTorch here")
        self.parts = nn.ModuleList(MODULES[layer.kind](layer) for layer in net.layers)
        self.inputs = [layer.inputs for layer in net.layers]
        # Only what a branch reads again is kept.
        self.kept = {each for i, inputs in enumerate(self.inputs) for each in inputs if each != i - 1}

    def forward(self, values):
        kept = {-1: values}
        for index, (part, inputs) in enumerate(zip(self.parts, self.inputs)):
            values = part(*(values if each == index - 1 else kept[each] for each in inputs))
            if index in self.kept:
                kept[index] = values
        return values


def make_optimizer(model, options, rate):
    arguments = {"lr": rate, "momentum": options.real("momentum", 0.9),
                 "weight_decay": options.real("decay", 0.0001)}
    try:
        return torch.optim.SGD(model.parameters(), fused=True, **arguments), True
    except (RuntimeError, TypeError):
        return torch.optim.SGD(model.parameters(), **arguments), False


def peak_memory():
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))


class CpuClock:
    """Marks times on the CPU after reading the loss, so that everything before is done."""

    def __init__(self):
        self.marks = []

    def mark(self, loss):
        loss.item()
        self.marks.append(time.perf_counter())

    def seconds(self):
        return [after - before for before, after in zip(self.marks, self.marks[1:])]

    def memory(self):
        return peak_memory()


class GpuClock:
    """Marks times in the stream: the CPU waits for the GPU only at the end, as in a training that prints little."""

    def __init__(self):
        self.marks = []

    def mark(self, _):
        self.marks.append(torch.cuda.Event(enable_timing=True))
        self.marks[-1].record()

    def seconds(self):
        torch.cuda.synchronize()
        return [1e-3 * before.elapsed_time(after) for before, after in zip(self.marks, self.marks[1:])]

    def memory(self):
        return torch.cuda.max_memory_reserved()


def use_gpu(precision):
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = True


def start_ranks(count, threads):
    """Makes this process the first rank, and children that end with it the others. Each has CPUs of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = 0
    for rank in range(1, count):
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
            own = rank
            break
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cpus[own * threads:(own + 1) * threads])
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=own, world_size=count)
    return own


def train(net, arguments):
    layout, how = arguments.mode.split("-")
    on_gpu = arguments.device == "gpu"
    if on_gpu:
        use_gpu(arguments.precision)
    torch.manual_seed(1)
    height, width, channels = net.input
    device = "cuda" if on_gpu else "cpu"
    model = TorchNet(net).train().to(device)
    images = torch.rand(arguments.batch, channels, height, width, device=device)
    labels = torch.randint(net.classes, (arguments.batch,), device=device)
    if layout == "nhwc":
        model = model.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    optimizer, fused = make_optimizer(model, net.options, arguments.learning_rate)
    shared = nn.parallel.DistributedDataParallel(model) if arguments.ranks > 1 else model
    run = torch.compile(shared, mode=COMPILERS[how]) if how in COMPILERS else shared
    in_bf16 = arguments.precision == "bf16"

    def iteration():
        if how == "autotune":
            torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=in_bf16):
            loss = functional.cross_entropy(run(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    clock = GpuClock() if on_gpu else CpuClock()
    started = time.perf_counter()
    for _ in range(arguments.warm_up):
        loss = iteration()
        loss.item()
    warm_up_seconds = time.perf_counter() - started
    clock.mark(loss)
    for _ in range(arguments.iterations):
        loss = iteration()
        clock.mark(loss)
    seconds = clock.seconds()
    return {"mode": arguments.mode, "version": torch.__version__, "threads": torch.get_num_threads(),
            "parameters": sum(each.numel() for each in model.parameters()), "fused_sgd": fused,
            "loss": loss.item(), "warm_up_seconds": warm_up_seconds, "seconds": seconds,
            "peak_memory_bytes": clock.memory()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--net", required=True, metavar="FILE.cfg")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--mode", choices=MODES, required=True)
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32")
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--ranks", type=int, default=1, help="processes; each has its own --batch and --threads")
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=10)
    arguments = parser.parse_args()
    rank = start_ranks(arguments.ranks, arguments.threads) if arguments.ranks > 1 else 0
    torch.set_num_threads(arguments.threads)
    try:
        told = train(read_net(arguments.net), arguments)
    except NetError as problem:
        sys.exit(f"{problem}")
    if rank == 0:
        print(json.dumps(told))
    if arguments.ranks > 1:
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
