#include "apps/omni-run/layer_table.hpp"
#include "runtime/shown_name.hpp"

#include <fmt/format.h>

namespace omni {
namespace {

std::string shape(const Extent& extent) {
  return fmt::format("{:>4} x{:>4} x{:>5}", extent.w, extent.h, extent.c);
}

std::size_t trainable(const Layer& layer) {
  std::size_t count = 0;
  for (const Param* param : layer.params())
    if (param->trainable) count += param->master->count();
  return count;
}

double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / 0x1p20; }

}  // namespace

std::string layer_table(const Net& net) {
  std::string text =
      fmt::format("{:>3} {:<14} {:<18} {:>17} -> {:>17} {:>12} {:>9} {:>9}  {}\n", "#", "layer", "",
                  "input", "output", "parameters", "MFLOP", "MiB", "in one task");
  for (const auto& layer : net.layers())
    text +=
        fmt::format("{:>3} {:<14} {:<18} {} -> {} {:>12} {:>9.2f} {:>9.1f}{}{}\n", layer->index(),
                    layer->type(), layer->detail(), shape(layer->inputs()[0]->extent()),
                    shape(layer->output().extent), trainable(*layer),
                    layer->forward_flops_per_image() / 1e6, mebibytes(layer->tensor_bytes()),
                    layer->in_one_task().empty() ? "" : "  ", layer->in_one_task());
  const int subdivisions = net.options().subdivisions;
  return text + fmt::format(
                    "{}: {} parameters, {:.1f} MFLOP forward per image, {:.0f} MiB for a "
                    "mini-batch of {}{} in {} slice{}{}",
                    one_line(net.name()), net.parameter_count(),
                    net.forward_flops_per_image() / 1e6, mebibytes(net.tensor_bytes()),
                    net.slices().images(),
                    subdivisions == 1 ? ""
                                      : fmt::format(" ({} of them are a batch of {})", subdivisions,
                                                    net.options().batch),
                    net.slices().count(), net.slices().count() == 1 ? "" : "s",
                    net.tensor_bytes() == net.declared_bytes()
                        ? ""
                        : fmt::format(", {:.0f} if layers shared no memory",
                                      mebibytes(net.declared_bytes())));
}

nlohmann::json layer_table_json(const Net& net) {
  const auto extent = [](const Extent& e) { return nlohmann::json{e.h, e.w, e.c}; };
  nlohmann::json layers = nlohmann::json::array();
  for (const auto& layer : net.layers())
    layers.push_back({{"index", layer->index()},
                      {"type", layer->type()},
                      {"detail", layer->detail()},
                      {"in_one_task", layer->in_one_task()},
                      {"input", extent(layer->inputs()[0]->extent())},
                      {"output", extent(layer->output().extent)},
                      {"parameters", trainable(*layer)},
                      {"forward_flops_per_image", layer->forward_flops_per_image()},
                      {"bytes", layer->tensor_bytes()}});
  return {{"net", net.name()},
          {"batch", net.options().batch},
          {"subdivisions", net.options().subdivisions},
          {"slices", net.slices().sizes},
          {"parameters", net.parameter_count()},
          {"forward_flops_per_image", net.forward_flops_per_image()},
          {"bytes", net.tensor_bytes()},
          {"layers", layers}};
}

}  // namespace omni
