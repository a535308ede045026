// These layers read earlier layers. A route joins their outputs along the channels. A route to one
// layer computes nothing: its readers read that layer. A slice copies a range of channels, a part
// one input of a net that has several. A product multiplies two layers' outputs. A shortcut adds an
// earlier layer's output to the previous one's, which makes a residual block.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "codelets/functions/larger.hpp"
#include "codelets/functions/product.hpp"
#include "codelets/functions/shortcut_add.hpp"
#include "codelets/spatial/copy_channels.hpp"
#include "layers/layer_builder.hpp"
#include "layers/types/blocks/output_blocks.hpp"

namespace omni {
namespace {

void refuse_unequal(LayerBuilder& builder, const Extent& a, const Extent& b, const char* joined) {
  builder.refuse("inputs",
                 fmt::format("its inputs are {}x{}x{} and {}x{}x{}", a.w, a.h, a.c, b.w, b.h, b.c),
                 fmt::format("only blobs of equal size are {}", joined));
}

class RouteLayer final : public Layer {
 public:
  explicit RouteLayer(LayerBuilder& builder) : Layer(builder) {
    from_ = builder.inputs();
    if (from_.size() == 1) {
      alias_output(builder.alias());
      return;
    }
    Extent extent{builder.extent().h, builder.extent().w, 0};
    for (std::size_t i = 0; i < from_.size(); ++i) {
      const Extent& part = builder.extent(i);
      if (part.h != extent.h || part.w != extent.w)
        builder.refuse("inputs",
                       fmt::format("layer {} is {}x{}, layer {} is {}x{}", from_[0], extent.w,
                                   extent.h, from_[i], part.w, part.h),
                       "joined layers need equal width and height");
      if (part.c > std::numeric_limits<int>::max() - extent.c) {
        builder.refuse("inputs", "too many channels in one output", "join fewer layers");
        break;
      }
      builder.input(i);
      offsets_.push_back(extent.c);
      extent.c += part.c;
    }
    output_ = builder.blob("output", extent);
  }

  std::string detail() const override { return fmt::format("layers {}", fmt::join(from_, " ")); }
  std::string in_one_task() const override { return is_alias() ? "no copy" : ""; }
  void forward(const Step&, int slice) override {
    if (is_alias()) return;
    for (std::size_t i = 0; i < inputs().size(); ++i) {
      CopyChannelsArgs join = copy_of(i, slice);
      join.dst_c = output_.extent.c;
      join.dst_offset = offsets_[i];
      // The first copy overwrites the output. Each further copy keeps the channels that are already
      // written.
      copy_channels.submit(
          join,
          {read(input(i).value(slice)), i == 0 ? write(value(slice)) : read_write(value(slice))},
          forward_tag(slice));
    }
  }
  void backward(const Step&, int slice) override {
    if (is_alias()) return;
    for (std::size_t i = 0; i < inputs().size(); ++i) {
      if (!input(i).wants_gradient()) continue;
      CopyChannelsArgs split = copy_of(i, slice);
      split.src_c = output_.extent.c;
      split.src_offset = offsets_[i];
      copy_channels.submit(split, {read(diff(slice)), write(input(i).gradient(slice))},
                           data_gradient_tag(slice));
    }
  }

 private:
  CopyChannelsArgs copy_of(std::size_t which, int slice) const {
    const int c = input(which).extent().c;
    return {.rows = std::int64_t{images(slice)} * output_.extent.h * output_.extent.w,
            .c = c,
            .src_c = c,
            .dst_c = c};
  }
  std::vector<int> from_, offsets_;
};

class SliceLayer final : public Layer {
 public:
  explicit SliceLayer(LayerBuilder& builder) : Layer(builder) {
    const auto& options = builder.options<SliceOptions>();
    const Extent src = builder.input().extent();
    int last = options.last == 0 ? src.c : options.last;
    first_ = options.first;
    if (options.parts > 0) {
      if (src.c % options.parts != 0)
        builder.refuse("parts",
                       fmt::format("{} channels are not divisible by {}", src.c, options.parts),
                       "say where the parts begin");
      const int each = std::max(1, src.c / options.parts);
      first_ = options.part * each;
      last = first_ + each;
    }
    if (first_ >= last || last > src.c) {
      builder.refuse("parts", fmt::format("channels {} to {} of {}", first_, last - 1, src.c),
                     "a part has at least one channel of the input");
      first_ = 0;
      last = 1;
    }
    output_ = builder.blob("output", {src.h, src.w, last - first_});
  }

