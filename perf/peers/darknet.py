"""Measures Debian's darknet: `darknet classifier train` on a few generated images, in a folder of its own. The
seconds are those that it prints."""

import os
import re
import shutil

from darknet_net import read_sections
from processes import Failed, Refused, checked, run

IMAGES = 8
LINE = re.compile(r"^\d+, [\d.]+: (\S+), \S+ avg, \S+ rate, ([\d.]+) seconds, \d+ images", re.M)
# darknet is some ten times slower than the others, so its blocks have a tenth of the iterations.
SLOWNESS = 10


def find_darknet(named):
    """Returns the program and its version."""
    program = named or "darknet"
    if shutil.which(program) is None:
        raise Refused(f"no darknet at '{program}': `apt-get install darknet`, or name it with --darknet")
    try:
        told = run(["dpkg-query", "-W", "-f", "${Version}", "darknet"])
    except Failed:
        return program, "unknown"
    return program, told.output.strip() if told.exit_code == 0 and not named else "unknown"


def refuse_what_it_cannot(net):
    if net.input[2] != 3:
        raise Refused(f"darknet trains classifiers on colour images; this net reads {net.input[2]} channel(s)")
    for layer in net.layers:
        if layer.kind == "avgpool" and "size" in layer.section:
            raise Refused(f"{layer.section.where}: darknet's [avgpool] is always global: another net")


def write_image(path, height, width, seed):
    """Writes a binary PPM file, which need not be decoded."""
    count = 3 * height * width
    noise = bytes((each * (2 * seed + 3) + (each >> 5) * 7) & 255 for each in range(count))
    with open(path, "wb") as file:
        file.write(b"P6\n%d %d\n255\n" % (width, height) + noise)


class Darknet:
    name = "darknet"

    def __init__(self, program, net, path, batch, threads, rate, folder):
        refuse_what_it_cannot(net)
        self.program, self.batch, self.rate, self.folder = program, batch, rate, folder
        self.sections = read_sections(path)
        self.environment = {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
        height, width, _ = net.input
        os.makedirs(os.path.join(folder, "backup"))
        # darknet's weights at the end are of no use.
        for name in ("net.weights", "net.backup"):
            os.symlink("/dev/null", os.path.join(folder, "backup", name))
        self.images = []
        for number in range(IMAGES):
            self.images.append(os.path.join(folder, f"label{number % net.classes:04}_{number}.ppm"))
            write_image(self.images[-1], height, width, number)
        self.write("labels.txt", "".join(f"label{each:04}_\n" for each in range(net.classes)))
        self.write("net.data", f"classes={net.classes}\ntrain={folder}/train.txt\n"
                   f"valid={folder}/train.txt\nlabels={folder}/labels.txt\nbackup={folder}/backup\ntop=1\n")

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="ascii") as file:
            file.write(text)

    def write_net(self, iterations):
        width = self.sections[0].integer("width", 0)
        text = ""
        for number, section in enumerate(self.sections):
            options = dict(section)
            if number == 0:
                options.update(batch=self.batch, subdivisions=1, max_batches=iterations,
                               learning_rate=self.rate, min_crop=width, max_crop=width)
            text += f"[{section.kind}]\n" + "".join(f"{key}={options[key]}\n" for key in options) + "\n"
        self.write("net.cfg", text)

    def measure(self, warm_up, iterations):
        warm_up, iterations = max(1, warm_up // SLOWNESS), max(3, iterations // SLOWNESS)
        self.write_net(warm_up + iterations)
        # The list has more images than are used, because darknet saves after each pass over it.
        names = [self.images[each % IMAGES] for each in range(self.batch * (warm_up + iterations + 1))]
        self.write("train.txt", "\n".join(names) + "\n")
        finished = checked([self.program, "classifier", "train", "net.data", "net.cfg"], self.environment,
                           self.folder)
        seconds = [float(each) for _, each in LINE.findall(finished.output)]
        if len(seconds) < warm_up + iterations:
            raise Failed(f"darknet reported {len(seconds)} iterations of {warm_up + iterations}; it said "
                         f"last: {(finished.errors.strip().splitlines() or [''])[-1]}")
        return {"seconds": seconds[warm_up:], "peak_memory_bytes": finished.peak_memory,
                "others": finished.others}
