// This file reads the sections of layers without weights, and [batchnorm].
#include <fmt/format.h>

#include <algorithm>

#include "codelets/loss/cost_loss.hpp"
#include "layers/formats/darknet/layer_sections.hpp"

namespace omni {
namespace {

constexpr Key kLossWeight{"loss_weight", "1",
                          "factor of this loss in the sum of losses. With it, other layers may "
                          "follow, but the last is a loss, too. Darknet has no such key"};

// A loss that says its weight need not be the last layer.
void read_loss_weight(DarknetLayerReader& reader) {
  reader.layer.loss_weight = reader.options.real("loss_weight", 1, 1e-6f, 1e6f);
  reader.name("loss_weight", "loss_weight");
}

// Reads the window of a pooling layer. Darknet's padding is the sum of both sides and defaults to
// size-1.
void read_window(DarknetLayerReader& reader) {
  OptionReader& options = reader.options;
  WindowOptions window;
  const int stride = options.integer("stride", 1, 1, 4096);
  const int size = options.integer("size", stride, 1, kMaxWindow);
  if (size > kMaxWindow)
    options.refuse("stride", fmt::format("windows of {} (without size, the stride's)", size),
                   fmt::format("set size, to {} at most", kMaxWindow));
  window.size = Sides::square(size);
  window.padding = Sides::square(options.integer("padding", size - 1, 0, 4096));
  window.stride.h = options.integer("stride_y", stride, 1, 4096);
  window.stride.w = options.integer("stride_x", stride, 1, 4096);
  reader.layer.options = window;
}

// Reads [avgpool]. Darknet's [avgpool] pools the whole image; with a size it pools windows, which
// Darknet does not do.
void read_avgpool(DarknetLayerReader& reader) {
  if (reader.options.has("size")) return read_window(reader);
  reader.layer.options = WindowOptions{.whole_image = true};
}

void read_crop(DarknetLayerReader& reader) {
  reader.layer.options = CropOptions{.height = reader.options.integer("crop_height", 1, 1),
                                     .width = reader.options.integer("crop_width", 1, 1),
                                     .flip = reader.options.flag("flip", false),
                                     .adjust = !reader.options.flag("noadjust", false)};
  reader.name("height", "crop_height");
}

void read_upsample(DarknetLayerReader& reader) {
  reader.layer.options = UpsampleOptions{.stride = reader.options.integer("stride", 2, 1, 64),
                                         .scale = reader.options.real("scale", 1)};
}

void read_reorg(DarknetLayerReader& reader) {
  reader.layer.options = ReorgOptions{.stride = reader.options.integer("stride", 1, 1, 64),
                                      .to_depth = !reader.options.flag("reverse", false)};
}

void read_activation_layer(DarknetLayerReader& reader) {
  reader.layer.options = ActivationOptions{reader.activation("linear")};
}

void read_dropout(DarknetLayerReader& reader) {
  reader.layer.options = DropoutOptions{reader.options.real("probability", 0.5f, 0, 0.999f)};
  if (!reader.options.has("probability"))
    reader.remark("",
                  "[dropout] without probability drops 0.5, as pjreddie's Darknet does; AlexeyAB's "
                  "drops 0.2");
}

void read_normalization(DarknetLayerReader& reader) {
  reader.layer.options = LocalResponseOptions{.size = reader.options.integer("size", 5, 1, 1024),
                                              .alpha = reader.options.real("alpha", 1e-4f, 0),
                                              .beta = reader.options.real("beta", 0.75f, 0),
                                              .kappa = reader.options.real("kappa", 1, 1e-6f)};
}

void read_route(DarknetLayerReader& reader) {
  const std::vector<int> references = reader.options.integers("layers");
  if (references.empty())
    reader.options.refuse("layers", "[route] names no layers", "add layers=-1,-4, say");
  reader.layer.inputs.clear();
  for (const int reference : references)
    reader.layer.inputs.push_back(reader.earlier("layers", reference));
  reader.name("inputs", "layers");
}

void read_shortcut(DarknetLayerReader& reader) {
  OptionReader& options = reader.options;
  if (!options.has("from")) options.refuse("", "[shortcut] has no from", "add from=-3, say");
  reader.layer.inputs.push_back(reader.earlier("from", options.integer("from", -1, -(1 << 20))));
  reader.name("inputs", "from",
              ", as in pjreddie's Darknet; AlexeyAB's adds what comes first in memory");
  reader.layer.options = SumOptions{.alpha = options.real("alpha", 1),
                                    .beta = options.real("beta", 1),
                                    .activation = reader.activation("linear")};
}

void read_softmax(DarknetLayerReader& reader) {
  OptionReader& options = reader.options;
  const SoftmaxOptions softmax{.groups = options.integer("groups", 1, 1),
                               .temperature = options.real("temperature", 1, 1e-6f),
                               .loss = !options.flag("noloss", false),
                               .spatial = options.flag("spatial", false),
                               .smoothing = reader.smoothing};
  reader.name("loss", "noloss");
  if (softmax.loss) read_loss_weight(reader);
  if (softmax.groups > 1)
    reader.remark("groups",
                  "above 1: only the group of the label learns from an image; in Darknet the "
                  "others are pushed to 0, too");
  if (softmax.temperature != 1)
    reader.remark("temperature",
                  "divides the gradient, too, which is the loss's own; in Darknet it does not "
                  "(a rate as many times as large makes the same steps)");
  reader.layer.options = softmax;
}

void read_cost(DarknetLayerReader& reader) {
  static constexpr std::string_view kTypes[] = {"sse", "smooth", "L1"};  // in Distance's order
  OptionReader& options = reader.options;
  read_loss_weight(reader);
  options.refuse_values("type", {"masked"},
                        "it leaves out unknown truths, which a label does not have");
  options.refuse_values("type", {"seg", "wgan"}, "it is no loss of a classifier");
  reader.layer.options =
      DistanceOptions{.distance = static_cast<Distance>(options.choice("type", "sse", kTypes)),
                      .scale = options.real("scale", 1, 0)};
}

// Reads [input]. With a size it is a further input of the net, else it is that of [net], which
// layers can then name.
void read_input(DarknetLayerReader& reader) {
  OptionReader& options = reader.options;
  const auto is_set = [&](const Key& key) { return options.has(key.name); };
  const bool is_further = std::ranges::any_of(input_keys(), is_set);
  const std::string name = options.text("name");
  reader.layer.type = is_further ? "part" : "route";
  reader.layer.inputs = {"data"};
  if (is_further == name.empty())
    options.refuse("name", name.empty() ? "[input] has no name" : "[input] has a name, but no size",
                   "a further input has height and width, or inputs, and a name for --data; "
                   "without keys [input] is that of [net]");
  if (!is_further) return;
  InputPart part = read_darknet_input(options, "input");
  part.name = name;
  reader.layer.options = PartOptions{.extent = part.extent};
  reader.inputs.push_back(std::move(part));
}

void read_target(DarknetLayerReader& reader) {
  static constexpr std::string_view kTypes[] = {"sse", "logistic"};
  OptionReader& options = reader.options;
  read_loss_weight(reader);
  if (options.has("from"))
    reader.layer.inputs.push_back(reader.earlier("from", options.integer("from", -1, -(1 << 20))));
  reader.name("inputs", "from");
  reader.layer.options = TargetOptions{.logistic = options.choice("type", "sse", kTypes) == 1,
                                       .mean = options.flag("mean", false),
                                       .teaches_target = options.flag("teach", true)};
}

std::vector<Key> keys_of_input() {
  std::vector<Key> keys{{"name", "", "name of a further input, for --data NAME=SOURCE"}};
  keys.insert(keys.end(), input_keys().begin(), input_keys().end());
  return keys;
}

}  // namespace

std::vector<DarknetType> darknet_other_types() {
  return {
      {.name = "maxpool",
       .aliases = {"max"},
       .summary = "largest value of each window",
       .keys = {{"size", "stride", "window"},
                {"stride", "1", "step of the window"},
                {"stride_x", "stride", "step along the width"},
                {"stride_y", "stride", "step along the height"},
                {"padding", "size-1", "total of both sides"},
                {"maxpool_depth", "0", "windows do not reach across channels", Effect::refused},
                {"maxpool_zero_nonmax", "0", "the input stays as it is", Effect::refused},
                {"antialiasing", "0", "there is no blur before the stride", Effect::refused}},
       .in_vain = "out_channels=1",
       .read = read_window},
      {.name = "avgpool",
       .aliases = {"avg"},
       .summary = "mean of each window; without size: of the whole image",
       .keys = {{"size", "", "window; absent: the whole image"},
                {"stride", "1", "step of the window"},
                {"stride_x", "stride", "step along the width"},
                {"stride_y", "stride", "step along the height"},
                {"padding", "size-1", "total of both sides"}},
       .read = read_avgpool},
      {.name = "crop",
       .summary = "random crop and mirror in training, else the centre",
       .keys = {{"crop_height", "1", "height of the output"},
                {"crop_width", "1", "width of the output"},
                {"flip", "0", "1: mirror half of the images"},
                {"noadjust", "0", "1: keep [0,1], do not map to [-1,1]"}},
       .in_vain = "angle=0 saturation=1 exposure=1 shift=0",
       .read = read_crop},
      {.name = "upsample",
       .summary = "repeats every pixel",
       .keys = {{"stride", "2", "factor of the enlargement"},
                {"scale", "1", "multiplies the values"}},
       .read = read_upsample},
      {.name = "reorg",
       .summary = "moves blocks of pixels into channels",
       .keys = {{"stride", "1", "block size"},
                {"reverse", "0", "1: channels into blocks of pixels"},
                {"flatten", "0", "it orders the output otherwise", Effect::refused},
                {"extra", "0", "it pads the output", Effect::refused}},
       .read = read_reorg},
      {.name = "activation",
       .summary = "an element-wise function",
       .keys = {{"activation", "linear", "its name"}},
       .read = read_activation_layer},
      {.name = "dropout",
       .summary = "drops values at random in training",
       .keys = {{"probability", "0.5", "of being dropped"},
                {"dropblock", "0", "values are dropped one by one", Effect::refused}},
       .in_vain = "dropblock_size_rel=0 dropblock_size_abs=0",
       .read = read_dropout},
      {.name = "batchnorm",
       .summary = "batch normalisation with scale and shift",
       .read = [](DarknetLayerReader& reader) { reader.layer.options = BatchnormOptions{}; }},
      {.name = "normalization",
       .aliases = {"lrn"},
       .summary = "local response normalisation across channels",
       .keys = {{"size", "5", "channels in the window"},
                {"alpha", "0.0001", "per channel of the window"},
                {"beta", "0.75", "exponent of the divisor"},
                {"kappa", "1", "added to alpha times the sum of squares"}},
       .read = read_normalization},
      {.name = "l2norm", .summary = "scales the channels of every pixel to length one"},
      {.name = "route",
       .summary = "joins the channels of earlier layers",
       .keys = {{"layers", "", "list of layers: indices, or negative: relative"},
                {"groups", "1", "whole layers are joined", Effect::refused},
                {"group_id", "0", "whole layers are joined", Effect::refused}},
       .read = read_route},
      {.name = "shortcut",
       .summary = "adds the output of an earlier layer",
       .keys = {{"from", "", "layer to add: index, or negative: relative"},
                {"activation", "linear", "applied to the sum"},
                {"alpha", "1", "factor of the previous layer's output"},
                {"beta", "1", "factor of the earlier layer's output"},
                {"weights_type", "none", "the factors are alpha and beta", Effect::refused},
                {"weights_normalization", "none", "the factors are alpha and beta",
                 Effect::refused}},
       .read = read_shortcut},
      {.name = "softmax",
       .aliases = {"soft"},
       .summary = "class probabilities and cross-entropy loss; the last layer",
       .keys = {{"groups", "1", "independent distributions per image"},
                {"temperature", "1", "divides the inputs"},
                {"spatial", "0", "1 is refused unless the input is 1x1"},
                {"noloss", "0", "1: only probabilities, the net cannot be trained"},
                {"tree", "", "trees of classes are not read", Effect::refused},
                kLossWeight},
       .read = read_softmax},
      {.name = "logistic",
       .summary = "a probability per class and logistic cross-entropy loss; the last layer",
       .keys = {kLossWeight},
       .read = read_loss_weight},
      {.name = "input",
       .summary = "a further input of the net; without keys: that of [net]. Not in Darknet",
       .keys = keys_of_input(),
       .read = read_input},
      {.name = "target",
       .summary = "distance from another layer's output, or from the label as a number, as the "
                  "loss; the last layer. Not in Darknet",
       .keys = {{"from", "", "layer to compare with; absent: the label"},
                {"type", "sse",
                 "sse: half the squared distance; logistic: cross-entropy of the "
                 "logistic function"},
                {"mean", "0", "1: the mean over the values, not the sum"},
                {"teach", "1", "0: layers that make the target learn nothing from it"},
                kLossWeight},
       .read = read_target},
      {.name = "cost",
       .summary = "distance from the truth as the loss; ignored after [softmax]",
       .keys = {{"type", "sse", "sse smooth L1"},
                {"scale", "1", "multiplies loss and gradient"},
                kLossWeight},
       .in_vain = "ratio=0 noobj=1 thresh=0",
       .read = read_cost},
  };
}

}  // namespace omni
