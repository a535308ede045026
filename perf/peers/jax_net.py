#!/usr/bin/env python3
"""Trains a net in Darknet's format with JAX on one fixed mini-batch of random images, channels last, and prints
the seconds of every iteration as JSON. perf/compare starts it, with the Python that has JAX."""

import argparse
import json
import math
import sys
import time

sys.dont_write_bytecode = True

import jax
from jax import lax, nn
from jax import numpy as jnp

from darknet_net import NetError, conv_padding, normalises, pool_window, read_net

ACTIVATIONS = {"linear": lambda x: x, "relu": nn.relu, "leaky": lambda x: nn.leaky_relu(x, 0.1),
               "relie": lambda x: nn.leaky_relu(x, 0.01), "logistic": nn.sigmoid, "tanh": jnp.tanh,
               "elu": nn.elu, "selu": nn.selu}
PRECISIONS = {"fp32": lax.Precision.HIGHEST, "tf32": lax.Precision.DEFAULT, "bf16": lax.Precision.DEFAULT}
NHWC = ("NHWC", "HWIO", "NHWC")


def activation_of(layer, fallback):
    name = layer.section.get("activation", fallback)
    if name not in ACTIVATIONS:
        layer.refuse(f"activation={name} is not written for JAX here")
    return ACTIVATIONS[name]


def normalised(values, parameters):
    """Normalises over all but the channels in single precision, as PyTorch does under autocast."""
    x = values.astype(jnp.float32)
    axes = tuple(range(x.ndim - 1))
    mean = x.mean(axes)
    variance = jnp.maximum(jnp.square(x).mean(axes) - jnp.square(mean), 0)  # in one pass over x
    scale = parameters["scale"] * lax.rsqrt(variance + 1e-5)
    return (x * scale + (parameters["shift"] - mean * scale)).astype(values.dtype)


class Weighted:
    """A convolution or a connected layer, with its bias or normalisation and its activation."""

    def __init__(self, layer, arguments):
        self.layer, self.normalises = layer, normalises(layer.section)
        self.precision = PRECISIONS[arguments.precision]
        self.activation = activation_of(layer, "logistic")

    def parameters(self, key):
        made = {"weights": jax.random.normal(key, self.size()) * math.sqrt(2 / math.prod(self.size()[:-1]))}
        outputs = self.size()[-1]
        if self.normalises:
            return {**made, "scale": jnp.ones(outputs), "shift": jnp.zeros(outputs)}
        return {**made, "bias": jnp.zeros(outputs)}

    def __call__(self, parameters, x, _):
        y = self.product(x, parameters["weights"].astype(x.dtype))
        y = normalised(y, parameters) if self.normalises else y + parameters["bias"].astype(x.dtype)
        return self.activation(y)


class Convolutional(Weighted):
    def size(self):
        s = self.layer.section
        side = s.integer("size", 1)
        return side, side, self.layer.source[2] // s.integer("groups", 1), s.integer("filters", 1)

    def product(self, x, weights):
        s = self.layer.section
        stride, pad, dilation = s.integer("stride", 1), conv_padding(s), s.integer("dilation", 1)
        return lax.conv_general_dilated(
            x, weights, (s.integer("stride_y", stride), s.integer("stride_x", stride)), [(pad, pad)] * 2,
            rhs_dilation=(dilation, dilation), dimension_numbers=NHWC,
            feature_group_count=s.integer("groups", 1), precision=self.precision)


class Connected(Weighted):
    def size(self):
        return math.prod(self.layer.source), self.layer.output[2]

    def product(self, x, weights):
        return jnp.matmul(x.reshape(len(x), -1), weights, precision=self.precision)


class Plain:
    """A layer without parameters."""

    def __init__(self, layer, compute):
        self.layer, self.compute = layer, compute

    def parameters(self, _):
        return {}

    def __call__(self, _, *values):
        return self.compute(self.layer, *values)


class Batchnorm(Plain):
    def parameters(self, _):
        channels = self.layer.source[2]
        return {"scale": jnp.ones(channels), "shift": jnp.zeros(channels)}

    def __call__(self, parameters, x, _):
        return normalised(x, parameters)


