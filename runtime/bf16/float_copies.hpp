// FloatCopies are copies of a task's bf16 tensors as floats, for kernels that compute only on
// floats. They are valid while the task runs.
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

constexpr std::size_t kMostBuffers = 16;  // per task

struct BufferUse {
  std::uint32_t count = 0;  // values that the task uses
  AccessMode mode = AccessMode::read;
  bool bf16 = false;
  std::uint32_t first = 0;  // index of the first value that the task uses
};

// Returns how many floats the copies of all these buffers take.
std::size_t float_copies_count(std::span<const BufferUse> uses);

// A FloatCopying has the functions by which one kind of worker (a core or a GPU) makes copies. On a
// GPU they enqueue the work in the worker's stream.
struct FloatCopying {
  float* (*memory)(std::size_t count, DeviceContext& context);  // valid until it is called again
  void (*widen)(std::size_t count, const Bf16* from, float* to);
  void (*round)(std::size_t count, const float* from, Bf16* to);
};
extern const FloatCopying kCopyOnCpu;
extern const FloatCopying kCopyOnGpu;  // only in a build with CUDA

class FloatCopies {
 public:
  // Makes a copy of each buffer uses[i] that is in bf16, and lets pointers[i] point to the copy.
  // The copy of a buffer that is only written has undefined values.
  FloatCopies(const FloatCopying& copying, DeviceContext& context, std::span<const BufferUse> uses,
              std::span<void*> pointers);
  void write_back() const;  // rounds what the kernel wrote

 private:
  struct Copy {
    std::size_t count = 0;
    Bf16* tensor = nullptr;  // null: the kernel does not write it
    float* floats = nullptr;
  };
  const FloatCopying& copying_;
  std::array<Copy, kMostBuffers> copies_;
};

// Returns the bytes of a copy in bf16, rounded up so that another copy behind it begins where
// vectors do.
constexpr std::size_t bytes_of_rounded(std::int64_t count) {
  return (sizeof(Bf16) * static_cast<std::size_t>(count) + 255) / 256 * 256;
}

// These functions enqueue work in the worker's stream.
namespace gpu {

void round(CudaWorker& worker, std::int64_t count, const float* from, Bf16* to);
// `adds` means that the values are added to those of `to`.
void widen(CudaWorker& worker, std::int64_t count, const Bf16* from, float* to, bool adds = false);

}  // namespace gpu

}  // namespace omni
