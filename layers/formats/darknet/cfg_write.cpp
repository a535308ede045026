// This file writes the description of a net as a cfg file of Darknet, without a solver.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codelets/elementwise/activation_functors.hpp"
#include "codelets/loss/cost_loss.hpp"
#include "layers/formats/darknet/darknet.hpp"

namespace omni {
namespace {

constexpr const char* kNoSection = "a .cfg has no such layer";

class CfgWriter {
 public:
  CfgWriter(const TrainableNet& of, const Net& net) : of_(of), net_(net) {
    for (const LayerDescription& layer : of.layers)
      for (const std::string& input : layer.inputs) ++readers_[input];
  }

  Result<std::string> text() {
    put_net();
    if (of_.augment.parts.empty()) makers_[of_.inputs.front()] = -1;
    for (; status_ && number_ < of_.layers.size(); ++number_) put_layer();
    OMNI_CHECK(status_);
    return text_;
  }

 private:
  const LayerDescription& described() const { return of_.layers[number_]; }
  const Layer& built() const { return *net_.layers()[number_]; }

  void refuse(std::string what, std::string why) {
    if (status_) status_ = Error{ErrorKind::usage, described().where, std::move(what), why};
  }
  void section(std::string_view name) {
    text_ += fmt::format("\n[{}]\n", name);
    ++sections_;
  }
  void put(std::string_view key, const auto& value) { text_ += fmt::format("{}={}\n", key, value); }
  void put_unless(std::string_view key, const auto& value, const auto& usual) {
    if (value != usual) put(key, value);
  }

  // Returns the smoothing of all softmax layers, as [net] has one.
  float smoothing() {
    std::optional<float> all;
    for (const LayerDescription& layer : of_.layers)
      if (const auto* softmax = std::get_if<SoftmaxOptions>(&layer.options)) {
        if (all.value_or(softmax->smoothing) != softmax->smoothing && status_)
          status_ = Error{ErrorKind::usage, layer.where, "another label_smooth_eps than above",
                          "a .cfg has one"};
        all = softmax->smoothing;
      }
    return all.value_or(0.0f);
  }
  void put_net() {
    text_ = "[net]\n";
    put("batch", of_.options.batch);
    put("subdivisions", of_.options.subdivisions);
    if (of_.augment.parts.empty())
      put_input(of_.options.input, of_.augment);
    else
      put_input(of_.augment.parts.front().extent, of_.augment.parts.front().augment);
    put_unless("label_smooth_eps", smoothing(), 0.0f);
  }
  void put_input(const Extent& input, const AugmentOptions& augment) {
    if (augment.flat) {
      put("inputs", input.c);
    } else {
      put("height", input.h);
      put("width", input.w);
      put("channels", input.c);
    }
    put_unless("min_crop", augment.min_crop, 0);
    put_unless("max_crop", augment.max_crop, 0);
    put_unless("angle", augment.angle, 0.0f);
    put_unless("aspect", augment.aspect, 1.0f);
    put_unless("saturation", augment.saturation, 1.0f);
    put_unless("exposure", augment.exposure, 1.0f);
    put_unless("hue", augment.hue, 0.0f);
    if (augment.flip) put("flip", 1);
    if (augment.center) put("center", 1);
  }

  // Returns the number of a section, counted from the next one.
  int reference(const std::string& blob) const { return makers_.at(blob) - sections_; }
  // Gives the input of [net] a number, if that is what the blob is.
  void number_image(const std::string& blob) {
    if (makers_.at(blob) >= 0) return;
    section("input");
    makers_[blob] = sections_ - 1;
  }
  // Lets the next section read the blob: that of the section before it, or that of a [route].
  void read(const std::string& blob) {
    if (sections_ > 0) number_image(blob);
    if (reference(blob) == -1) return;
    const int from = reference(blob);
    section("route");
    put("layers", from);
  }
  // Begins the section of a layer with one input.
  void begin(std::string_view name) {
    read(described().inputs.front());
    section(name);
    put_rate();
  }
  void end() {
    if (described().auxiliary || described().loss_weight != 1)
      put("loss_weight", described().loss_weight);
    makers_[described().outputs.front()] = sections_ - 1;
  }

