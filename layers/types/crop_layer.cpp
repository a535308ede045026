// [crop]: a random window (mirrored half of the time with flip=1) in training, the centre
// otherwise.
#include <fmt/format.h>

#include "codelets/spatial/crop_mirror.hpp"
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

const LayerRegistration crop_registration(
    {.name = "crop",
     .summary = "random crop and mirror in training, else the centre",
     .keys = {{"crop_height", "1", "height of the output"},
              {"crop_width", "1", "width of the output"},
              {"flip", "0", "1: mirror half of the images"},
              {"noadjust", "0", "1: keep [0,1], do not map to [-1,1]"}},
     .in_vain = "angle=0 saturation=1 exposure=1 shift=0",
     .make = make_layer<CropLayer>});

}  // namespace
}  // namespace omni
