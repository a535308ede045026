// This file reads Caffe's losses, and the layers beside them that only measure.
#include <fmt/format.h>

#include <utility>

#include "codelets/loss/cost_loss.hpp"
#include "layers/formats/caffe/caffe_layers.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

constexpr std::string_view kTarget = "target";

void read_softmax(CaffeLayer& layer) {
  if (layer.to.probabilities)
    layer.fields.refuse("", "is a second Softmax", "a net has one output");
  layer.description.type = "softmax";
  layer.description.options =
      SoftmaxOptions{.loss = false, .spatial = !layer.to.flat.contains(layer.bottom())};
  layer.to.probabilities = layer.description;
}

// Reads what all losses have. The last loss of the TEST phase becomes the net's own, its last
// layer. If none is in that phase, it is the last of the file. Losses of classes come before others
// there. The others are auxiliary.
void read_loss(CaffeLayer& layer, std::string_view type, LayerOptions options) {
  CaffeFields& fields = layer.fields;
  const bool has_target = type == kTarget && !layer.to.labels.contains(layer.bottom(1));
  if (!has_target) layer.read_labels(1);
  const float weight = fields.count("loss_weight") > 0 ? fields.real("loss_weight", 0, 1e6f, 0) : 1;
  if (weight == 0)
    return layer.to.remarks.push_back(
        fmt::format("{}: loss_weight: 0: nothing learns from this loss", fields.where()));
  layer.description.type = type;
  layer.description.inputs = {layer.bottom()};
  if (has_target) layer.description.inputs.push_back(layer.bottom(1));
  layer.description.outputs = {fields.count("top") > 0 ? fields.text("top", 0)
                                                       : fields.text("name") + "\nloss"};
  layer.description.options = std::move(options);
  layer.description.loss_weight = weight;
  const auto rank = [](bool tests, std::string_view of) { return 2 * tests + (of != kTarget); };
  if (layer.to.loss && rank(layer.tests, type) < rank(layer.to.loss_tests, layer.to.loss->type)) {
    layer.description.auxiliary = true;
    layer.to.net.layers.push_back(layer.description);
    return;
  }
  layer.to.loss_input = layer.bottom();
  layer.to.loss_tests = layer.tests;
  if (layer.to.loss) {
    layer.to.loss->auxiliary = true;
    layer.to.net.layers.insert(layer.to.net.layers.begin() + layer.to.layers_before_loss,
                               *std::move(layer.to.loss));
  }
  layer.to.layers_before_loss = std::ssize(layer.to.net.layers);
  layer.to.loss = layer.description;
}

void read_softmax_loss(CaffeLayer& layer) {
  if (const std::string mode = layer.own.word("normalization"); mode == "NONE")
    layer.own.refuse("normalization", "normalization: NONE is not supported",
                     "the loss is the mean over the images");
  read_loss(layer, "softmax", SoftmaxOptions{.spatial = !layer.to.flat.contains(layer.bottom())});
}

void read_hinge_loss(CaffeLayer& layer) {
  const bool squared = layer.own.word("norm") == "L2";
  read_loss(layer, "cost",
            DistanceOptions{.distance = squared ? Distance::squared_hinge : Distance::hinge});
}

bool teaches_target(const CaffeFields& fields) {
  return fields.count("propagate_down") < 2 || fields.flag("propagate_down", 1);
}

void read_euclidean_loss(CaffeLayer& layer) {
  read_loss(layer, kTarget, TargetOptions{.teaches_target = teaches_target(layer.fields)});
}

void read_cross_entropy_loss(CaffeLayer& layer) {
  CaffeFields& own = layer.own;
  const bool by_value = own.has("normalize") && own.flag("normalize");
  const std::string mode = own.has("normalization") ? own.word("normalization")
                           : by_value               ? "VALID"
                                                    : "BATCH_SIZE";
  if (mode == "NONE")
    own.refuse("normalization", "normalization: NONE is not supported",
               "the loss is a mean over the images");
  if (own.has("ignore_label"))
    own.refuse("ignore_label", "ignore_label with targets", "every value of a target counts");
  read_loss(layer, kTarget,
            TargetOptions{.logistic = true,
                          .mean = mode == "FULL" || mode == "VALID",
                          .teaches_target = teaches_target(layer.fields)});
}

// Reads an Accuracy layer, which is only noted, as right answers are counted in any case.
void read_accuracy(CaffeLayer& layer) {
  if (const int most = layer.own.whole("top_k", 1, 1 << 24); most != 1 && most != 5)
    layer.own.refuse("top_k", fmt::format("top_k: {} is not supported", most), "known: 1 and 5");
  if (layer.to.labels.contains(layer.bottom(1))) layer.read_labels(1);
  layer.to.measured.emplace_back(layer.bottom(), layer.fields.where());
}

void read_silence(CaffeLayer&) {}

void read_best(CaffeLayer& layer) {
  layer.to.remarks.push_back(fmt::format(
      "{}: ArgMax does nothing: omni-run predict prints the best classes", layer.fields.where()));
}

}  // namespace

std::vector<CaffeType> caffe_loss_types() {
  constexpr int kMany = 1024;
  using Kind = CaffeType::Kind;
  return {
      {.name = "Softmax",
       .old_name = "SOFTMAX",
       .param = "softmax_param",
       .kind = Kind::loss,
       .takes_vectors = true,
       .read = read_softmax},
      {.name = "SoftmaxWithLoss",
       .old_name = "SOFTMAX_LOSS",
       .param = "loss_param",
       .kind = Kind::loss,
       .bottoms = 2,
       .most_bottoms = 2,
       .takes_vectors = true,
       .read = read_softmax_loss},
      {.name = "HingeLoss",
       .old_name = "HINGE_LOSS",
       .param = "hinge_loss_param",
       .kind = Kind::loss,
       .bottoms = 2,
       .most_bottoms = 2,
       .read = read_hinge_loss},
      {.name = "EuclideanLoss",
       .old_name = "EUCLIDEAN_LOSS",
       .kind = Kind::loss,
       .bottoms = 2,
       .most_bottoms = 2,
       .takes_vectors = true,
       .targets = true,
       .read = read_euclidean_loss},
      {.name = "SigmoidCrossEntropyLoss",
       .old_name = "SIGMOID_CROSS_ENTROPY_LOSS",
       .param = "loss_param",
       .kind = Kind::loss,
       .bottoms = 2,
       .most_bottoms = 2,
       .takes_vectors = true,
       .targets = true,
       .read = read_cross_entropy_loss},
      {.name = "Accuracy",
       .old_name = "ACCURACY",
       .param = "accuracy_param",
       .kind = Kind::measure,
       .bottoms = 2,
       .most_bottoms = 2,
       .takes_vectors = true,
       .read = read_accuracy},
      {.name = "ArgMax",
       .old_name = "ARGMAX",
       .param = "argmax_param",
       .kind = Kind::measure,
       .takes_vectors = true,
       .read = read_best},
      {.name = "Silence",
       .old_name = "SILENCE",
       .kind = Kind::measure,
       .most_bottoms = kMany,
       .takes_vectors = true,
       .read = read_silence},
  };
}

}  // namespace omni
