// This file writes the description of a net as a prototxt of Caffe.
#include <fmt/format.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "codelets/elementwise/activation_functors.hpp"
#include "codelets/functions/curve.hpp"
#include "codelets/loss/cost_loss.hpp"
#include "layers/formats/caffe/caffe.hpp"
#include "layers/formats/caffe/caffe_writer.hpp"

namespace omni {
namespace {

constexpr std::string_view kNone = "Caffe has no such layer";

// Returns Caffe's type of an activation; "": it has none.
std::string_view type_of(Activation activation) {
  switch (activation) {
    case Activation::relu:
    case Activation::leaky: return "ReLU";
    case Activation::logistic: return "Sigmoid";
    case Activation::tanh: return "TanH";
    case Activation::elu: return "ELU";
    default: return "";
  }
}

class CaffeNetWriter : CaffeWriter {
 public:
  using CaffeWriter::CaffeWriter;
  Result<std::string> text() {
    out_.set_name(of_.title.empty() ? of_.name : of_.title);
    put_data();
    for (number_ = 0; number_ < of_.layers.size(); ++number_) put_layer();
    OMNI_CHECK(status_);
    std::string text;
    google::protobuf::TextFormat::PrintToString(out_, &text);
    return text;
  }

 private:
  void put_activation(Activation activation) {
    if (activation == Activation::linear) return;
    const std::string type(type_of(activation));
    if (type.empty())
      return refuse(fmt::format("activation {}", activation_name(activation)), kNone);
    const std::string& before = out_.layer(out_.layer_size() - 1).name();
    caffe::LayerParameter& layer = add_behind(type, unused(before + "_act"));
    if (activation == Activation::leaky) layer.mutable_relu_param()->set_negative_slope(0.1f);
  }

  // Adds what scales and shifts each channel.
  void put_factors(caffe::LayerParameter& layer) const {
    const bool shifts = in_files(ParamRole::bias);
    if (!in_files(ParamRole::scale)) {
      layer.set_type("Bias");
      put_rates({ParamRole::bias}, layer);
      return put_filler(ParamRole::bias, *layer.mutable_bias_param()->mutable_filler());
    }
    layer.set_type("Scale");
    if (shifts)
      put_rates({ParamRole::scale, ParamRole::bias}, layer);
    else
      put_rates({ParamRole::scale}, layer);
    caffe::ScaleParameter& scale = *layer.mutable_scale_param();
    put_filler(ParamRole::scale, *scale.mutable_filler());
    if (!shifts) return;
    scale.set_bias_term(true);
    put_filler(ParamRole::bias, *scale.mutable_bias_filler());
  }
  std::string name_of_factors(const std::string& before) {
    const ParamRole first = in_files(ParamRole::scale) ? ParamRole::scale : ParamRole::bias;
    const std::string& own = param(first)->owner;
    return own.empty() || own == described().name ? unused(before + "_scale") : unused(own, true);
  }
  void put_norm(const BatchnormOptions& options, caffe::LayerParameter& layer) {
    layer.set_type("BatchNorm");
    caffe::BatchNormParameter& norm = *layer.mutable_batch_norm_param();
    norm.set_moving_average_fraction(options.momentum);
    norm.set_eps(static_cast<float>(options.epsilon));
    if (options.frozen) norm.set_use_global_stats(true);
    if (!in_files(ParamRole::scale) && !in_files(ParamRole::bias)) return;
    const std::string before = layer.name();
    put_factors(add_behind("", name_of_factors(before)));
  }
  void put(const BatchnormOptions& options) {
    if (in_files(ParamRole::mean))
      put_norm(options, add("BatchNorm", "norm"));
    else
      put_factors(add("", "scale"));
    put_activation(options.activation);
  }

  // Fills the parameters of a layer with weights, and adds what follows it.
  void put_weights(caffe::LayerParameter& layer, auto& own, bool normalise, Activation activation) {
    const bool biased = !normalise && in_files(ParamRole::bias);
    put_filler(ParamRole::weights, *own.mutable_weight_filler());
    if (biased) {
      put_rates({ParamRole::weights, ParamRole::bias}, layer);
      put_filler(ParamRole::bias, *own.mutable_bias_filler());
    } else {
      put_rates({ParamRole::weights}, layer);
      own.set_bias_term(false);
    }
    const std::string name = layer.name();
    if (normalise) put_norm({}, add_behind("", unused(name + "_norm")));
    put_activation(activation);
  }

