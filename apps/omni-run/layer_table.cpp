#include "apps/omni-run/layer_table.hpp"

#include <fmt/format.h>

#include "apps/command_line.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

std::string shape(const Extent& extent) {
  return fmt::format("{}x{}x{}", extent.w, extent.h, extent.c);
}

std::string short_number(double value) {
  return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
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
  std::string text;
  const auto add = [&text](auto&&... cells) {
    const std::string row =
        fmt::format("{:>3} {:<28} {:>12} {:>12} {:>9} {:>6} {:>6}  {}", cells...);
    text.append(row, 0, row.find_last_not_of(' ') + 1) += '\n';
  };
  add("#", "layer", "input", "output", "params", "MFLOP", "MiB", "fused");
  for (const auto& layer : net.layers()) {
    std::vector<std::string> name = wrapped(layer->type() + " " + layer->detail(), 28);
    for (std::size_t i = 0; i + 1 < name.size(); ++i)  // a [route] may have many inputs
      add(i == 0 ? std::to_string(layer->index()) : "", name[i], "", "", "", "", "", "");
    add(name.size() == 1 ? std::to_string(layer->index()) : "", name.back(),
        shape(layer->inputs()[0]->extent()), shape(layer->output().extent), trainable(*layer),
        short_number(layer->forward_flops_per_image() / 1e6),
        short_number(mebibytes(layer->tensor_bytes())), layer->in_one_task());
  }
  const int subdivisions = net.options().subdivisions;
  text +=
      fmt::format("{}: {} parameters, {:.1f} MFLOP per image and forward pass\n",
                  one_line(net.name()), net.parameter_count(), net.forward_flops_per_image() / 1e6);
  if (subdivisions > 1)
    text += fmt::format("batch: {} images in {} mini-batches\n", net.options().batch, subdivisions);
  text += fmt::format("mini-batch: {} images in {} slice{}, {:.0f} MiB", net.slices().images(),
                      net.slices().count(), net.slices().count() == 1 ? "" : "s",
                      mebibytes(net.tensor_bytes()));
  if (net.tensor_bytes() != net.declared_bytes())
    text +=
        fmt::format(" ({:.0f} MiB if layers shared no memory)", mebibytes(net.declared_bytes()));
  return text;
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
