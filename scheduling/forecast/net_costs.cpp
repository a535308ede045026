#include "scheduling/forecast/net_costs.hpp"

namespace omni {

namespace {

// Returns the bytes of a mini-batch that a group sends to the merged phase. If all layers are
// merged, these are the images.
double bytes_to_merged(const Net& net) {
  if (!net.has(Net::Phase::merged)) return 0;
  const NetOptions& options = net.options();
  if (!net.has(Net::Phase::replicated))
    return 4.0 * options.batch * static_cast<double>(options.input.count());
  double bytes = 0;
  for (const Tensor* each : net.replicated_output().value)
    bytes += static_cast<double>(each->bytes());
  return options.subdivisions * bytes;
}

}  // namespace

NetCosts net_costs(Net& net) {
  const double all = net.forward_flops_per_image();
  NetCosts costs{
      .images = net.options().batch,
      .passes = net.options().subdivisions,
      .flops = 3 * all,
      .merged_share = all > 0 ? net.forward_flops_per_image(Net::Phase::merged) / all : 0};
  for (const Param* param : net.params()) {
    if (!param->trainable) continue;
    const Tensor& master = *param->master;
    if (param->whole_on_each_rank) {  // sums of statistics have the size of scale and shift
      costs.scales.push_back(static_cast<double>(master.bytes()));
      if (param->name.ends_with(".scale") && !net.is_merged(*param))
        costs.statistics.push_back(2 * costs.scales.back());
      continue;
    }
    NetCosts::Parameters& of = net.is_merged(*param) ? costs.merged : costs.replicated;
    const auto outputs = static_cast<int>(param->shape.front());
    if (param->divisible)
      of.connected.push_back(
          {static_cast<int>(master.count() / static_cast<std::size_t>(outputs)), outputs});
    for (std::size_t part = 0; !param->divisible && part < master.parts(); ++part)
      of.parts.push_back(static_cast<double>(4 * master.count_of(part)));
  }
  costs.activations = bytes_to_merged(net);
  return costs;
}

}  // namespace omni
