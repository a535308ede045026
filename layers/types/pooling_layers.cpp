// [maxpool] and [avgpool]. Darknet's padding is the total of both sides and defaults to size-1; its
// [avgpool] is global. Here [avgpool] with a size pools locally.
#include <fmt/format.h>

#include "codelets/spatial/pooling.hpp"
#include "layers/registry.hpp"
#include "layers/types/filter_shape.hpp"

namespace omni {
namespace {

constexpr int kMaxWindow = 255;  // squared, below kNoCell<std::uint16_t>

// Reads size, stride and padding; without a size key, the whole image.
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

}  // namespace
}  // namespace omni
