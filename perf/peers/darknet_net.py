"""Reads a net in Darknet's format and infers what every layer puts out and how many parameters it has,
in the same words as `omni-run --dry-run --json`; from this, peers are built."""

import math

# Both names mean the same section.
ALIASES = {"network": "net", "conv": "convolutional", "max": "maxpool", "avg": "avgpool",
           "conn": "connected", "lrn": "normalization", "soft": "softmax"}


class NetError(Exception):
    """A net cannot be read; the text tells the user why."""


class Section(dict):
    """A Section is one section of the file: its options as text, and where it stands."""

    def __init__(self, kind, where):
        super().__init__()
        self.kind, self.where = kind, where

    def integer(self, key, fallback):
        return self._number(key, fallback, int)

    def real(self, key, fallback):
        return self._number(key, fallback, float)

    def flag(self, key):
        return self.integer(key, 0) != 0

    def integers(self, key):
        return [int(each) for each in self.get(key, "").split(",") if each]

    def _number(self, key, fallback, convert):
        try:
            return convert(self.get(key, fallback))
        except ValueError:
            raise NetError(f"{self.where}: {key}={self[key]} is not a number") from None


class Layer:
    """A Layer is a section with its place in the net. `inputs` are the indices of the layers it reads (-1: the
    image); `source` and `output` are (height, width, channels)."""

    def __init__(self, index, section, inputs, source):
        self.index, self.section, self.inputs, self.source = index, section, inputs, source
        self.kind = section.kind
        self.output, self.parameters = source, 0

    def refuse(self, what):
        raise NetError(f"{self.section.where}: {what}")


class Net:
    def __init__(self, options, layers):
        self.options, self.layers = options, layers
        vectors = options.integer("inputs", 0)
        self.input = (1, 1, vectors) if vectors else (
            options.integer("height", 0), options.integer("width", 0), options.integer("channels", 0))

    @property
    def classes(self):
        return math.prod(self.layers[-1].output)

    @property
    def parameters(self):
        return sum(layer.parameters for layer in self.layers)


def read_sections(path):
    sections = []
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            text = "".join(line.split("#")[0].split(";")[0].split())
            if text.startswith("["):
                kind = text.strip("[]").lower()
                sections.append(Section(ALIASES.get(kind, kind), f"{path}:{number}"))
            elif text:
                key, equals, value = text.partition("=")
                if not sections or not equals:
                    raise NetError(f"{path}:{number}: expected [section], key=value or a comment")
                sections[-1][key] = value
    if not sections or sections[0].kind != "net" or len(sections) == 1:
        raise NetError(f"{path}: a net is [net] and then one section per layer")
    return sections


def read_net(path):
    options, *rest = read_sections(path)
    net = Net(options, [])
    for section in rest:
        if section.kind == "cost" and net.layers and net.layers[-1].kind == "softmax":
            continue  # softmax computes the loss itself
        net.layers.append(infer(net, section))
    return net


def output_of(net, index):
    return net.input if index < 0 else net.layers[index].output


def infer(net, section):
    index = len(net.layers)
    if section.kind not in SHAPES:
        raise NetError(f"{section.where}: peers know no [{section.kind}]")
    layer = Layer(index, section, [index - 1], output_of(net, index - 1))
    SHAPES[section.kind](net, layer)
    return layer


def resolve(layer, reference):
    target = reference if reference >= 0 else layer.index + reference
    if not 0 <= target < layer.index:
        layer.refuse(f"there is no layer {reference} before it")
    return target


def normalises(section):
    return section.flag("batch_normalize")


def affine_parameters(section, channels):
    """Returns the number of biases, or of scales and shifts of a batch normalisation."""
    return 2 * channels if normalises(section) else channels


def conv_padding(section):
    return section.integer("size", 1) // 2 if section.flag("pad") else section.integer("padding", 0)


def convolutional(_, layer):
    s, (h, w, c) = layer.section, layer.source
    size, filters, groups = s.integer("size", 1), s.integer("filters", 1), s.integer("groups", 1)
    stride, dilation = s.integer("stride", 1), s.integer("dilation", 1)
    reach, pad = dilation * (size - 1) + 1, conv_padding(s)
    if c % groups or filters % groups:
        layer.refuse(f"{groups} groups do not divide {c} channels and {filters} filters")
    layer.output = ((h + 2 * pad - reach) // s.integer("stride_y", stride) + 1,
                    (w + 2 * pad - reach) // s.integer("stride_x", stride) + 1, filters)
    layer.parameters = filters * (c // groups) * size * size + affine_parameters(s, filters)


def connected(_, layer):
    outputs = layer.section.integer("output", 1)
    layer.output = (1, 1, outputs)
    layer.parameters = (math.prod(layer.source) * outputs +
                        affine_parameters(layer.section, outputs))


def pool_window(section):
    """Returns the size, the stride and the total padding."""
    stride = section.integer("stride", 1)
    size = section.integer("size", stride)
    return size, stride, section.integer("padding", size - 1)


def pool(_, layer):
    h, w, c = layer.source
    if layer.kind == "avgpool" and "size" not in layer.section:
        layer.output = (1, 1, c)
        return
    if "stride_x" in layer.section or "stride_y" in layer.section:
        layer.refuse("peers know no stride_x and stride_y of pools")
    size, stride, padding = pool_window(layer.section)
    layer.output = ((h + padding - size) // stride + 1, (w + padding - size) // stride + 1, c)


def shortcut(net, layer):
    layer.inputs.append(resolve(layer, layer.section.integer("from", -1)))
    if output_of(net, layer.inputs[1]) != layer.source:
        layer.refuse("peers add only layers of the same shape")


def route(net, layer):
    layer.inputs = [resolve(layer, each) for each in layer.section.integers("layers")]
    parts = [output_of(net, each) for each in layer.inputs]
    if len({part[:2] for part in parts}) != 1:
        layer.refuse("routed layers need equal width and height")
    layer.source = parts[0]
    layer.output = (*parts[0][:2], sum(part[2] for part in parts))


def batchnorm(_, layer):
    layer.parameters = 2 * layer.source[2]


def softmax(_, layer):
    layer.output = (1, 1, math.prod(layer.source))


def same(_, layer):
    layer.output = layer.source


SHAPES = {"convolutional": convolutional, "connected": connected, "maxpool": pool, "avgpool": pool,
          "shortcut": shortcut, "route": route, "batchnorm": batchnorm, "softmax": softmax,
          "dropout": same, "normalization": same, "activation": same, "cost": same}
