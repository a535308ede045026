// This file reads Caffe's layers with weights: convolutions and inner products.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "layers/formats/caffe/caffe_layers.hpp"
#include "runtime/nearest.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

constexpr std::array<std::string_view, 7> kFillers{
    "constant", "uniform", "gaussian", "xavier", "msra", "positive_unitball", "bilinear"};

}  // namespace

Filler read_caffe_filler(CaffeFields fields, std::optional<Sides> filter) {
  const std::string type = fields.text("type"), norm = fields.word("variance_norm");
  const bool by_inputs = norm != "FAN_OUT", by_outputs = norm != "FAN_IN";
  if (const int kept = fields.whole("sparse", -1, 1 << 24); kept != -1 && type != "gaussian")
    fields.refuse("sparse", fmt::format("sparse with the filler {}", shown_name(type)),
                  "it is for gaussian");
  else if (kept == 0)
    fields.refuse("sparse", "sparse: 0 makes every value 0", "remove it, or give a number");
  if (type == "constant") return {Filler::Kind::constant, fields.real("value")};
  if (type == "gaussian")
    return {.kind = Filler::Kind::normal,
            .scale = fields.real("std", 0),
            .centre = fields.real("mean"),
            .kept = std::max(fields.whole("sparse", -1, 1 << 24), 0)};
  if (type == "xavier") return {Filler::Kind::uniform, std::sqrt(3.0f), by_inputs, by_outputs};
  if (type == "msra") return {Filler::Kind::normal, std::sqrt(2.0f), by_inputs, by_outputs};
  if (type == "positive_unitball") return {Filler::Kind::shares};
  if (type == "uniform") {
    const float low = fields.real("min"), high = fields.real("max");
    if (low > high)
      fields.refuse("type", fmt::format("uniform from {} to {}", low, high), "swap them");
    return {.kind = Filler::Kind::uniform,
            .scale = high / 2 - low / 2,
            .centre = high == -low ? 0 : high / 2 + low / 2};
  }
  if (type == "bilinear" && filter) {
    if (filter->h != filter->w)
      fields.refuse("type", "filler bilinear with filters that are no squares",
                    "give kernel_size, or another filler");
    return {Filler::Kind::bilinear};
  }
  const std::string_view near = nearest(type, kFillers);
  if (near == type)
    fields.refuse("type", fmt::format("filler {} is not supported", shown_name(type)),
                  "bilinear is for the filters of a Convolution or Deconvolution");
  else
    fields.refuse("type", fmt::format("unknown filler {}", shown_name(type)),
                  near.empty() ? "known: constant uniform gaussian xavier msra positive_unitball"
                               : fmt::format("did you mean '{}'?", near));
  return {};
}

void read_caffe_multipliers(CaffeLayer& layer, int number, ParamDescription& param) {
  CaffeFields& fields = layer.fields;
  std::string name;
  param.decay = 1;
  if (layer.is_old()) {
    if (fields.count("blobs_lr") > number) param.rate = fields.real("blobs_lr", 0, 1e6f, number);
    if (fields.count("weight_decay") > number)
      param.decay = fields.real("weight_decay", 0, 1e6f, number);
    if (fields.count("param") > number) name = fields.text("param", number);
  } else if (fields.count("param") > number) {
    CaffeFields spec = fields.nested("param", number);
    param.rate = spec.real("lr_mult", 0, 1e6f);
    param.decay = spec.real("decay_mult", 0, 1e6f);
    name = spec.text("name");
  }
  if (!name.empty() && !layer.to.shared.insert(name).second)
    fields.refuse("param", fmt::format("shares the parameter {}", shown_name(name)),
                  "layers do not share parameters: give each its own name", number);
}