  // Writes a height and a width, as one field if they are equal.
  template <class Own>
  static void put_sides(Own& own, const Sides& sides, int usual, auto both, auto h, auto w) {
    if (sides.h == sides.w) {
      if (sides.h != usual) (own.*both)(static_cast<std::uint32_t>(sides.h));
      return;
    }
    (own.*h)(static_cast<std::uint32_t>(sides.h));
    (own.*w)(static_cast<std::uint32_t>(sides.w));
  }
  void put(const FilterOptions& filter) {
    if (described().type == "local") return refuse("[local]", kNone);
    const bool transposed = described().type == "deconvolutional";
    caffe::LayerParameter& layer = add(transposed ? "Deconvolution" : "Convolution", "conv");
    caffe::ConvolutionParameter& own = *layer.mutable_convolution_param();
    own.set_num_output(static_cast<std::uint32_t>(filter.filters));
    using Own = caffe::ConvolutionParameter;
    put_sides(own, filter.size, 0, &Own::add_kernel_size, &Own::set_kernel_h, &Own::set_kernel_w);
    put_sides(own, filter.stride, 1, &Own::add_stride, &Own::set_stride_h, &Own::set_stride_w);
    put_sides(own, filter.padding, 0, &Own::add_pad, &Own::set_pad_h, &Own::set_pad_w);
    if (filter.dilation != Sides{}) {
      own.add_dilation(static_cast<std::uint32_t>(filter.dilation.h));
      own.add_dilation(static_cast<std::uint32_t>(filter.dilation.w));
    }
    if (filter.groups != 1) own.set_group(static_cast<std::uint32_t>(filter.groups));
    put_weights(layer, own, filter.normalise, filter.activation);
  }
  void put(const ConnectedOptions& connected) {
    caffe::LayerParameter& layer = add("InnerProduct", "fc");
    caffe::InnerProductParameter& own = *layer.mutable_inner_product_param();
    own.set_num_output(static_cast<std::uint32_t>(connected.outputs));
    put_weights(layer, own, connected.normalise, connected.activation);
  }

  // Returns the number of windows of Caffe along one side.
  static int windows(int in, int size, int stride, int pad, bool rounds_up) {
    const int rest = in + 2 * pad - size;
    if (rest < 0) return 0;
    int count = (rest + (rounds_up ? stride - 1 : 0)) / stride + 1;
    if (pad > 0 && (count - 1) * stride >= in + pad) --count;
    return count;
  }
  void put(const WindowOptions& window) {
    caffe::LayerParameter& layer = add("Pooling", "pool");
    caffe::PoolingParameter& own = *layer.mutable_pooling_param();
    const bool mean = described().type == "avgpool";
    own.set_pool(mean ? caffe::PoolingParameter::AVE : caffe::PoolingParameter::MAX);
    if (window.whole_image) return own.set_global_pooling(true);
    const Sides pad{window.padding.h / 2, window.padding.w / 2};
    const Extent &in = built().inputs().front()->extent(), &out = built().output().extent;
    const auto fits = [&](bool rounds_up) {
      return windows(in.h, window.size.h, window.stride.h, pad.h, rounds_up) == out.h &&
             windows(in.w, window.size.w, window.stride.w, pad.w, rounds_up) == out.w;
    };
    const bool rounds_up = fits(true);
    if ((!rounds_up && !fits(false)) || pad.h >= window.size.h || pad.w >= window.size.w)
      return refuse(
          fmt::format("windows with a padding of {}x{} in all", window.padding.w, window.padding.h),
          "Caffe pads both sides alike, or makes other windows");
    if (mean && !window.counts_padding && pad != Sides{0, 0})
      return refuse("means that leave out the padding", "Caffe's count it");
    if (!rounds_up) own.set_round_mode(caffe::PoolingParameter::FLOOR);
    using Own = caffe::PoolingParameter;
    put_sides(own, window.size, 0, &Own::set_kernel_size, &Own::set_kernel_h, &Own::set_kernel_w);
    put_sides(own, window.stride, 1, &Own::set_stride, &Own::set_stride_h, &Own::set_stride_w);
    put_sides(own, pad, 0, &Own::set_pad, &Own::set_pad_h, &Own::set_pad_w);
  }