  std::string detail() const override {
    return fmt::format("channels {} to {}", first_, first_ + output_.extent.c - 1);
  }
  void forward(const Step&, int slice) override {
    CopyChannelsArgs copy = copy_of(slice);
    copy.src_c = input().extent().c;
    copy.src_offset = first_;
    submit_forward(copy_channels, copy, slice);
  }
  void backward(const Step&, int slice) override {
    CopyChannelsArgs copy = copy_of(slice);
    copy.dst_c = input().extent().c;
    copy.dst_offset = first_;
    copy.pads = true;
    submit_backward(copy_channels, copy, slice);
  }

 private:
  CopyChannelsArgs copy_of(int slice) const {
    const int c = output_.extent.c;
    return {.rows = values(slice) / c, .c = c, .src_c = c, .dst_c = c};
  }
  int first_ = 0;
};

class PartLayer final : public Layer {
 public:
  explicit PartLayer(LayerBuilder& builder) : Layer(builder) {
    const auto& options = builder.options<PartOptions>();
    const Extent& all = builder.input().extent();
    args_ = {.c = static_cast<int>(options.extent.count()),
             .src_c = static_cast<int>(all.count()),
             .src_offset = options.first};
    args_.dst_c = args_.c;
    if (args_.src_offset > args_.src_c - args_.c)
      builder.refuse("",
                     fmt::format("values {} to {} of {}", args_.src_offset,
                                 args_.src_offset + args_.c - 1, args_.src_c),
                     "an input is a part of the sample");
    output_ = {.extent = options.extent,
               .value = builder.per_slice("output", options.extent.count(), builder.values()),
               .diff = {}};
  }

  std::string detail() const override {
    return fmt::format("values {} to {}", args_.src_offset, args_.src_offset + args_.c - 1);
  }
  void forward(const Step&, int slice) override {
    CopyChannelsArgs copy = args_;
    copy.rows = images(slice);
    submit_forward(copy_channels, copy, slice);
  }
  void backward(const Step&, int) override {}  // samples have no gradient

 private:
  CopyChannelsArgs args_;
};

class ProductLayer final : public Layer {
 public:
  explicit ProductLayer(LayerBuilder& builder) : Layer(builder) {
    if (builder.inputs().size() != 2) {
      builder.refuse("", "a product has two inputs", "name another one");
      return;
    }
    from_ = builder.inputs()[1];
    const Extent a = builder.input(0).extent(), b = builder.input(1).extent();
    if (a != b) refuse_unequal(builder, a, b, "multiplied");
    output_ = builder.blob("output", a);
  }

  std::string detail() const override { return fmt::format("* layer {}", from_); }
  double forward_flops_per_image() const override { return values_per_image(); }
  void forward(const Step&, int slice) override {
    multiply_elements.submit(
        args(slice),
        {read(input(0).value(slice)), read(input(1).value(slice)), write(value(slice))},
        forward_tag(slice));
  }
  void backward(const Step&, int slice) override {
    for (const std::size_t which : {0, 1})
      if (input(which).wants_gradient())
        multiply_elements.submit(args(slice),
                                 {read(diff(slice)), read(input(1 - which).value(slice)),
                                  write(input(which).gradient(slice))},
                                 data_gradient_tag(slice));
  }

 private:
  MultiplyElementsArgs args(int slice) const { return {.count = values(slice)}; }
  int from_ = 0;
};

class LargerLayer final : public Layer {
 public:
  explicit LargerLayer(LayerBuilder& builder) : Layer(builder) {
    if (builder.inputs().size() != 2) {
      builder.refuse("", "a maximum has two inputs", "name another one");
      return;
    }
    from_ = builder.inputs()[1];
    const Extent a = builder.input(0).extent(), b = builder.input(1).extent();
    if (a != b) refuse_unequal(builder, a, b, "compared");
    output_ = builder.blob("output", a);
  }

