// This file reads Caffe's layers without weights, and its layers of data.
#include <fmt/format.h>

#include <algorithm>

#include "codelets/elementwise/activation_functors.hpp"
#include "codelets/functions/curve.hpp"
#include "layers/formats/caffe/caffe_layers.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

void read_pooling(CaffeLayer& layer) {
  CaffeFields& own = layer.own;
  const std::string method = own.word("pool");
  if (method == "STOCHASTIC")
    own.refuse("pool", "pool: STOCHASTIC is not supported", "known: MAX AVE");
  WindowOptions window;
  window.whole_image = own.flag("global_pooling");
  if (window.whole_image) {
    for (const char* name : {"kernel_size", "kernel_h", "kernel_w"})
      if (own.has(name))
        own.refuse(name, fmt::format("{} with global_pooling", name), "remove one of them");
    for (const char* name : {"stride", "stride_h", "stride_w", "pad", "pad_h", "pad_w"}) {
      const int usual = std::string_view(name).starts_with("stride") ? 1 : 0;
      if (own.has(name) && own.whole(name, 0, 4096) != usual)
        own.refuse(name, fmt::format("{} with global_pooling", name), "remove one of them");
    }
  } else {
    window.size = read_sides(own, {"kernel_size", "kernel_h", "kernel_w"}, -1, 1, kMaxWindow);
    window.stride = read_sides(own, {"stride", "stride_h", "stride_w"}, 1, 1, 4096);
    const Sides padding = read_sides(own, {"pad", "pad_h", "pad_w"}, 0, 0, 4096);
    const auto check = [&](const char* name, int pad, int size) {
      if (pad >= size)
        own.refuse(
            own.has("pad") ? "pad" : name,
            fmt::format("{}: {} makes windows without a pixel", own.has("pad") ? "pad" : name, pad),
            fmt::format("at most {} with this size", size - 1));
    };
    check("pad_h", padding.h, window.size.h);
    check("pad_w", padding.w, window.size.w);
    window.padding = {2 * padding.h, 2 * padding.w};
    window.rounds_up = own.word("round_mode") == "CEIL";
    window.counts_padding = true;
  }
  layer.name("size", own.has("kernel_size") ? "kernel_size" : "kernel_h");
  layer.name("stride", own.has("stride") ? "stride" : "stride_h");
  layer.emit(method == "AVE" ? "avgpool" : "maxpool", window);
}

// Adds an activation. If it works in place right behind a layer that can apply an activation
// itself, that layer applies it.
void add_activation(CaffeLayer& layer, Activation activation) {
  auto& layers = layer.to.net.layers;
  if (!layers.empty() && layers.back().outputs.front() == layer.bottom() &&
      layer.fields.text("top", 0) == layer.bottom()) {
    const auto take = [&](auto* options) {
      if (options == nullptr || options->activation != Activation::linear) return false;
      options->activation = activation;
      return true;
    };
    LayerOptions& before = layers.back().options;
    if (take(std::get_if<FilterOptions>(&before)) || take(std::get_if<ConnectedOptions>(&before)) ||
        take(std::get_if<BatchnormOptions>(&before)) || take(std::get_if<SumOptions>(&before)))
      return;
  }
  layer.emit("activation", ActivationOptions{activation});
}

void read_relu(CaffeLayer& layer) {
  const float slope = layer.own.real("negative_slope", -1e6f, 1e6f);
  if (slope != 0 && slope != 0.1f) return layer.emit("prelu", PReluOptions{.constant = slope});
  add_activation(layer, slope == 0 ? Activation::relu : Activation::leaky);
}

void read_prelu(CaffeLayer& layer) {
  check_caffe_multipliers(layer, 1, "the slopes are the only ones");
  ParamDescription slopes;
  read_caffe_multipliers(layer, 0, slopes);
  if (layer.own.has("filler")) slopes.filler = read_caffe_filler(layer.own.nested("filler"));
  layer.description.params = {{ParamRole::weights, slopes}};
  layer.emit("prelu", PReluOptions{.shared = layer.own.flag("channel_shared")});
}

void read_power(CaffeLayer& layer) {
  const auto number = [&](const char* name) { return layer.own.real(name, -1e6f, 1e6f); };
  layer.emit("power", PowerOptions{number("power"), number("scale"), number("shift")});
}

void read_sigmoid(CaffeLayer& layer) { add_activation(layer, Activation::logistic); }
void read_tanh(CaffeLayer& layer) { add_activation(layer, Activation::tanh); }
void read_elu(CaffeLayer& layer) {
  const float alpha = layer.own.real("alpha", -1e6f, 1e6f);
  if (alpha != 1) return layer.emit("curve", CurveOptions{Curve::elu, alpha});
  add_activation(layer, Activation::elu);
}
void read_absolute(CaffeLayer& layer) { layer.emit("curve", CurveOptions{Curve::absolute}); }
void read_softplus(CaffeLayer& layer) { layer.emit("curve", CurveOptions{Curve::softplus}); }

void read_dropout(CaffeLayer& layer) {
  layer.emit("dropout", DropoutOptions{layer.own.real("dropout_ratio", 0, 0.999f)});
}