void check_caffe_multipliers(CaffeLayer& layer, int most, const char* hint) {
  for (const char* field : {"param", "blobs_lr", "weight_decay"})
    if (layer.fields.count(field) > most)
      layer.fields.refuse(field,
                          fmt::format("{}: {} values for {} parameter{}", field,
                                      layer.fields.count(field), most, most == 1 ? "" : "s"),
                          hint, most);
}

namespace {

void read_parameters(CaffeLayer& layer, std::optional<Sides> filter = {}) {
  const bool has_bias = layer.own.flag("bias_term");
  check_caffe_multipliers(
      layer, has_bias ? 2 : 1,
      has_bias ? "one is for the weights, one for the bias" : "there is no bias");
  ParamDescription weights, bias;
  read_caffe_multipliers(layer, 0, weights);
  weights.filler = read_caffe_filler(layer.own.nested("weight_filler"), filter);
  if (!layer.own.has("weight_filler"))
    layer.description.remarks.push_back(fmt::format(
        "{}: has no weight_filler: the weights begin at 0, as in Caffe", layer.description.where));
  if (has_bias) {
    read_caffe_multipliers(layer, 1, bias);
    bias.filler = read_caffe_filler(layer.own.nested("bias_filler"));
  } else {  // one that stays at 0
    if (layer.own.has("bias_filler"))
      layer.own.refuse("bias_filler", "bias_filler without a bias", "remove it, or bias_term");
    bias = {.filler = Filler{}, .rate = 0, .decay = 0, .in_files = false};
  }
  layer.description.params = {{ParamRole::weights, weights}, {ParamRole::bias, bias}};
}

int read_outputs(CaffeLayer& layer, int most) {
  if (!layer.own.has("num_output"))
    layer.own.refuse("", "has no num_output", "add it to the layer's parameters");
  layer.name("outputs", "num_output");
  return layer.own.failed() ? 1 : layer.own.whole("num_output", 1, most);
}

// Reads a convolution, or a transposed one. As in Caffe, one of pad_h and pad_w may be left out.
void read_filters(CaffeLayer& layer, std::string_view type) {
  FilterOptions filters;
  filters.filters = read_outputs(layer, 1 << 20);
  filters.size = read_sides(layer.own, {"kernel_size", "kernel_h", "kernel_w"}, -1, 1, 4096);
  filters.stride = read_sides(layer.own, {"stride", "stride_h", "stride_w"}, 1, 1, 4096);
  filters.padding = read_sides(layer.own, {"pad", "pad_h", "pad_w"}, 0, 0, 4096, 0);
  filters.dilation = read_sides(layer.own, {"dilation", "", ""}, 1, 1, 4096);
  filters.groups = layer.own.whole("group", 1, 1 << 20);
  layer.name("size", layer.own.has("kernel_size") ? "kernel_size" : "kernel_h");
  layer.name("padding", layer.own.has("pad") ? "pad" : "pad_h");
  layer.name("stride", layer.own.has("stride") ? "stride" : "stride_h");
  layer.name("groups", "group");
  read_parameters(layer, filters.size);
  layer.emit(type, filters);
}

void read_convolution(CaffeLayer& layer) { read_filters(layer, "convolutional"); }

void read_deconvolution(CaffeLayer& layer) { read_filters(layer, "deconvolutional"); }

void read_inner_product(CaffeLayer& layer) {
  const ConnectedOptions connected{.outputs = read_outputs(layer, 1 << 24)};
  read_parameters(layer);
  layer.emit("connected", connected);
}

}  // namespace

std::vector<CaffeType> caffe_weighted_types() {
  return {{.name = "Deconvolution",
           .old_name = "DECONVOLUTION",
           .param = "convolution_param",
           .read = read_deconvolution},
          {.name = "Convolution",
           .old_name = "CONVOLUTION",
           .param = "convolution_param",
           .read = read_convolution},
          {.name = "InnerProduct",
           .old_name = "INNER_PRODUCT",
           .param = "inner_product_param",
           .takes_vectors = true,
           .read = read_inner_product}};
}

}  // namespace omni
