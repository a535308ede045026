// This file reads Caffe's layers with one number per channel. BatchNorm normalises, and Scale right
// behind it scales and shifts: together they are one batch normalisation. Either of them alone also
// becomes one batch normalisation.
#include <fmt/format.h>

#include <cmath>

#include "layers/formats/caffe/caffe_layers.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

ParamDescription constant(float value) {
  return {
      .filler = Filler{Filler::Kind::constant, value}, .rate = 0, .decay = 0, .in_files = false};
}

void read_batch_norm(CaffeLayer& layer) {
  CaffeFields &own = layer.own, &fields = layer.fields;
  if (own.has("use_global_stats") && !own.flag("use_global_stats"))
    own.refuse("use_global_stats", "use_global_stats: false is not supported",
               "tests normalise by the averages: remove it, or set it to true");
  check_caffe_multipliers(layer, 3, "the parameters are mean, variance and a factor");
  for (int i = 0; i < fields.count("param"); ++i) {
    ParamDescription average;
    read_caffe_multipliers(layer, i, average);
    if (average.rate != 0)
      fields.refuse("param", fmt::format("lr_mult: {} of an average", average.rate),
                    "averages do not learn: set it to 0", i);
  }
  const std::string name = fields.text("name");
  layer.description.params = {{ParamRole::scale, constant(1)}, {ParamRole::bias, constant(0)}};
  layer.emit("batchnorm",
             BatchnormOptions{
                 .momentum = own.real("moving_average_fraction", 0, std::nextafter(1.0f, 0.0f)),
                 .epsilon = static_cast<double>(own.real("eps", 1e-12f, 1)),
                 .counts = true,
                 .frozen = own.flag("use_global_stats")});
}

// Adds scale and shift to the BatchNorm before them, if nothing else reads its output. Otherwise
// they become a batch normalisation of their own, with the constant averages 0 and 1.
void emit_factors(CaffeLayer& layer, ParamDescription scale, ParamDescription shift) {
  CaffeNet& to = layer.to;
  scale.owner = shift.owner = layer.fields.text("name");
  if (!to.net.layers.empty()) {
    LayerDescription& before = to.net.layers.back();
    const auto* options = std::get_if<BatchnormOptions>(&before.options);
    const bool in_place = layer.fields.text("top", 0) == layer.bottom();
    if (options != nullptr && options->counts && options->activation == Activation{} &&
        before.outputs.front() == layer.bottom() && !before.params.at(ParamRole::scale).in_files &&
        !before.params.at(ParamRole::bias).in_files &&
        (in_place || to.reads[layer.bottom()] == 1)) {
      before.params[ParamRole::scale] = scale;
      before.params[ParamRole::bias] = shift;
      before.outputs = layer.description.outputs;
      return;
    }
  }
  layer.description.params = {{ParamRole::scale, scale},
                              {ParamRole::bias, shift},
                              {ParamRole::mean, constant(0)},
                              {ParamRole::variance, constant(1)}};
  layer.emit("batchnorm", BatchnormOptions{.epsilon = 0, .frozen = true});
}

void read_scale(CaffeLayer& layer) {
  const bool has_bias = layer.own.flag("bias_term");
  check_caffe_multipliers(layer, has_bias ? 2 : 1,
                          has_bias ? "one is for the scale, one for the bias" : "there is no bias");
  ParamDescription scale, bias = constant(0);
  read_caffe_multipliers(layer, 0, scale);
  scale.filler = layer.own.has("filler") ? read_caffe_filler(layer.own.nested("filler"))
                                         : Filler{Filler::Kind::constant, 1};
  if (has_bias) {
    bias = {};
    read_caffe_multipliers(layer, 1, bias);
    bias.filler = read_caffe_filler(layer.own.nested("bias_filler"));
  } else if (layer.own.has("bias_filler")) {
    layer.own.refuse("bias_filler", "bias_filler without a bias", "remove it, or add bias_term");
  }
  emit_factors(layer, scale, bias);
}

void read_bias(CaffeLayer& layer) {
  check_caffe_multipliers(layer, 1, "the bias is the only one");
  ParamDescription bias;
  read_caffe_multipliers(layer, 0, bias);
  bias.filler = read_caffe_filler(layer.own.nested("filler"));
  emit_factors(layer, constant(1), bias);
}

}  // namespace

std::vector<CaffeType> caffe_channel_types() {
  return {{.name = "BatchNorm", .param = "batch_norm_param", .read = read_batch_norm},
          {.name = "Scale", .param = "scale_param", .read = read_scale},
          {.name = "Bias", .param = "bias_param", .read = read_bias}};
}

}  // namespace omni