// Returns the name of a blob between layers that one layer of Caffe becomes. It cannot be in the
// file, as names of blobs have no line end.
std::string name_of_step(const LayerDescription& layer, int step) {
  return fmt::format("{}\n{}", layer.outputs.front(), step);
}

// Within a channel, LRN is what Caffe makes of it: a square, a mean of windows, a power, a product.
void emit_local_response(CaffeLayer& layer, int size, float alpha, float beta) {
  const LayerDescription common = layer.description;
  const std::string squares = name_of_step(common, 1), means = name_of_step(common, 2),
                    factors = name_of_step(common, 3);
  const auto emit = [&](std::string_view type, std::vector<std::string> from, const std::string& to,
                        LayerOptions options) {
    layer.description = common;
    layer.description.inputs = std::move(from);
    layer.description.outputs = {to};
    layer.emit(type, std::move(options));
  };
  emit("power", {layer.bottom()}, squares, PowerOptions{.power = 2});
  emit(
      "avgpool", {squares}, means,
      WindowOptions{
          .size = Sides::square(size), .padding = Sides::square(size - 1), .counts_padding = true});
  emit("power", {means}, factors, PowerOptions{-beta, alpha, 1});
  emit("product", {layer.bottom(), factors}, common.outputs.front(), {});
}

// Reads an LRN layer. Caffe divides alpha by the number of values in the window.
void read_lrn(CaffeLayer& layer) {
  const bool within = layer.own.word("norm_region") == "WITHIN_CHANNEL";
  const int size = layer.own.whole("local_size", 1, within ? kMaxWindow : 1023);
  if (size % 2 == 0)
    layer.own.refuse("local_size", fmt::format("local_size: {} is even", size),
                     "a window has a middle");
  if (within && layer.own.real("k") != 1)
    layer.own.refuse("k", fmt::format("k: {} within a channel", layer.own.real("k")),
                     "Caffe takes 1 there: remove it");
  if (within)
    return emit_local_response(layer, size, layer.own.real("alpha", 0), layer.own.real("beta", 0));
  layer.emit("normalization",
             LocalResponseOptions{.size = size,
                                  .alpha = layer.own.real("alpha", 0) / static_cast<float>(size),
                                  .beta = layer.own.real("beta", 0),
                                  .kappa = layer.own.real("k", 1e-6f)});
}

// Reads an Eltwise layer. If it has more than two inputs, they are joined one after the other.
void read_eltwise(CaffeLayer& layer) {
  CaffeFields& own = layer.own;
  const std::string operation = own.word("operation");
  const int inputs = layer.fields.count("bottom"), factors = own.count("coeff");
  if (operation != "SUM" && factors > 0)
    own.refuse("coeff", fmt::format("coeff with operation: {}", operation),
               "it is for operation: SUM", 0);
  if (factors != 0 && factors != inputs)
    own.refuse("coeff", fmt::format("{} inputs but {} coeff", inputs, factors),
               "give one of each input");
  if (own.failed()) return;
  const auto factor = [&](int input) {
    return factors == 0 ? 1.0f : own.real("coeff", -1e6f, 1e6f, input);
  };
  const LayerDescription common = layer.description;
  std::string joined = layer.bottom(0);
  for (int i = 1; i < inputs; ++i) {
    layer.description = common;
    layer.description.inputs = {joined, layer.bottom(i)};
    joined = name_of_step(common, i);
    if (i + 1 < inputs) layer.description.outputs = {joined};
    // In Caffe the first of two equal values counts from the third input on.
    if (operation == "MAX" && i > 1)
      std::swap(layer.description.inputs[0], layer.description.inputs[1]);
    if (operation != "SUM")
      layer.emit(operation == "MAX" ? "larger" : "product", {});
    else
      layer.emit("shortcut", SumOptions{.alpha = i == 1 ? factor(0) : 1,
                                        .beta = factor(i),
                                        .activation = Activation::linear,
                                        .of_equals = true});
  }
}

// Reads a Slice layer. Every top becomes a layer, which copies its channels.
void read_slice(CaffeLayer& layer) {
  CaffeFields &own = layer.own, &fields = layer.fields;
  const int tops = fields.count("top"), points = own.count("slice_point");
  if (points != 0 && points != tops - 1)
    own.refuse("slice_point", fmt::format("{} tops but {} slice_point", tops, points),
               "each is the first channel of a top, but for the first top", 0);
  for (int i = 0; i < tops; ++i)
    if (fields.text("top", i) == layer.bottom())
      fields.refuse("top", "a part of a blob cannot replace it", "give it another name", i);
  if (own.failed()) return;
  layer.name("parts", "slice_point");
  const LayerDescription common = layer.description;
  int first = 0;
  for (int i = 0; i < tops; ++i) {
    layer.description = common;
    layer.description.outputs = {fields.text("top", i)};
    if (points == 0) {
      layer.emit("slice", SliceOptions{.part = i, .parts = tops});
      continue;
    }
    const int last = i < points ? own.whole("slice_point", first + 1, 1 << 24, i) : 0;
    layer.emit("slice", SliceOptions{.first = first, .last = last});
    first = last;
  }
}

