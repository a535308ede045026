#include "codelets/elementwise/meeting.hpp"

#include <algorithm>
#include <array>

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

// A contribution is stored before it is added. One instruction that multiplied and added would not
// round it. The sum would then differ from that of ranks, which send their contributions.
void contribute_cpu(const ContributeArgs& args, const Buffers& buffers, DeviceContext&) {
  constexpr std::int64_t kPiece = 2048;  // values, which stay in the cache
  float* __restrict change = buffers.get(0);
  const float* __restrict model = buffers.get(1);
  const float* __restrict centre = buffers.get(2);
  std::array<float, kPiece> contributions;
  for (std::int64_t first = 0; first < args.count; first += kPiece) {
    const std::int64_t count = std::min(kPiece, args.count - first);
    for (std::int64_t i = 0; i < count; ++i)
      contributions[i] = args.weight * (model[first + i] - centre[first + i]);
    for (std::int64_t i = 0; i < count; ++i) change[first + i] += contributions[i];
  }
}

void move_centre_cpu(const MoveCentreArgs& args, const Buffers& buffers, DeviceContext&) {
  const CentreStep<float> step(args);
  float* __restrict centre = buffers.get(0);
  float* __restrict change = buffers.get(1);
  float* __restrict velocity = buffers.get(2);
  for (std::int64_t i = 0; i < args.count; ++i) step(centre[i], change[i], velocity[i]);
}

void publish_cpu(const PublishArgs& args, const Buffers& buffers, DeviceContext&) {
  float* __restrict model = buffers.get(0);
  const float* __restrict centre = buffers.get(1);
  if (args.keeps == 0) return void(std::copy_n(centre, args.count, model));
  for (std::int64_t i = 0; i < args.count; ++i)
    model[i] = args.keeps * model[i] + (1 - args.keeps) * centre[i];
}

std::uint64_t footprint(const auto& args) { return footprint_of(args.count); }

std::uint64_t footprint_of_publish(const PublishArgs& args) {
  return args.keeps == 0 ? footprint_of(args.count) : footprint_of(args.count, true);
}

// Calls submit(part, its number of values) for every part of a tensor.
void for_each_part(const Tensor& tensor, auto submit) {
  for (std::size_t part = 0; part < tensor.parts(); ++part)
    submit(part, static_cast<std::int64_t>(tensor.count_of(part)));
}

}  // namespace

Codelet<ContributeArgs> contribute({.name = "contribute",
                                    .color = 0xB5838D,
                                    .implementations = {{"vector", contribute_cpu},
                                                        OMNI_GPU_IMPLEMENTATION(gpu::contribute)},
                                    .cost = cost_per_value<3, 16>,
                                    .footprint = footprint});
Codelet<MoveCentreArgs> move_centre({.name = "move_centre",
                                     .color = 0x6D6875,
                                     .implementations = {{"vector", move_centre_cpu},
                                                         OMNI_GPU_IMPLEMENTATION(gpu::move_centre)},
                                     .cost = cost_per_value<6, 24>,
                                     .footprint = footprint});
Codelet<PublishArgs> publish({.name = "publish",
                              .color = 0xFFB4A2,
                              .implementations = {{"copy", publish_cpu},
                                                  OMNI_GPU_IMPLEMENTATION(gpu::publish)},
                              .cost = cost_per_value<0, 8>,
                              .footprint = footprint_of_publish});

void submit_contribute(float weight, TensorPart model, TensorPart centre, TensorPart change,
                       TaskTag tag) {
  contribute.submit({.count = static_cast<std::int64_t>(centre.count()), .weight = weight},
                    {read_write(change), read(model), read(centre)}, tag);
}

void submit_move_centre(const MoveCentreArgs& args, const Tensor& centre, const Tensor& change,
                        const Tensor& velocity, TaskTag tag, std::optional<TensorPart> only) {
  for_each_part(centre, [&](std::size_t number, std::int64_t) {
    const TensorPart range = only.value_or(TensorPart(centre, number)), part = range.of(centre);
    if (part.part != number) return;
    MoveCentreArgs own = args;
    own.count = static_cast<std::int64_t>(part.count());
    move_centre.submit(
        own, {read_write(part), read_write(range.of(change)), read_write(range.of(velocity))}, tag);
  });
}

void submit_publish(TensorPart centre, TensorPart model, TaskTag tag, float keeps) {
  publish.submit({.count = static_cast<std::int64_t>(centre.count()), .keeps = keeps},
                 {keeps == 0 ? write(model) : read_write(model), read(centre)}, tag);
}

void submit_publish(const Tensor& centre, const Tensor& model, TaskTag tag, float keeps) {
  for_each_part(centre, [&](std::size_t part, std::int64_t) {
    submit_publish(TensorPart(centre, part), TensorPart(model, part), tag, keeps);
  });
}

}  // namespace omni
