// These layers change the image plane. Pooling layers pool windows or the whole image. A crop layer
// takes a random window in training, otherwise the centre. With flip, it mirrors half of the
// training windows. An upsample layer repeats every pixel. A reorg layer moves pixels to channels.
#include <fmt/format.h>

#include "codelets/spatial/crop_mirror.hpp"
#include "codelets/spatial/pooling.hpp"
#include "codelets/spatial/reorg.hpp"
#include "codelets/spatial/upsample.hpp"
#include "layers/layer_builder.hpp"
#include "layers/types/filter_shape.hpp"

namespace omni {
namespace {

// The following code implements pooling layers.

// Returns the windows of a pooling layer on its input.
PoolShape window_shape(LayerBuilder& builder) {
  const auto& options = builder.options<WindowOptions>();
  const Extent& src = builder.extent();
  PoolShape pool{.n = 0, .h = src.h, .w = src.w, .c = src.c};
  if (options.whole_image) {
    pool.kernel_h = src.h;
    pool.kernel_w = src.w;
    pool.out_h = pool.out_w = 1;
    return pool;
  }
  const Sides size = options.size, padding = options.padding, stride = options.stride;
  pool.kernel_h = size.h;
  pool.kernel_w = size.w;
  pool.stride_h = stride.h;
  pool.stride_w = stride.w;
  pool.offset_h = padding.h / 2;
  pool.offset_w = padding.w / 2;
  if (padding.h > 2 * (size.h - 1) || padding.w > 2 * (size.w - 1))
    builder.refuse("padding",
                   fmt::format("padding {} makes windows without a pixel",
                               text_of_sides(padding.w, padding.h)),
                   fmt::format("at most {} with this size",
                               text_of_sides(2 * (size.w - 1), 2 * (size.h - 1))));
  // If output sizes are rounded up, a window also fits if less than a stride is missing.
  const auto fits = [&](int side, int kernel, int pad, int step) {
    return side + pad >= kernel || (options.rounds_up && kernel - (side + pad) < step);
  };
  if (!fits(src.h, size.h, padding.h, stride.h) || !fits(src.w, size.w, padding.w, stride.w)) {
    builder.refuse("size",
                   fmt::format("a window of {} does not fit an input of {}x{}",
                               text_of_sides(size.w, size.h), src.w, src.h),
                   "choose a smaller size or more padding");
    pool.out_h = pool.out_w = 1;
    return pool;
  }
  pool.counts_padding = options.counts_padding;
  const bool has_padding = padding != Sides{0, 0};
  const auto outputs = [&](int side, int kernel, int pad, int step) {
    const int room = side + pad - kernel, most = room / step + 1;
    if (room < 0) return 1;
    if (!options.rounds_up || room % step == 0) return most;
    const bool begins_inside = most * step - pad / 2 < side;
    if (!begins_inside && !has_padding)
      builder.refuse("stride", "the last window would have no pixel",
                     "choose a smaller stride, or a size that is not smaller than it");
    return begins_inside ? most + 1 : most;
  };
  pool.out_h = outputs(src.h, size.h, padding.h, stride.h);
  pool.out_w = outputs(src.w, size.w, padding.w, stride.w);
  return pool;
}

class PoolLayer : public Layer {
 public:
  explicit PoolLayer(LayerBuilder& builder) : Layer(builder) {
    pool_ = window_shape(builder);
    builder.input();
    output_ = builder.blob("output", {pool_.out_h, pool_.out_w, pool_.c});
  }
  bool allows_dropout_in_place() const override { return true; }
  std::string detail() const override { return window_text(pool_); }
  double forward_flops_per_image() const override {
    return values_per_image() * pool_.kernel_h * pool_.kernel_w;
  }

 protected:
  PoolShape pool(int slice) const { return with_images(pool_, images(slice)); }
  PoolShape pool_;
};

class MaxPoolLayer final : public PoolLayer {
 public:
  explicit MaxPoolLayer(LayerBuilder& builder) : PoolLayer(builder) {
    index_ = builder.per_slice("index", pool_index_bytes(with_images(pool_, 1)), DataType::u8);
  }
  bool can_take_relu_gradient() const override { return true; }
  void take_relu_gradient() override { pool_.after_relu = true; }
  std::string in_one_task() const override { return pool_.after_relu ? "relu gradient" : ""; }
  void forward(const Step&, int slice) override {
    max_pool_forward.submit(pool(slice),
                            {read(input().value(slice)), write(value(slice)), write(index(slice))},
                            forward_tag(slice));
  }
  void backward(const Step&, int slice) override {
    if (input().wants_gradient())
      max_pool_backward.submit(
          pool(slice), {read(diff(slice)), read(index(slice)), write(input().gradient(slice))},
          data_gradient_tag(slice));
  }