// Reads a Split layer, whose tops are other names of its bottom.
void read_split(CaffeLayer& layer) {
  const LayerDescription common = layer.description;
  const bool flat = layer.to.flat.contains(layer.bottom());
  for (int i = 0; i < layer.fields.count("top"); ++i) {
    const std::string top = layer.fields.text("top", i);
    if (top == layer.bottom())
      layer.fields.refuse("top", "a copy of a blob cannot replace it", "give it another name", i);
    layer.description = common;
    layer.description.outputs = {top};
    layer.emit("route", {});
    if (flat) layer.to.flat.insert(top);
  }
}

void read_concat(CaffeLayer& layer) { layer.emit("route", {}); }

void read_flatten(CaffeLayer& layer) {
  layer.emit("route", {});
  layer.to.flat.insert(layer.fields.text("top", 0));
}

// Reads a Reshape layer. An image can only become a vector: 0 keeps the images, -1 takes the rest.
void read_reshape(CaffeLayer& layer) {
  CaffeFields shape = layer.own.nested("shape");
  const int count = shape.count("dim");
  const auto dim = [&](int i) { return i < count ? shape.whole("dim", -1, 1 << 24, i) : 1; };
  bool flattens = count >= 2 && dim(0) == 0 && dim(1) == -1;
  for (int i = 2; i < count; ++i) flattens = flattens && dim(i) == 1;
  if (!flattens)
    layer.fields.refuse("", "makes another shape than a vector of each image",
                        "as in shape { dim: 0 dim: -1 }");
  read_flatten(layer);
}

}  // namespace

std::vector<CaffeType> caffe_other_types() {
  constexpr int kMany = 1024;
  using Kind = CaffeType::Kind;
  return {
      {.name = "Pooling", .old_name = "POOLING", .param = "pooling_param", .read = read_pooling},
      {.name = "ReLU",
       .old_name = "RELU",
       .param = "relu_param",
       .takes_vectors = true,
       .read = read_relu},
      {.name = "PReLU", .param = "prelu_param", .read = read_prelu},
      {.name = "Power",
       .old_name = "POWER",
       .param = "power_param",
       .takes_vectors = true,
       .read = read_power},
      {.name = "Sigmoid",
       .old_name = "SIGMOID",
       .param = "sigmoid_param",
       .takes_vectors = true,
       .read = read_sigmoid},
      {.name = "TanH",
       .old_name = "TANH",
       .param = "tanh_param",
       .takes_vectors = true,
       .read = read_tanh},
      {.name = "ELU", .param = "elu_param", .takes_vectors = true, .read = read_elu},
      {.name = "AbsVal", .old_name = "ABSVAL", .takes_vectors = true, .read = read_absolute},
      {.name = "BNLL", .old_name = "BNLL", .takes_vectors = true, .read = read_softplus},
      {.name = "Split",
       .old_name = "SPLIT",
       .most_tops = kMany,
       .takes_vectors = true,
       .read = read_split},
      {.name = "Reshape", .param = "reshape_param", .takes_vectors = true, .read = read_reshape},
      {.name = "Dropout",
       .old_name = "DROPOUT",
       .param = "dropout_param",
       .takes_vectors = true,
       .read = read_dropout},
      {.name = "LRN", .old_name = "LRN", .param = "lrn_param", .read = read_lrn},
      {.name = "Eltwise",
       .old_name = "ELTWISE",
       .param = "eltwise_param",
       .bottoms = 2,
       .most_bottoms = kMany,
       .read = read_eltwise},
      {.name = "Concat",
       .old_name = "CONCAT",
       .param = "concat_param",
       .bottoms = 2,
       .most_bottoms = kMany,
       .read = read_concat},
      {.name = "Slice",
       .old_name = "SLICE",
       .param = "slice_param",
       .most_tops = kMany,
       .read = read_slice},
      {.name = "Flatten",
       .old_name = "FLATTEN",
       .param = "flatten_param",
       .takes_vectors = true,
       .read = read_flatten},
      {.name = "Data",
       .old_name = "DATA",
       .param = "data_param",
       .kind = Kind::data,
       .transforms = true,
       .read = read_caffe_data},
      {.name = "ImageData",
       .old_name = "IMAGE_DATA",
       .param = "image_data_param",
       .kind = Kind::data,
       .transforms = true,
       .read = read_caffe_data},
      {.name = "HDF5Data",
       .old_name = "HDF5_DATA",
       .param = "hdf5_data_param",
       .kind = Kind::data,
       .read = read_caffe_data},
      {.name = "MemoryData",
       .old_name = "MEMORY_DATA",
       .param = "memory_data_param",
       .kind = Kind::data,
       .transforms = true,
       .read = read_caffe_data},
      {.name = "DummyData",
       .old_name = "DUMMY_DATA",
       .param = "dummy_data_param",
       .kind = Kind::data,
       .read = read_caffe_data},
      {.name = "Input", .param = "input_param", .kind = Kind::data, .read = read_caffe_data},
  };
}

}  // namespace omni
