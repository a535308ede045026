#include "layers/net_description.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/shown_name.hpp"

namespace omni {

Status join_inputs(TrainableNet& net, std::vector<InputPart> parts) {
  const std::string sample = "\nsample";  // no file has such a name
  Extent all{1, 1, 0};
  auto part = parts.begin();
  const auto is_part = [](const LayerDescription& layer) { return layer.type == "part"; };
  std::ranges::stable_partition(net.layers, is_part);
  for (LayerDescription& layer : net.layers) {
    auto* const options = std::get_if<PartOptions>(&layer.options);
    if (options == nullptr) continue;
    if (part->name.find('=') != part->name.npos)
      return Error{ErrorKind::usage, layer.where,
                   fmt::format("{} is no name of an input", shown_name(part->name)),
                   "--data NAME=SOURCE could not name it"};
    if (std::ranges::find(parts.begin(), part, part->name, &InputPart::name) != part)
      return Error{ErrorKind::usage, layer.where,
                   fmt::format("another input has the name {}, too", shown_name(part->name)),
                   "--data tells inputs by their names"};
    options->first = all.c;
    layer.inputs = {sample};
    const std::size_t count = all.count() + options->extent.count();
    if (count > kMostValues)
      return Error{ErrorKind::usage, layer.where, "the inputs together have too many values",
                   fmt::format("make them smaller: {} are the most", kMostValues)};
    all.c = static_cast<int>(count);
    (part++)->extent = options->extent;
  }
  net.inputs = {sample};
  net.options.input = all;
  net.augment = {.flat = true, .parts = std::move(parts)};
  return {};
}

}  // namespace omni