  // Darknet has one factor for all parameters of a layer: that of the weights, else of the scale.
  void put_rate() {
    for (const ParamRole role : {ParamRole::weights, ParamRole::scale, ParamRole::bias}) {
      const auto param = std::ranges::find(built().params(), role, &Param::role);
      if (param == built().params().end() || !(*param)->in_files) continue;
      put_unless("learning_rate", (*param)->rate, 1.0f);
      break;
    }
    if (described().stops_backward) put("stopbackward", 1);
    if (!described().load) put("dontload", 1);
  }
  void put_activation(Activation activation) { put("activation", activation_name(activation)); }

  // If the next layer normalises what this one makes, and nothing else reads it, they are one
  // section. Then this layer has no bias.
  bool takes_norm() {
    const auto& params = built().params();
    const auto bias = std::ranges::find(params, ParamRole::bias, &Param::role);
    if (number_ + 1 >= of_.layers.size() || (bias != params.end() && (*bias)->in_files))
      return false;
    const LayerDescription& next = of_.layers[number_ + 1];
    const auto* norm = std::get_if<BatchnormOptions>(&next.options);
    const std::string& between = described().outputs.front();
    const bool alone = next.outputs.front() == between || readers_[between] == 1;
    return norm != nullptr && !norm->frozen && next.inputs.front() == between && alone;
  }
  // Writes what follows the product of a layer with weights.
  void put_end_of_weights(bool normalises, Activation activation) {
    if (!normalises && activation == Activation::linear && takes_norm()) {
      ++number_;
      normalises = true;
      activation = std::get<BatchnormOptions>(described().options).activation;
    }
    if (normalises) put("batch_normalize", 1);
    put_activation(activation);
  }

  void put_layer(const FilterOptions& filter) {
    const bool plain = described().type == "convolutional", local = described().type == "local";
    const Sides& stride = filter.stride;
    const bool same_stride = plain || stride.h == stride.w;
    const int dilation = filter.dilation.h;
    if (filter.size.h != filter.size.w || filter.padding.h != filter.padding.w ||
        filter.dilation.h != filter.dilation.w || !same_stride)
      return refuse("filters, paddings or strides that are no squares", "a .cfg has none");
    if ((!plain && (dilation != 1 || filter.groups != 1)) || filter.padding.h % dilation != 0)
      return refuse("groups, or a dilation with this padding", kNoSection);
    begin(described().type);
    put("filters", filter.filters);
    put("size", filter.size.h);
    if (stride.h == stride.w) {
      put("stride", stride.h);
    } else {
      put("stride_x", stride.w);
      put("stride_y", stride.h);
    }
    if (local)
      put("pad", filter.padding.h > 0 ? 1 : 0);
    else
      put("padding", filter.padding.h / dilation);
    put_unless("dilation", dilation, 1);
    put_unless("groups", filter.groups, 1);
    put_end_of_weights(filter.normalise, filter.activation);
  }
  void put_layer(const ConnectedOptions& connected) {
    begin("connected");
    put("output", connected.outputs);
    const auto& params = built().params();
    const auto weights = std::ranges::find(params, ParamRole::weights, &Param::role);
    if ((*weights)->filler.kind == Filler::Kind::normal)
      put("weights_std", (*weights)->filler.scale);
    put_end_of_weights(connected.normalise, connected.activation);
  }

