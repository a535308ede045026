// Copies in floats of bf16 tensors, for kernels that know only floats; they live as long as the
// task.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/bf16/bf16.hpp"
#include "runtime/tasks/access.hpp"

namespace omni {

class CudaWorker;
class DeviceContext;

constexpr std::size_t kMostBuffers = 16;  // of a task

struct BufferUse {
  std::uint32_t count = 0;
  AccessMode mode = AccessMode::read;
  bool bf16 = false;
  std::uint32_t first = 0;  // value of the buffer
};

// Number of floats in all copies.
std::size_t float_copies_count(std::span<const BufferUse> uses);

// How a kind of worker copies; a GPU copies in the order of its stream.
struct FloatCopying {
  float* (*memory)(std::size_t count, DeviceContext& context);  // until the next call
  void (*widen)(std::size_t count, const Bf16* from, float* to);
  void (*round)(std::size_t count, const float* from, Bf16* to);
};
extern const FloatCopying kCopyOnCpu;
extern const FloatCopying kCopyOnGpu;  // in a build with CUDA

class FloatCopies {
 public:
  // Replaces pointers[i] by that of a copy where uses[i] is bf16.
  FloatCopies(const FloatCopying& copying, DeviceContext& context, std::span<const BufferUse> uses,
              std::span<void*> pointers);
  void write_back() const;  // rounds what the kernel wrote

 private:
  struct Copy {
    std::size_t count = 0;
    Bf16* tensor = nullptr;  // null: it is not written
    float* floats = nullptr;
  };
  const FloatCopying& copying_;
  std::array<Copy, kMostBuffers> copies_;
};

namespace gpu {  // in the worker's stream

void round(CudaWorker& worker, std::int64_t count, const float* from, Bf16* to);
// adds: to what is there.
void widen(CudaWorker& worker, std::int64_t count, const Bf16* from, float* to, bool adds = false);

}  // namespace gpu

}  // namespace omni
