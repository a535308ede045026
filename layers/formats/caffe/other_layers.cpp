// This file reads Caffe's layers without weights, and its losses.
#include <fmt/format.h>

#include <algorithm>

#include "codelets/elementwise/activation_functors.hpp"
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
    window.size = read_square(own, {"kernel_size", "kernel_h", "kernel_w"}, -1, 1, kMaxWindow);
    const Sides stride = read_sides(own, {"stride", "stride_h", "stride_w"}, 1, 1, 4096);
    window.stride_h = stride.h;
    window.stride_w = stride.w;
    const int padding = read_square(own, {"pad", "pad_h", "pad_w"}, 0, 0, 4096);
    if (padding >= window.size)
      own.refuse("pad", fmt::format("pad: {} makes windows without a pixel", padding),
                 fmt::format("at most {} with this size", window.size - 1));
    window.padding = 2 * padding;
    window.rounds_up = own.word("round_mode") == "CEIL";
    window.counts_padding = true;
  }
  layer.name("size", own.has("kernel_size") ? "kernel_size" : "kernel_h");
  layer.name("stride", "stride");
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
  const float slope = layer.own.real("negative_slope");
  if (slope != 0 && slope != 0.1f)
    layer.own.refuse("negative_slope", fmt::format("negative_slope: {} is not supported", slope),
                     "known: 0 and 0.1");
  add_activation(layer, slope == 0 ? Activation::relu : Activation::leaky);
}

void read_sigmoid(CaffeLayer& layer) { add_activation(layer, Activation::logistic); }
void read_tanh(CaffeLayer& layer) { add_activation(layer, Activation::tanh); }
void read_elu(CaffeLayer& layer) { add_activation(layer, Activation::elu); }

void read_dropout(CaffeLayer& layer) {
  layer.emit("dropout", DropoutOptions{layer.own.real("dropout_ratio", 0, 0.999f)});
}

// Reads an LRN layer. Caffe divides alpha by the number of values in the window.
void read_lrn(CaffeLayer& layer) {
  const int size = layer.own.whole("local_size", 1, 1023);
  if (size % 2 == 0)
    layer.own.refuse("local_size", fmt::format("local_size: {} is even", size),
                     "a window has a middle");
  layer.emit("normalization",
             LocalResponseOptions{.size = size,
                                  .alpha = layer.own.real("alpha", 0) / static_cast<float>(size),
                                  .beta = layer.own.real("beta", 0),
                                  .kappa = layer.own.real("k", 1e-6f)});
}

// Reads an Eltwise layer. If it has more than two inputs, they are added one after the other.
void read_eltwise(CaffeLayer& layer) {
  CaffeFields& own = layer.own;
  if (const std::string operation = own.word("operation"); operation != "SUM")
    own.refuse("operation", fmt::format("operation: {} is not supported", operation), "known: SUM");
  const int inputs = layer.fields.count("bottom"), factors = own.count("coeff");
  if (factors != 0 && factors != inputs)
    own.refuse("coeff", fmt::format("{} inputs but {} coeff", inputs, factors),
               "give one of each input");
  if (own.failed()) return;
  const auto factor = [&](int input) {
    return factors == 0 ? 1.0f : own.real("coeff", -1e6f, 1e6f, input);
  };
  const LayerDescription common = layer.description;
  std::string sum = layer.bottom(0);
  for (int i = 1; i < inputs; ++i) {
    layer.description = common;
    layer.description.inputs = {sum, layer.bottom(i)};
    // This name of the partial sum cannot be in the file, as names of blobs have no line end.
    sum = fmt::format("{}\n{}", common.outputs.front(), i);
    if (i + 1 < inputs) layer.description.outputs = {sum};
    layer.emit("shortcut", SumOptions{.alpha = i == 1 ? factor(0) : 1,
                                      .beta = factor(i),
                                      .activation = Activation::linear,
                                      .of_equals = true});
  }
}

void read_concat(CaffeLayer& layer) { layer.emit("route", {}); }

void read_flatten(CaffeLayer& layer) {
  layer.emit("route", {});
  layer.to.flat.insert(layer.fields.text("top", 0));
}

void read_softmax(CaffeLayer& layer) {
  if (layer.to.probabilities)
    layer.fields.refuse("", "is a second Softmax", "a net has one output");
  layer.description.type = "softmax";
  layer.description.options =
      SoftmaxOptions{.loss = false, .spatial = !layer.to.flat.contains(layer.bottom())};
  layer.to.probabilities = layer.description;
}

void read_softmax_loss(CaffeLayer& layer) {
  CaffeFields& fields = layer.fields;
  if (layer.to.loss)
    fields.refuse("", "is a second loss", "a net has one; auxiliary losses are not supported");
  if (!layer.to.labels.contains(layer.bottom(1)))
    fields.refuse("bottom", fmt::format("{} is no blob of labels", shown_name(layer.bottom(1))),
                  "the second bottom is the second top of the data", 1);
  if (fields.count("loss_weight") > 0 && fields.real("loss_weight", -1e9f, 1e9f, 0) != 1)
    fields.refuse("loss_weight", "a loss_weight other than 1 is not supported",
                  "a net has one loss: change the learning rate", 0);
  if (const std::string mode = layer.own.word("normalization"); mode == "NONE")
    layer.own.refuse("normalization", "normalization: NONE is not supported",
                     "the loss is the mean over the images");
  layer.to.loss_input = layer.bottom();
  layer.description.type = "softmax";
  layer.description.inputs = {layer.bottom()};
  layer.description.outputs = {fields.count("top") > 0 ? fields.text("top", 0)
                                                       : fields.text("name") + "\nloss"};
  layer.description.options = SoftmaxOptions{.spatial = !layer.to.flat.contains(layer.bottom())};
  layer.to.loss = layer.description;
}

// Reads an Accuracy layer, which is only noted, as right answers are counted in any case.
void read_accuracy(CaffeLayer& layer) {
  if (const int most = layer.own.whole("top_k", 1, 1 << 24); most != 1 && most != 5)
    layer.own.refuse("top_k", fmt::format("top_k: {} is not supported", most), "known: 1 and 5");
  layer.to.measured.emplace_back(layer.bottom(), layer.fields.where());
}

void read_silence(CaffeLayer&) {}

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
      {.name = "Flatten",
       .old_name = "FLATTEN",
       .param = "flatten_param",
       .takes_vectors = true,
       .read = read_flatten},
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
      {.name = "Accuracy",
       .old_name = "ACCURACY",
       .param = "accuracy_param",
       .kind = Kind::measure,
       .bottoms = 2,
       .most_bottoms = 2,
       .takes_vectors = true,
       .read = read_accuracy},
      {.name = "Silence",
       .old_name = "SILENCE",
       .kind = Kind::measure,
       .most_bottoms = kMany,
       .takes_vectors = true,
       .read = read_silence},
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
