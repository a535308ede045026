// Layers over the image plane. For [maxpool] and [avgpool] Darknet's padding is the total of both
// sides, by default size-1. Darknet's [avgpool] is global; here [avgpool] with a size pools
// locally. In training [crop] takes a random window, and with flip=1 mirrors half of them;
// otherwise it takes the centre. [upsample] repeats every pixel, [reorg] moves pixels to channels.
#include <fmt/format.h>

#include "codelets/spatial/crop_mirror.hpp"
#include "codelets/spatial/pooling.hpp"
#include "codelets/spatial/reorg.hpp"
#include "codelets/spatial/upsample.hpp"
#include "layers/layer_builder.hpp"
#include "layers/types/filter_shape.hpp"

namespace omni {
namespace {

// ---- pooling ----

constexpr int kMaxWindow = 255;  // its square must be below kNoCell<std::uint16_t>

// Reads size, stride and padding. Without a size the window is the whole image.
PoolShape read_window(LayerBuilder& builder, const Extent& src, bool global) {
  OptionReader& options = builder.options();
  PoolShape pool{.n = 0, .h = src.h, .w = src.w, .c = src.c};
  if (global) {
    pool.kernel_h = src.h;
    pool.kernel_w = src.w;
    pool.out_h = pool.out_w = 1;
    return pool;
  }
  const int stride = options.integer("stride", 1, 1, 4096);
  int size = options.integer("size", stride, 1, kMaxWindow);
  if (size > kMaxWindow) {
    options.refuse("stride", fmt::format("windows of {} (without size, the stride's)", size),
                   fmt::format("set size, to {} at most", kMaxWindow));
    size = kMaxWindow;
  }
  const int padding = options.integer("padding", size - 1, 0, 4096);
  pool.kernel_h = pool.kernel_w = size;
  pool.stride_h = options.integer("stride_y", stride, 1, 4096);
  pool.stride_w = options.integer("stride_x", stride, 1, 4096);
  pool.offset_h = pool.offset_w = padding / 2;
  if (padding > 2 * (size - 1))
    options.refuse("padding", fmt::format("padding {} makes windows without a pixel", padding),
                   fmt::format("at most {} with this size", 2 * (size - 1)));
  if (src.h + padding < size || src.w + padding < size) {
    options.refuse("size",
                   fmt::format("a window of {} does not fit an input of {}x{}", size, src.w, src.h),
                   "choose a smaller size or more padding");
    pool.out_h = pool.out_w = 1;
    return pool;
  }
  pool.out_h = (src.h + padding - size) / pool.stride_h + 1;
  pool.out_w = (src.w + padding - size) / pool.stride_w + 1;
  return pool;
}

class PoolLayer : public Layer {
 public:
  PoolLayer(LayerBuilder& builder, bool global) : Layer(builder) {
    pool_ = read_window(builder, builder.input().extent(), global);
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
  explicit MaxPoolLayer(LayerBuilder& builder) : PoolLayer(builder, false) {
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
  explicit AveragePoolLayer(LayerBuilder& builder)
      : PoolLayer(builder, !builder.options().has("size")) {}
  void forward(const Step&, int slice) override {
    submit_forward(average_pool_forward, pool(slice), slice);
  }
  void backward(const Step&, int slice) override {
    submit_backward(average_pool_backward, pool(slice), slice);
  }
};

const LayerRegistration maxpool(
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
     .make = make_layer<MaxPoolLayer>});

const LayerRegistration avgpool({.name = "avgpool",
                                 .aliases = {"avg"},
                                 .summary = "mean of each window; without size: of the whole image",
                                 .keys = {{"size", "", "window; absent: the whole image"},
                                          {"stride", "1", "step of the window"},
                                          {"stride_x", "stride", "step along the width"},
                                          {"stride_y", "stride", "step along the height"},
                                          {"padding", "size-1", "total of both sides"}},
                                 .make = make_layer<AveragePoolLayer>});

// ---- only moving values ----

class CropLayer final : public Layer {
 public:
  explicit CropLayer(LayerBuilder& builder) : Layer(builder) {
    OptionReader& options = builder.options();
    args_.src = builder.input().extent();
    args_.out_h = options.integer("crop_height", 1, 1);
    args_.out_w = options.integer("crop_width", 1, 1);
    args_.flip = options.flag("flip", false);
    args_.adjust = !options.flag("noadjust", false);
    args_.layer = index();
    if (args_.out_h > args_.src.h || args_.out_w > args_.src.w) {
      options.refuse("crop_height",
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
    args_.stride = builder.options().integer("stride", 2, 1, 64);
    args_.scale = builder.options().real("scale", 1);
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
    OptionReader& options = builder.options();
    const Extent src = builder.input().extent();
    const int stride = options.integer("stride", 1, 1, 64);
    args_.stride = stride;
    args_.to_depth = !options.flag("reverse", false);
    const int block = stride * stride;
    if (args_.to_depth && (src.h % stride != 0 || src.w % stride != 0))
      options.refuse("stride", fmt::format("{}x{} is not divisible by {}", src.w, src.h, stride),
                     "choose a divisor of width and height");
    if (!args_.to_depth && src.c % block != 0)
      options.refuse("stride", fmt::format("{} channels are not divisible by {}", src.c, block),
                     "choose a divisor");
    if (!options.status()) return;
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

const LayerRegistration crop_registration(
    {.name = "crop",
     .summary = "random crop and mirror in training, else the centre",
     .keys = {{"crop_height", "1", "height of the output"},
              {"crop_width", "1", "width of the output"},
              {"flip", "0", "1: mirror half of the images"},
              {"noadjust", "0", "1: keep [0,1], do not map to [-1,1]"}},
     .in_vain = "angle=0 saturation=1 exposure=1 shift=0",
     .make = make_layer<CropLayer>});

const LayerRegistration upsample({.name = "upsample",
                                  .summary = "repeats every pixel",
                                  .keys = {{"stride", "2", "factor of the enlargement"},
                                           {"scale", "1", "multiplies the values"}},
                                  .make = make_layer<UpsampleLayer>});

const LayerRegistration reorg({.name = "reorg",
                               .summary = "moves blocks of pixels into channels",
                               .keys = {{"stride", "1", "block size"},
                                        {"reverse", "0", "1: channels into blocks of pixels"},
                                        {"flatten", "0", "it orders the output otherwise",
                                         Effect::refused},
                                        {"extra", "0", "it pads the output", Effect::refused}},
                               .make = make_layer<ReorgLayer>});

}  // namespace
}  // namespace omni