def pooled(layer, x, start, combine):
    size, stride, total = pool_window(layer.section)
    h, w, _ = layer.source
    pads = [(0, 0)] + [(total // 2, (out - 1) * stride + size - side - total // 2)
                       for side, out in zip((h, w), layer.output)] + [(0, 0)]
    return lax.reduce_window(x, start, combine, (1, size, size, 1), (1, stride, stride, 1), pads)


def maxpool(layer, x, _):
    return pooled(layer, x, x.dtype.type(-math.inf), lax.max)


def avgpool(layer, x, _):
    if "size" not in layer.section:
        return x.mean((1, 2), keepdims=True)
    zero = x.dtype.type(0)
    return pooled(layer, x, zero, lax.add) / pooled(layer, jnp.ones_like(x[:1, :, :, :1]), zero, lax.add)


def normalization(layer, x, _):
    s = layer.section
    size, squares = s.integer("size", 5), jnp.square(x.astype(jnp.float32))
    before = (size - 1) // 2
    sums = lax.reduce_window(squares, 0.0, lax.add, (1, 1, 1, size), (1, 1, 1, 1),
                             [(0, 0)] * 3 + [(before, size - 1 - before)])
    scale = (s.real("kappa", 1) + s.real("alpha", 1e-4) * sums) ** -s.real("beta", 0.75)
    return (x * scale).astype(x.dtype)


def shortcut(layer, last, earlier, _):
    s = layer.section
    return activation_of(layer, "linear")(s.real("alpha", 1) * last + s.real("beta", 1) * earlier)


def route(_, *values):
    return values[0] if len(values) == 2 else jnp.concatenate(values[:-1], -1)


def dropout(layer, x, key):
    keeps = 1 - layer.section.real("probability", 0.5)
    return jnp.where(jax.random.bernoulli(key, keeps, x.shape), x / keeps, 0).astype(x.dtype)


PLAIN = {"maxpool": maxpool, "avgpool": avgpool, "normalization": normalization, "shortcut": shortcut,
         "route": route, "dropout": dropout,
         "activation": lambda layer, x, _: activation_of(layer, "linear")(x),
         "softmax": lambda _, x, key: x.reshape(len(x), -1)}  # the loss takes the logits


def module_of(layer, arguments):
    if layer.kind in ("convolutional", "connected"):
        return (Convolutional if layer.kind == "convolutional" else Connected)(layer, arguments)
    if layer.kind == "batchnorm":
        return Batchnorm(layer, None)
    if layer.kind not in PLAIN:
        layer.refuse(f"[{layer.kind}] is not written for JAX here")
    return Plain(layer, PLAIN[layer.kind])


def forward(modules, parameters, images, key):
    values = {-1: images}
    for index, (module, its) in enumerate(zip(modules, parameters)):
        values[index] = module(its, *(values[each] for each in module.layer.inputs), jax.random.fold_in(key, index))
    return values[len(modules) - 1]


def peak_memory(device):
    told = device.memory_stats() if device.platform == "gpu" else None
    if told:
        return told["peak_bytes_in_use"]
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))


def train(net, arguments):
    device = jax.devices()[0]
    if (device.platform == "gpu") != (arguments.device == "gpu"):
        sys.exit(f"JAX computes on {device.platform}, not on {arguments.device} (install its wheel for CUDA)")
    modules = [module_of(layer, arguments) for layer in net.layers]
    keys = jax.random.split(jax.random.key(1), len(modules) + 2)
    parameters = [module.parameters(key) for module, key in zip(modules, keys)]
    velocity = jax.tree.map(jnp.zeros_like, parameters)
    images = jax.random.uniform(keys[-1], (arguments.batch, *net.input))
    labels = jax.random.randint(keys[-2], (arguments.batch,), 0, net.classes)
    momentum, decay = net.options.real("momentum", 0.9), net.options.real("decay", 0.0001)
    values = jnp.bfloat16 if arguments.precision == "bf16" else jnp.float32

    def loss_of(parameters, images, labels, key):
        logits = forward(modules, parameters, images.astype(values), key).astype(jnp.float32)
        return -jnp.take_along_axis(nn.log_softmax(logits), labels[:, None], 1).mean()

    def iteration(parameters, velocity, key, images, labels):
        loss, gradients = jax.value_and_grad(loss_of)(parameters, images, labels, key)
        velocity = jax.tree.map(lambda v, g, w: momentum * v + g + decay * w, velocity, gradients, parameters)
        parameters = jax.tree.map(lambda w, v: w - arguments.learning_rate * v, parameters, velocity)
        return parameters, velocity, jax.random.split(key)[0], loss

    step = jax.jit(iteration, donate_argnums=(0, 1))
    state, seconds = (parameters, velocity, jax.random.key(2)), []
    count = sum(each.size for each in jax.tree.leaves(parameters))

    # Iterations are launched ahead. To learn of the end of one, the loss of the one before is waited for.
    def run(times):
        nonlocal state
        before, marks = None, []
        for _ in range(times):
            *state, loss = step(*state, images, labels)
            if before is not None:
                before.block_until_ready()
                marks.append(time.perf_counter())
            before = loss
        before.block_until_ready()
        return [*marks, time.perf_counter()], before

    run(arguments.warm_up)
    marks, loss = run(arguments.iterations + 1)
    seconds = [after - start for start, after in zip(marks, marks[1:])]
    return {"version": jax.__version__, "parameters": count, "loss": float(loss), "seconds": seconds,
            "peak_memory_bytes": peak_memory(device)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--net", required=True, metavar="FILE.cfg")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--precision", choices=tuple(PRECISIONS), default="fp32")
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=10)
    arguments = parser.parse_args()
    try:
        print(json.dumps(train(read_net(arguments.net), arguments)))
    except NetError as problem:
        sys.exit(f"{problem}")


if __name__ == "__main__":
    main()
