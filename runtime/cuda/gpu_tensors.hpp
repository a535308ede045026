// GpuTensors computes how many bytes of a GPU StarPU's allocator takes for tensors that exist at
// the same time. The constants are those of StarPU's datawizard/malloc.h.
#pragma once

#include <cmath>
#include <cstddef>

namespace omni {

class GpuTensors {
 public:
  // Returns how many bytes StarPU asks CUDA for if it has no free piece for a tensor of this size.
  static constexpr std::size_t allocated_for(std::size_t bytes) {
    constexpr auto kShared = static_cast<std::size_t>(kLargestShared);
    return bytes > kShared ? bytes : static_cast<std::size_t>(kPiece);
  }
  // Adds `count` tensors. `count` is a fraction if a tensor is split among GPUs.
  void add(double bytes, double count) {
    if (bytes > kLargestShared)
      large_ += round_up(bytes, kPage) * count;
    else
      small_ += round_up(bytes, kBlock) * count;
  }
  std::size_t bytes() const {
    // A piece is full when the next tensor does not fit, so less than kLargestShared stays unused.
    return static_cast<std::size_t>(large_ + round_up(small_, kPiece - kLargestShared) /
                                                 (kPiece - kLargestShared) * kPiece);
  }

 private:
  static constexpr double kPiece = 32 << 20;  // small tensors share pieces of this size
  static constexpr double kLargestShared = kPiece / 8;
  static constexpr double kBlock = 16 << 10;
  static constexpr double kPage = 2 << 20;  // CUDA's page, for large tensors

  static double round_up(double value, double unit) { return std::ceil(value / unit) * unit; }
  double large_ = 0, small_ = 0;
};

}  // namespace omni
