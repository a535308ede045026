// This file reads Caffe's losses, and the layers beside them that only measure.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "codelets/loss/cost_loss.hpp"
#include "layers/formats/caffe/caffe_layers.hpp"
#include "runtime/shown_name.hpp"
#include "runtime/tasks/slices.hpp"

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
  const int tops = std::max(fields.count("top"), 1), most = type == "softmax" ? 2 : 1,
            weights = fields.count("loss_weight");
  if (tops > most)
    fields.refuse("top", fmt::format("has {} tops", tops),
                  most == 1 ? "the loss is the only one" : "they are the loss and probabilities",
                  most);
  if (weights > 0 && weights != tops)
    fields.refuse("loss_weight",
                  fmt::format("{} value{} of loss_weight for {} top{}", weights,
                              weights == 1 ? "" : "s", tops, tops == 1 ? "" : "s"),
                  "each top has one", 0);
  if (weights > 1 && fields.real("loss_weight", 0, 1e6f, 1) != 0)
    fields.refuse("loss_weight", "a loss_weight of probabilities",
                  "only the first top is a loss: set it to 0", 1);
  const float weight = weights > 0 ? fields.real("loss_weight", 0, 1e6f, 0) : 1;
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
  if (has_target) layer.to.targets.insert(layer.bottom(1));
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

// Returns an ignore_label. Data have no labels below 0, so such a number ignores none.
int ignored_label(CaffeFields& fields) {
  using Limits = std::numeric_limits<int>;
  if (!fields.has("ignore_label")) return kNoLabel;
  return std::max(fields.whole("ignore_label", Limits::min(), Limits::max()), kNoLabel);
}

void read_softmax_loss(CaffeLayer& layer) {
  CaffeFields& own = layer.own;
  const bool by_old = own.has("normalize") && !own.has("normalization");
  const std::string mode = !by_old                 ? own.word("normalization")
                           : own.flag("normalize") ? "VALID"
                                                   : "BATCH_SIZE";
  SoftmaxOptions options{.spatial = !layer.to.flat.contains(layer.bottom()),
                         .ignored = ignored_label(own)};
  options.not_judged = options.ignored;
  if (mode == "NONE") options.mean = MeanLoss::none;
  if (mode != "NONE" && mode != "VALID" && options.ignored != kNoLabel)
    options.mean = MeanLoss::of_all;
  layer.name("ignored", "ignore_label");
  read_loss(layer, "softmax", options);
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
  layer.to.measured.push_back({.blob = layer.bottom(),
                               .where = layer.fields.where(),
                               .place_of_ignored = layer.own.where("ignore_label"),
                               .ignored = ignored_label(layer.own),
                               .tests = layer.tests});
}

void read_silence(CaffeLayer&) {}

void read_best(CaffeLayer& layer) {
  layer.to.remarks.push_back(fmt::format(
      "{}: ArgMax does nothing: omni-run predict prints the best classes", layer.fields.where()));
}

}  // namespace

Status check_caffe_measures(CaffeNet& to) {
  LayerDescription& last = to.net.layers.back();
  const bool has_loss = to.loss || to.probabilities;
  const std::string& output = has_loss ? last.inputs.front() : last.outputs.front();
  auto* const softmax = to.loss ? std::get_if<SoftmaxOptions>(&last.options) : nullptr;
  const CaffeMeasure* first = nullptr;
  if (has_loss && last.type == "target" && !to.measured.empty()) {
    to.remarks.push_back(fmt::format("{}: nothing is counted, as the net's loss has no classes",
                                     to.measured.front().where));
    return {};
  }
  for (const CaffeMeasure& each : to.measured) {
    const auto loss = to.losses.find(each.blob);
    if (each.blob != output && (loss == to.losses.end() || loss->second != output)) {
      to.remarks.push_back(
          fmt::format("{}: reads {}, but what is right is counted of {}, the net's output",
                      each.where, shown_name(each.blob), shown_name(output)));
      continue;
    }
    if (!each.tests || !to.loss) continue;
    if (softmax == nullptr && each.ignored != kNoLabel)
      return Error{ErrorKind::usage, each.place_of_ignored, "ignore_label beside a HingeLoss",
                   "only SoftmaxWithLoss leaves labels out"};
    if (first != nullptr && first->ignored != each.ignored)
      return Error{ErrorKind::usage, each.place_of_ignored,
                   "ignores another label than the Accuracy above",
                   "right answers are counted once: give both the same ignore_label"};
    first = &each;
    if (softmax != nullptr) softmax->not_judged = each.ignored;
  }
  return {};
}

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
