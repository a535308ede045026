// [route]: joins the channels of earlier layers side by side; with one layer, a branch point, which
// costs nothing: who reads it reads that layer.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "codelets/spatial/copy_channels.hpp"
#include "layers/registry.hpp"

namespace omni {
namespace {

class RouteLayer final : public Layer {
 public:
  explicit RouteLayer(LayerBuilder& builder) : Layer(builder) {
    OptionReader& options = builder.options();
    const std::vector<int> references = options.integers("layers");
    if (references.empty())
      options.refuse("layers", "[route] names no layers", "add layers=-1,-4, say");
    if (references.size() == 1) {
      from_ = {builder.resolve("layers", references[0])};
      alias_output(builder.alias(from_[0]));
      return;
    }
    Extent extent;
    for (const int reference : references) {
      const int from = builder.resolve("layers", reference);
      const Extent& part = builder.extent_of(from);
      if (from_.empty()) {
        extent = {part.h, part.w, 0};
      } else if (part.h != extent.h || part.w != extent.w) {
        options.refuse("layers",
                       fmt::format("layer {} is {}x{}, layer {} is {}x{}", from_[0], extent.w,
                                   extent.h, from, part.w, part.h),
                       "routed layers need equal width and height");
      }
      if (part.c > std::numeric_limits<int>::max() - extent.c) {
        options.refuse("layers", "too many channels in one output", "route fewer layers");
        break;
      }
      builder.input_from(from);
      from_.push_back(from);
      offsets_.push_back(extent.c);
      extent.c += part.c;
    }
    output_ = builder.blob("output", extent);
  }

  std::string detail() const override { return fmt::format("layers {}", fmt::join(from_, " ")); }
  std::string in_one_task() const override { return is_alias() ? "no copy" : ""; }
  void forward(const Step&, int slice) override {
    if (is_alias()) return;
    for (std::size_t i = 0; i < inputs().size(); ++i)
      submit_concat_channels(part(i, slice), input(i).value(slice), value(slice),
                             forward_tag(slice));
  }
  void backward(const Step&, int slice) override {
    if (is_alias()) return;
    for (std::size_t i = 0; i < inputs().size(); ++i)
      if (input(i).wants_gradient())
        submit_split_channels(part(i, slice), diff(slice), input(i).gradient(slice),
                              data_gradient_tag(slice));
  }

 private:
  ChannelPart part(std::size_t which, int slice) const {
    return {.rows = std::int64_t{images(slice)} * output_.extent.h * output_.extent.w,
            .c = input(which).extent().c,
            .offset = offsets_[which],
            .total = output_.extent.c};
  }
  std::vector<int> from_, offsets_;
};

const LayerRegistration route_registration(
    {.name = "route",
     .summary = "joins the channels of earlier layers",
     .keys = {{"layers", "", "list of layers: indices, or negative: relative"},
              {"groups", "1", "whole layers are joined", Effect::refused},
              {"group_id", "0", "whole layers are joined", Effect::refused}},
     .make = make_layer<RouteLayer>});

}  // namespace
}  // namespace omni
