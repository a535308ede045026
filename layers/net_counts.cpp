// This file counts what a net has: classes, parameters, bytes and operations.
#include "layers/net.hpp"

namespace omni {

int Net::outputs() const { return static_cast<int>(layers().back()->output().extent.count()); }

int Net::classes() const { return layers().back()->has_classes() ? outputs() : 0; }

std::vector<LabelLimit> Net::label_limits() const {
  std::vector<LabelLimit> limits;
  for (const auto& layer : layers()) {
    const bool is_last = layer == layers().back();
    const Extent& outputs = is_last ? layer->output().extent : layer->inputs().front()->extent();
    const IgnoredLabels ignored = layer->ignored_labels();
    if ((is_last || layer->is_loss()) && layer->has_classes())
      limits.push_back({.classes = static_cast<int>(outputs.count()),
                        .ignored = ignored.by_both(ignored.in_loss) ? ignored.in_loss : kNoLabel,
                        .where = is_last ? "" : layer->where()});
  }
  return limits;
}

std::vector<Param*> Net::params() {
  std::vector<Param*> all;
  for (const auto& layer : layers())
    all.insert(all.end(), layer->params().begin(), layer->params().end());
  return all;
}

std::size_t Net::parameter_count() const {
  std::size_t count = 0;
  for (const Param& param : parts_.params)
    if (param.trainable) count += param.master->count();
  return count;
}

std::size_t Net::declared_bytes() const {
  std::size_t bytes = 0;
  for (const auto& layer : layers()) bytes += layer->tensor_bytes();
  return bytes;
}

double Net::forward_flops_per_image(std::optional<Phase> only) const {
  double flops = 0;
  for (std::size_t i = 0; i < layers().size(); ++i)
    if (!only || (i < merged_from_) == (*only == Phase::replicated))
      flops += layers()[i]->forward_flops_per_image();
  return flops;
}

}  // namespace omni