  // Returns the padding of both sides together that makes the windows of the layer; -1: none does.
  // Half of it lies before the image.
  static int whole_padding(int in, int out, int size, int stride, int before) {
    for (const int padding : {2 * before, 2 * before + 1})
      if (in + padding >= size && (in + padding - size) / stride + 1 == out) return padding;
    return -1;
  }
  void put_layer(const WindowOptions& window) {
    const bool mean = described().type == "avgpool";
    const Extent &in = built().inputs().front()->extent(), &out = built().output().extent;
    if (window.whole_image && !mean) return refuse("the maximum of a whole image", kNoSection);
    if (window.whole_image) return begin("avgpool");
    const int padding =
        whole_padding(in.h, out.h, window.size.h, window.stride.h, window.padding.h / 2);
    if (window.size.h != window.size.w || padding < 0 ||
        padding != whole_padding(in.w, out.w, window.size.w, window.stride.w, window.padding.w / 2))
      return refuse("these windows", "those of a .cfg are squares, alike padded on all sides");
    if (mean && window.counts_padding && padding > 1)
      return refuse("means that count the padding", "those of a .cfg leave it out");
    begin(described().type);
    put("size", window.size.h);
    put("stride_x", window.stride.w);
    put("stride_y", window.stride.h);
    put("padding", padding);
  }
  void put_layer(const BatchnormOptions& norm) {
    begin("batchnorm");
    if (norm.activation == Activation::linear) return;
    section("activation");
    put_activation(norm.activation);
  }
  void put_layer(const ActivationOptions& options) {
    begin("activation");
    put_activation(options.activation);
  }
  void put_layer(const CropOptions& crop) {
    begin("crop");
    put("crop_height", crop.height);
    put("crop_width", crop.width);
    put("flip", crop.flip ? 1 : 0);
    put("noadjust", crop.adjust ? 0 : 1);
  }
  void put_layer(const UpsampleOptions& upsample) {
    begin("upsample");
    put("stride", upsample.stride);
    put("scale", upsample.scale);
  }
  void put_layer(const ReorgOptions& reorg) {
    begin("reorg");
    put("stride", reorg.stride);
    put("reverse", reorg.to_depth ? 0 : 1);
  }
  void put_layer(const DropoutOptions& dropout) {
    begin("dropout");
    put("probability", dropout.probability);
  }
  void put_layer(const LocalResponseOptions& lrn) {
    begin("normalization");
    put("size", lrn.size);
    put("alpha", lrn.alpha);
    put("beta", lrn.beta);
    put("kappa", lrn.kappa);
  }
  void put_layer(const SumOptions& sum) {
    const std::string& from = described().inputs[1];
    number_image(from);
    begin("shortcut");
    put("from", makers_.at(from));
    put_unless("alpha", sum.alpha, 1.0f);
    put_unless("beta", sum.beta, 1.0f);
    put_activation(sum.activation);
  }
  void put_layer(const SoftmaxOptions& softmax) {
    if (softmax.ignored != kNoLabel || softmax.not_judged != kNoLabel)
      return refuse("a label that is ignored", "a .cfg has none");
    if (softmax.mean == MeanLoss::none)
      return refuse("a loss that is no mean over the images", "a .cfg has none");
    begin("softmax");
    put_unless("groups", softmax.groups, 1);
    put_unless("temperature", softmax.temperature, 1.0f);
    if (!softmax.loss) put("noloss", 1);
  }
  void put_layer(const DistanceOptions& cost) {
    constexpr std::array<const char*, 3> kTypes{"sse", "smooth", "L1"};
    if (cost.distance >= Distance::hinge) return refuse("a hinge loss", kNoSection);
    begin("cost");
    put("type", kTypes[static_cast<std::size_t>(cost.distance)]);
    put_unless("scale", cost.scale, 1.0f);
  }
  void put_layer(const TargetOptions& target) {
    const bool has_target = described().inputs.size() > 1;
    if (has_target) number_image(described().inputs[1]);
    begin("target");
    if (has_target) put("from", makers_.at(described().inputs[1]));
    if (target.logistic) put("type", "logistic");
    if (target.mean) put("mean", 1);
    if (!target.teaches_target) put("teach", 0);
  }
  // The first input is that of [net].
  void put_layer(const PartOptions&) {
    const InputPart& part = of_.augment.parts.at(part_);
    makers_[described().outputs.front()] = part_ == 0 ? -1 : sections_;
    if (part_++ > 0) {
      section("input");
      put("name", part.name);
      put_input(part.extent, part.augment);
    } else if (!part.labels) {
      refuse("labels of another input than the first", "in a .cfg they are of the first");
    }
  }
  void put_layer(const auto&) {
    for (const char* known : {"l2norm", "logistic"})
      if (described().type == known) return begin(known);
    refuse(fmt::format("a layer of type {}", described().type), kNoSection);
  }

  void put_layer() {
    if (described().type != "route") {
      std::visit([&](const auto& options) { put_layer(options); }, described().options);
      if (described().type != "part") end();
      return;
    }
    std::vector<int> references;
    for (const std::string& input : described().inputs) number_image(input);
    for (const std::string& input : described().inputs) references.push_back(reference(input));
    section("route");
    put("layers", fmt::format("{}", fmt::join(references, ",")));
    end();
  }

  const TrainableNet& of_;
  const Net& net_;
  std::string text_;
  Status status_;
  std::size_t number_ = 0, part_ = 0;
  int sections_ = 0;                    // without [net]
  std::map<std::string, int> makers_;   // numbers of sections by a blob's name; -1: the image
  std::map<std::string, int> readers_;  // of a blob
};

}  // namespace

Result<std::string> write_darknet_cfg(const TrainableNet& of, const Net& net) {
  return CfgWriter(of, net).text();
}

}  // namespace omni
