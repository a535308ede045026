// These functions submit the tasks of a net's layers, forward and backward, by slice or by layer.
#include <algorithm>
#include <cassert>

#include "codelets/elementwise/accumulate.hpp"
#include "codelets/normalise/gradient_clip.hpp"
#include "layers/net.hpp"
#include "runtime/tasks/calls/task_chain.hpp"

namespace omni {

void Net::use_slot(const BatchSlot& slot) {
  assert(std::ranges::all_of(slot.images,
                             [&](const Tensor* each) { return each->type() == parts_.values; }));
  parts_.data.value = slot.images;
}

Net::Segment Net::layers_of(Phase phase) const {
  return phase == Phase::replicated ? Segment{0, merged_from_}
                                    : Segment{merged_from_, layers().size()};
}

void Net::forward(const Step& step, Phase phase) {
  const ChainScope chain(!forward_takes_turns_);
  use_slot(*step.slot);
  const Segment range = layers_of(phase);
  for (const Segment& segment : segments_) {
    if (segment.first < range.first || segment.end > range.end) continue;
    for (int slice = 0; slice < slices().count(); ++slice)
      for (std::size_t i = segment.first; i < segment.end; ++i)
        if (step.training || !only_trains_[i]) layers()[i]->forward(step, slice);
  }
}

void Net::forward(const Step& step) {
  forward(step, Phase::replicated);
  forward(step, Phase::merged);
}

void Net::backward(const Step& step) {
  backward(step, Phase::merged);
  backward(step, Phase::replicated);
}

void Net::forward_by_layer(const Step& step, const LookAt& look) {
  use_slot(*step.slot);
  for (const auto& layer : layers()) {
    if (!step.training && only_trains_[static_cast<std::size_t>(layer->index())]) continue;
    for (int slice = 0; slice < slices().count(); ++slice) layer->forward(step, slice);
    look(*layer);
  }
}

void Net::backward_by_layer(const Step& step, const LookAt& look) {
  use_slot(*step.slot);
  for (std::size_t i = layers().size(); i-- > 0;) {
    if (!learns_[i]) continue;
    for (int slice = 0; slice < slices().count(); ++slice) layers()[i]->backward(step, slice);
    for (int slice = 0; slice < slices().count(); ++slice) share_gradients(*layers()[i], slice);
    look(*layers()[i]);
  }
}

void Net::backward(const Step& step, Phase phase) {
  const ChainScope chain;
  use_slot(*step.slot);
  // A layer that joins slices ends its segment. All slices pass through the other layers of the
  // segment before that layer submits its own part.
  const Segment range = layers_of(phase);
  std::size_t end = range.end;
  while (end > range.first) {
    std::size_t first = end;
    while (first > range.first) {
      --first;
      if (layers()[first]->joins_slices()) break;
    }
    for (int slice = 0; slice < slices().count(); ++slice)
      for (std::size_t i = end; i-- > first;) {
        if (!learns_[i]) continue;
        layers()[i]->backward(step, slice);
        if (!layers()[i]->joins_slices()) share_gradients(*layers()[i], slice);
      }
    if (learns_[first] && layers()[first]->joins_slices())
      for (int slice = 0; slice < slices().count(); ++slice)
        share_gradients(*layers()[first], slice);
    end = first;
  }
}

std::vector<TensorPart> Net::gradients() const {
  // A parameter with the rate 0 has no gradient in Caffe, and so adds nothing to the norm.
  const auto learns = [](const Param& param) { return param.diff != nullptr && param.rate != 0; };
  std::vector<TensorPart> all;
  for (const Param& param : parts_.params)
    for (std::size_t part = 0; learns(param) && part < param.diff->parts(); ++part)
      all.emplace_back(*param.diff, part);
  return all;
}

void Net::clip_gradients(float limit, TaskTag tag) const {
  submit_clip(gradients(), sums_of_squares_, limit, tag);
}

// Adds what a layer wrote into private gradient tensors (see LayerBuilder::input).
void Net::share_gradients(const Layer& layer, int slice) {
  for (const Input* input : layer.inputs()) {
    if (!input->wants_gradient() || input->diff == input->blob->diff) continue;
    const Tensor& share = input->gradient(slice);
    accumulate_sum.submit({.count = static_cast<std::int64_t>(share.count())},
                          {accumulate(*input->blob->diff[slice]), read(share)},
                          {.layer = layer.index(), .slice = slice});
  }
}

}  // namespace omni
