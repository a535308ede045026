#include "runtime/bf16/float_copies.hpp"

#include <algorithm>

#include "runtime/tasks/device_context.hpp"

namespace omni {
namespace {

// Returns how many floats the copy of a bf16 tensor takes, in whole cache lines; 0 for other
// tensors. So every copy begins with a cache line, which also suits vector loads on a GPU.
std::size_t floats_of(const BufferUse& use) {
  constexpr std::size_t kAlignment = 64;
  return use.bf16 ? (use.count + kAlignment - 1) / kAlignment * kAlignment : 0;
}

float* memory(std::size_t count, DeviceContext& context) { return context.copies(count); }
void widen(std::size_t count, const Bf16* from, float* to) { std::copy_n(from, count, to); }
void round(std::size_t count, const float* from, Bf16* to) { std::copy_n(from, count, to); }

}  // namespace

const FloatCopying kCopyOnCpu{memory, widen, round};

std::size_t float_copies_count(std::span<const BufferUse> uses) {
  std::size_t count = 0;
  for (const BufferUse& use : uses) count += floats_of(use);
  return count;
}

FloatCopies::FloatCopies(const FloatCopying& copying, DeviceContext& context,
                         std::span<const BufferUse> uses, std::span<void*> pointers)
    : copying_(copying) {
  float* next = copying.memory(float_copies_count(uses), context);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const BufferUse& use = uses[i];
    if (!use.bf16) continue;
    auto* tensor = static_cast<Bf16*>(pointers[i]);
    if (use.mode != AccessMode::write) copying.widen(use.count, tensor, next);
    if (use.mode != AccessMode::read) copies_[i] = {use.count, tensor, next};
    pointers[i] = next;
    next += floats_of(use);
  }
}

void FloatCopies::write_back() const {
  for (const Copy& copy : copies_)
    if (copy.tensor != nullptr) copying_.round(copy.count, copy.floats, copy.tensor);
}

}  // namespace omni