  std::string detail() const override { return fmt::format("or layer {}", from_); }
  double forward_flops_per_image() const override { return values_per_image(); }
  void forward(const Step&, int slice) override {
    larger_forward.submit(
        {.count = values(slice)},
        {read(input(0).value(slice)), read(input(1).value(slice)), write(value(slice))},
        forward_tag(slice));
  }
  void backward(const Step&, int slice) override {
    for (const std::size_t which : {0, 1})
      if (input(which).wants_gradient())
        larger_backward.submit({.count = values(slice), .of_first = which == 0},
                               {read(input(0).value(slice)), read(input(1).value(slice)),
                                read(diff(slice)), write(input(which).gradient(slice))},
                               data_gradient_tag(slice));
  }

 private:
  int from_ = 0;
};

class ShortcutLayer final : public Layer {
 public:
  explicit ShortcutLayer(LayerBuilder& builder) : Layer(builder) {
    const auto& options = builder.options<SumOptions>();
    if (builder.inputs().size() != 2) {
      builder.refuse("", "a sum has two inputs", "name another one");
      return;
    }
    from_ = builder.inputs()[1];
    args_.alpha = options.alpha;
    args_.beta = options.beta;
    args_.a = builder.input(0).extent();
    args_.b = builder.input(1).extent();
    if (options.of_equals && args_.a != args_.b) refuse_unequal(builder, args_.a, args_.b, "added");
    if (args_.a.h != args_.b.h || args_.a.w != args_.b.w)
      builder.warn("inputs",
                   "names a layer of another width or height: every few pixels are added");
    output_ = builder.blob("output", args_.a);
    activation_ = {builder, options.activation, args_.a};
    args_.activation = activation_.fused();
  }

  std::string detail() const override { return fmt::format("+ layer {}", from_); }
  std::string in_one_task() const override {
    return before_sums_ ? fmt::format("in layer {}", index() - 1)
                        : "sum" + fused_name(activation_.fused());
  }
  double forward_flops_per_image() const override { return 2 * values_per_image(); }
  bool fuse_sum_into(Layer& before) override {
    const bool plain = args_.a == args_.b && args_.alpha == 1 && args_.beta == 1 &&
                       activation_.fused() == activation_.kind();
    before_sums_ = plain && before.absorb_sum(input(1), activation_.kind());
    return before_sums_;
  }
  void forward(const Step&, int slice) override {
    if (before_sums_) return;
    shortcut_forward.submit(args(slice),
                            {read(input(0).value(slice)), read(input(1).value(slice)),
                             write(activation_.target(output_, slice))},
                            forward_tag(slice));
    activation_.forward(values(slice), output_, slice, forward_tag(slice));
  }
  void backward(const Step&, int slice) override {
    const TaskTag tag = data_gradient_tag(slice);
    if (before_sums_ && input(1).writes_gradient()) return;
    if (before_sums_ && input(1).wants_gradient())
      return residual_backward.submit(
          {.count = values(slice), .activation = activation_.kind()},
          {read(value(slice)), read_write(diff(slice)), write(input(1).gradient(slice))}, tag);
    activation_.backward(values(slice), output_, slice, tag);
    if (input(0).wants_gradient() && !before_sums_)
      shortcut_backward_a.submit(args(slice), {read(diff(slice)), write(input(0).gradient(slice))},
                                 tag);
    if (input(1).wants_gradient())
      shortcut_backward_b.submit(args(slice), {read(diff(slice)), write(input(1).gradient(slice))},
                                 tag);
  }

 private:
  ShortcutArgs args(int slice) const { return with_images(args_, images(slice)); }
  ShortcutArgs args_;
  ActivationBlock activation_;
  int from_ = 0;
  bool before_sums_ = false;  // true: the layer before computes this output, and has its gradient
};

const LayerRegistration route_registration({.name = "route", .make = make_layer<RouteLayer>});
const LayerRegistration larger_registration({.name = "larger", .make = make_layer<LargerLayer>});
const LayerRegistration product_registration({.name = "product", .make = make_layer<ProductLayer>});
const LayerRegistration slice_registration({.name = "slice", .make = make_layer<SliceLayer>});
const LayerRegistration part_registration({.name = "part", .make = make_layer<PartLayer>});
const LayerRegistration shortcut_registration({.name = "shortcut",
                                               .make = make_layer<ShortcutLayer>});

}  // namespace
}  // namespace omni
