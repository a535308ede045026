// Layers that only move values. [crop] takes a random window (mirrored half of the time with
// flip=1) in training, the centre otherwise. [upsample] repeats every pixel, [reorg] trades space
// for depth.
#include <fmt/format.h>

#include "codelets/spatial/resampling.hpp"
#include "layers/registry.hpp"

namespace omni {
namespace {

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
