#include "codelets/elementwise/sgd_update.hpp"

namespace omni {
namespace {

void update_vector(const SgdUpdateArgs& args, const Buffers& buffers, DeviceContext&) {
  float* __restrict value = buffers.get(0);
  float* __restrict diff = buffers.get(1);
  float* __restrict velocity = buffers.get(2);
  const auto [count, learning_rate, momentum, decay, gradient_scale] = args;
  for (std::int64_t i = 0; i < count; ++i) {
    const float gradient = gradient_scale * diff[i] + decay * value[i];
    velocity[i] = momentum * velocity[i] + gradient;
    value[i] -= learning_rate * velocity[i];
    diff[i] = 0;
  }
}

void update_reference(const SgdUpdateArgs& args, const Buffers& buffers, DeviceContext&) {
  reference::sgd_update(args, buffers.get(0), buffers.get(1), buffers.get(2));
}

// All three are read and written.
Cost cost(const SgdUpdateArgs& args) {
  const auto count = static_cast<double>(args.count);
  return {.flops = 7 * count, .bytes = count * 6 * sizeof(float)};
}

// The rate changes every few iterations and must not start a new performance model.
std::uint64_t footprint(const SgdUpdateArgs& args) { return footprint_of(args.count); }

}  // namespace

Codelet<SgdUpdateArgs> sgd_update({
    .name = "sgd_update",
    .color = 0xD1495B,
    .implementations = {{"vector", update_vector},
                        {"reference", update_reference, nullptr, Role::reference}},
    .cost = cost,
    .footprint = footprint,
});

void submit_sgd_update(SgdUpdateArgs args, const Tensor& value, const Tensor& diff,
                       const Tensor& velocity, TaskTag tag) {
  for (std::size_t part = 0; part < value.parts(); ++part) {
    args.count = static_cast<std::int64_t>(value.count_of(part));
    sgd_update.submit(
        args, {read_write({value, part}), read_write({diff, part}), read_write({velocity, part})},
        tag);
  }
}

}  // namespace omni