  void put(const ActivationOptions& options) {
    if (options.activation == Activation::linear) {
      add("Power", "copy");
      return;
    }
    const std::string_view type = type_of(options.activation);
    if (type.empty())
      return refuse(fmt::format("activation {}", activation_name(options.activation)), kNone);
    caffe::LayerParameter& layer = add(type, "act");
    if (options.activation == Activation::leaky)
      layer.mutable_relu_param()->set_negative_slope(0.1f);
  }
  void put(const PReluOptions& prelu) {
    if (prelu.constant)
      return add("ReLU", "act").mutable_relu_param()->set_negative_slope(*prelu.constant);
    caffe::LayerParameter& layer = add("PReLU", "prelu");
    put_rates({ParamRole::weights}, layer);
    put_filler(ParamRole::weights, *layer.mutable_prelu_param()->mutable_filler());
    if (prelu.shared) layer.mutable_prelu_param()->set_channel_shared(true);
  }
  void put(const PowerOptions& power) {
    caffe::PowerParameter& own = *add("Power", "power").mutable_power_param();
    own.set_power(power.power);
    own.set_scale(power.scale);
    own.set_shift(power.shift);
  }
  void put(const CurveOptions& curve) {
    switch (curve.curve) {
      case Curve::elu: return add("ELU", "elu").mutable_elu_param()->set_alpha(curve.parameter);
      case Curve::absolute: return void(add("AbsVal", "abs"));
      case Curve::softplus: return void(add("BNLL", "bnll"));
    }
  }
  // The parts of one blob that follow each other are one layer of Caffe.
  void put(const SliceOptions& first) {
    const std::vector<std::string> inputs = described().inputs;
    caffe::LayerParameter& layer = add("Slice", "slice");
    const auto next = [&]() -> const SliceOptions* {
      if (number_ + 1 >= of_.layers.size()) return nullptr;
      const LayerDescription& after = of_.layers[number_ + 1];
      const auto* part = std::get_if<SliceOptions>(&after.options);
      return after.inputs == inputs && after.where == described().where ? part : nullptr;
    };
    int last = first.last, parts = 1;
    for (const SliceOptions* part = next(); part != nullptr; part = next(), ++parts) {
      if (part->parts == 0) {
        layer.mutable_slice_param()->add_slice_point(static_cast<std::uint32_t>(last));
        last = part->last;
      }
      ++number_;
      layer.add_top(described().outputs.front());
    }
    if (first.first != 0 || last != 0 || parts != std::max(first.parts, parts))
      refuse("a part of a blob without the other parts", "Caffe divides whole blobs");
  }
  void put(const DropoutOptions& dropout) {
    add("Dropout", "drop").mutable_dropout_param()->set_dropout_ratio(dropout.probability);
  }
  // Caffe's alpha is divided by the size. The product may be one rounding away from the number that
  // gives the same quotient.
  void put(const LocalResponseOptions& lrn) {
    const auto size = static_cast<float>(lrn.size);
    float alpha = lrn.alpha * size;
    for (const float near : {std::nextafter(alpha, 0.0f), std::nextafter(alpha, 1e38f)})
      if (alpha / size != lrn.alpha && near / size == lrn.alpha) alpha = near;
    if (lrn.size % 2 == 0) return refuse(fmt::format("size {}", lrn.size), "Caffe's are odd");
    caffe::LRNParameter& own = *add("LRN", "lrn").mutable_lrn_param();
    own.set_local_size(static_cast<std::uint32_t>(lrn.size));
    own.set_alpha(alpha);
    own.set_beta(lrn.beta);
    own.set_k(lrn.kappa);
  }
  void put(const SumOptions& sum) {
    if (built().inputs()[0]->extent() != built().inputs()[1]->extent())
      return refuse("a sum of images of different sizes", "Caffe adds equal ones");
    caffe::EltwiseParameter& own = *add("Eltwise", "sum").mutable_eltwise_param();
    own.set_operation(caffe::EltwiseParameter::SUM);
    if (sum.alpha != 1 || sum.beta != 1) {
      own.add_coeff(sum.alpha);
      own.add_coeff(sum.beta);
    }
    put_activation(sum.activation);
  }
  void put_loss(caffe::LayerParameter& layer, int not_judged = kNoLabel) {
    layer.add_bottom(labels_);
    put_loss_weight(layer);
    if (!described().auxiliary) put_accuracy(std::string(layer.bottom(0)), not_judged);
  }
  void put_loss_weight(caffe::LayerParameter& layer) {
    if (described().loss_weight != 1) layer.add_loss_weight(described().loss_weight);
  }
  // Right answers are counted beside the loss.
  void put_accuracy(const std::string& scores, int not_judged) {
    for (const int top : {1, 5}) {
      if (top >= built().output().extent.c) return;
      caffe::LayerParameter& layer = *out_.add_layer();
      layer.set_name(unused(top == 1 ? "accuracy" : "accuracy_top5"));
      layer.set_type("Accuracy");
      layer.add_bottom(scores);
      layer.add_bottom(labels_);
      layer.add_top(layer.name());
      layer.add_include()->set_phase(caffe::TEST);
      if (top > 1) layer.mutable_accuracy_param()->set_top_k(5);
      if (not_judged != kNoLabel) layer.mutable_accuracy_param()->set_ignore_label(not_judged);
    }
  }
  void put(const SoftmaxOptions& softmax) {
    if (softmax.groups != 1 || softmax.temperature != 1)
      return refuse(softmax.groups != 1 ? "groups above 1" : "a temperature", "Caffe has none");
    const std::string scores = flattened();
    caffe::LayerParameter& layer =
        softmax.loss ? add("SoftmaxWithLoss", "loss") : add("Softmax", "prob");
    layer.set_bottom(0, scores);
    if (!softmax.loss) return;
    using Loss = caffe::LossParameter;
    if (softmax.ignored != kNoLabel) layer.mutable_loss_param()->set_ignore_label(softmax.ignored);
    if (softmax.mean != MeanLoss::of_labelled)
      layer.mutable_loss_param()->set_normalization(
          softmax.mean == MeanLoss::none ? Loss::NONE : Loss::BATCH_SIZE);
    put_loss(layer, softmax.not_judged);
  }
  // Caffe's softmax is over the channels of each pixel, so it reads a blob with one pixel. This
  // function returns the name of that blob.
  std::string flattened() {
    if (const Extent& of = built().inputs().front()->extent(); of.h * of.w == 1) return blob();
    caffe::LayerParameter& layer = *out_.add_layer();
    layer.set_name(unused(fmt::format("flat{}", number_)));
    layer.set_type("Flatten");
    layer.add_bottom(blob());
    layer.add_top(layer.name());
    return layer.name();
  }
  void put(const DistanceOptions& cost) {
    if (cost.distance < Distance::hinge || cost.scale != 1)
      return refuse("this distance", "Caffe has HingeLoss for labels");
    caffe::LayerParameter& layer = add("HingeLoss", "loss");
    if (cost.distance == Distance::squared_hinge)
      layer.mutable_hinge_loss_param()->set_norm(caffe::HingeLossParameter::L2);
    put_loss(layer);
  }
  void put(const TargetOptions& target) {
    if (target.mean && !target.logistic)
      return refuse("a mean over the values", "EuclideanLoss is their sum");
    caffe::LayerParameter& layer =
        add(target.logistic ? "SigmoidCrossEntropyLoss" : "EuclideanLoss", "loss");
    if (described().inputs.size() == 1) layer.add_bottom(labels_);
    put_loss_weight(layer);
    if (target.mean) layer.mutable_loss_param()->set_normalization(caffe::LossParameter::FULL);
    if (target.teaches_target) return;
    layer.add_propagate_down(true);
    layer.add_propagate_down(false);
  }
  void put(const PartOptions&) {}  // put_data() writes it
  void put(const auto&) { refuse(fmt::format("[{}]", described().type), kNone); }

  void put_layer() {
    const LayerDescription& layer = described();
    if (layer.type == "route" && layer.inputs.size() == 1)
      blobs_[layer.outputs.front()] = blob();  // its readers read that blob
    else if (layer.type == "route")
      add("Concat", "concat");
    else if (layer.type == "product" || layer.type == "larger")
      add("Eltwise", layer.type)
          .mutable_eltwise_param()
          ->set_operation(layer.type == "product" ? caffe::EltwiseParameter::PROD
                                                  : caffe::EltwiseParameter::MAX);
    else
      std::visit([&](const auto& options) { put(options); }, layer.options);
  }
};

}  // namespace

Result<std::string> write_caffe_net(const TrainableNet& of, const Net& net) {
  return CaffeNetWriter(of, net).text();
}

}  // namespace omni