 private:
  const Tensor& index(int slice) const { return *index_[slice]; }
  std::vector<Tensor*> index_;
};

class AveragePoolLayer final : public PoolLayer {
 public:
  using PoolLayer::PoolLayer;
  void forward(const Step&, int slice) override {
    submit_forward(average_pool_forward, pool(slice), slice);
  }
  void backward(const Step&, int slice) override {
    submit_backward(average_pool_backward, pool(slice), slice);
  }
};

const LayerRegistration maxpool({.name = "maxpool", .make = make_layer<MaxPoolLayer>});
const LayerRegistration avgpool({.name = "avgpool", .make = make_layer<AveragePoolLayer>});

// The following layers move values.

class CropLayer final : public Layer {
 public:
  explicit CropLayer(LayerBuilder& builder) : Layer(builder) {
    const auto& options = builder.options<CropOptions>();
    args_.src = builder.input().extent();
    args_.out_h = options.height;
    args_.out_w = options.width;
    args_.flip = options.flip;
    args_.adjust = options.adjust;
    args_.layer = index();
    if (args_.out_h > args_.src.h || args_.out_w > args_.src.w) {
      builder.refuse("height",
                     fmt::format("a crop of {}x{} does not fit an input of {}x{}", args_.out_w,
                                 args_.out_h, args_.src.w, args_.src.h),
                     "make it smaller");
      args_.out_h = args_.src.h;
      args_.out_w = args_.src.w;
    }
    output_ = builder.blob("output", args_.dst());
  }

  std::string detail() const override { return fmt::format("{}x{}", args_.out_w, args_.out_h); }
  void forward(const Step& step, int slice) override {
    submit_forward(crop_mirror_forward, args(step, slice), slice);
  }
  void backward(const Step& step, int slice) override {
    submit_backward(crop_mirror_backward, args(step, slice), slice);
  }

 private:
  CropMirrorArgs args(const Step& step, int slice) const {
    CropMirrorArgs args = args_;
    args.n = images(slice);
    args.training = step.training;
    args.seed = step.seed;
    args.first_sample = first_sample(step, slice);
    return args;
  }
  CropMirrorArgs args_;
};

class UpsampleLayer final : public Layer {
 public:
  explicit UpsampleLayer(LayerBuilder& builder) : Layer(builder) {
    args_.src = builder.input().extent();
    args_.stride = builder.options<UpsampleOptions>().stride;
    args_.scale = builder.options<UpsampleOptions>().scale;
    output_ = builder.blob("output",
                           {args_.src.h * args_.stride, args_.src.w * args_.stride, args_.src.c});
  }

  std::string detail() const override { return fmt::format("x{}", args_.stride); }
  void forward(const Step&, int slice) override {
    submit_forward(upsample_forward, args(slice), slice);
  }
  void backward(const Step&, int slice) override {
    submit_backward(upsample_backward, args(slice), slice);
  }

 private:
  UpsampleArgs args(int slice) const { return with_images(args_, images(slice)); }
  UpsampleArgs args_;
};

class ReorgLayer final : public Layer {
 public:
  explicit ReorgLayer(LayerBuilder& builder) : Layer(builder) {
    const Extent src = builder.input().extent();
    const int stride = builder.options<ReorgOptions>().stride;
    args_.stride = stride;
    args_.to_depth = builder.options<ReorgOptions>().to_depth;
    const int block = stride * stride;
    if (args_.to_depth && (src.h % stride != 0 || src.w % stride != 0))
      builder.refuse("stride", fmt::format("{}x{} is not divisible by {}", src.w, src.h, stride),
                     "choose a divisor of width and height");
    if (!args_.to_depth && src.c % block != 0)
      builder.refuse("stride", fmt::format("{} channels are not divisible by {}", src.c, block),
                     "choose a divisor");
    if (!builder.status()) return;
    const Extent wide{src.h * stride, src.w * stride, src.c / block};
    args_.wide = args_.to_depth ? src : wide;
    output_ = builder.blob(
        "output", args_.to_depth ? Extent{src.h / stride, src.w / stride, src.c * block} : wide);
  }

  std::string detail() const override { return fmt::format("/{}", args_.stride); }
  void forward(const Step&, int slice) override { submit_forward(reorg, args(slice), slice); }
  void backward(const Step&, int slice) override {
    ReorgArgs back = args(slice);
    back.to_depth = !back.to_depth;
    submit_backward(reorg, back, slice);
  }

 private:
  ReorgArgs args(int slice) const { return with_images(args_, images(slice)); }
  ReorgArgs args_;
};

const LayerRegistration crop_registration({.name = "crop", .make = make_layer<CropLayer>});
const LayerRegistration upsample({.name = "upsample", .make = make_layer<UpsampleLayer>});
const LayerRegistration reorg({.name = "reorg", .make = make_layer<ReorgLayer>});

}  // namespace
}  // namespace omni
