#!/usr/bin/env python3
"""Trains a net in Darknet's format with PyTorch on a folder of photos. The mini-batches come from a loader of its own,
or through TensorSocket from a process that is started with --serve. perf/experiments/ensemble starts both."""

import argparse
import os
import random
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../peers"))

import torch
from PIL import Image
from torch.nn import functional
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

from darknet_net import read_net
from pytorch_net import TorchNet, make_optimizer


class Photos:
    """Prepares photos as omni-run does: the shorter side gets a drawn length, then a window of the net's input is cut, and
    mirrored half of the time. JPEG files are decoded as small as that allows."""

    def __init__(self, side, low, high):
        self.side, self.low, self.high = side, low, high

    def load(self, path):
        length = random.randint(self.low, self.high)
        with Image.open(path) as image:
            image.draft("RGB", (length, length))
            image = image.convert("RGB")
        scale = length / min(image.size)
        width, height = (max(length, round(scale * each)) for each in image.size)
        image = image.resize((width, height), Image.Resampling.BILINEAR)
        left, top = random.randint(0, width - self.side), random.randint(0, height - self.side)
        image = image.crop((left, top, left + self.side, top + self.side))
        if random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).view(self.side, self.side, 3)

    def tensor(self, pixels):
        return pixels.permute(2, 0, 1).float().div(255)


def loader(net, arguments):
    photos = Photos(net.input[0], *(net.options.integer(key, net.input[0]) for key in ("min_crop", "max_crop")))
    data = ImageFolder(os.path.join(arguments.data, "train"), transform=photos.tensor, loader=photos.load)
    return DataLoader(data, batch_size=arguments.batch, shuffle=True, drop_last=True, num_workers=1,
                      persistent_workers=True)


def serve(net, arguments):
    from tensorsocket import TensorProducer

    producer = TensorProducer(loader(net, arguments), producer_batch_size=2)
    while True:  # until it is ended
        for _ in producer:
            pass


def train(net, arguments):
    if arguments.batches == 0:
        return
    if arguments.socket:
        from tensorsocket import TensorConsumer

        batches = TensorConsumer(batch_size=arguments.batch)
    else:
        batches = loader(net, arguments)
    model = TorchNet(net).train()
    optimizer, _ = make_optimizer(model, net.options, net.options.real("learning_rate", 0.01))
    done = 0
    while True:
        for images, labels in batches:
            optimizer.zero_grad(set_to_none=True)
            functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            done += 1
            if done == arguments.batches:
                return


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--net", required=True, metavar="FILE.cfg")
    parser.add_argument("--data", required=True, metavar="FOLDER")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--batches", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--serve", action="store_true", help="prepare mini-batches for others, until ended")
    parser.add_argument("--socket", action="store_true", help="take mini-batches from the process with --serve")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    random.seed(arguments.seed)
    net = read_net(arguments.net)
    serve(net, arguments) if arguments.serve else train(net, arguments)
    sys.stdout.flush()
    if arguments.socket:
        os._exit(0)  # the consumer's threads wait for ever


if __name__ == "__main__":
    main()
