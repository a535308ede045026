"""Makes a folder of photos of ImageNet's usual size: 500x375, about 100 kB. It needs Pillow."""

import os
import random

SIZE = (500, 375)
OCTAVES = ((4, 3, 1.0), (16, 12, 0.5), (63, 47, 0.35), (250, 188, 0.2), (500, 375, 0.12))  # width, height, share
QUALITY = 92
CLASSES = 10


def photo(draws, label):
    """Returns noise at several scales around the colour of a class."""
    from PIL import Image

    made = Image.new("RGB", SIZE, tuple(128 + 40 * ((label >> bit) % 2) - 20 for bit in range(3)))
    for width, height, share in OCTAVES:
        noise = Image.frombytes("RGB", (width, height), draws.randbytes(3 * width * height))
        made = Image.blend(made, noise.resize(SIZE, Image.Resampling.BICUBIC), share)
    return made


def make(folder, training, tests):
    for part, count in (("train", training), ("val", tests)):
        for number in range(count):
            label = number % CLASSES
            path = os.path.join(folder, part, f"class{label}", f"{number:05}.jpg")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            photo(random.Random(f"{part} {number}"), label).save(path, quality=QUALITY)


def mean_kilobytes(folder):
    sizes = [os.path.getsize(os.path.join(path, name)) for path, _, names in os.walk(os.path.join(folder, "train"))
             for name in names]
    return len(sizes), sum(sizes) / len(sizes) / 1000
