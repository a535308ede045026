// A Copy holds memory of a test on the GPU, for kernels that are called without StarPU.
#pragma once

#include <cstddef>
#include <span>

namespace omni::gpu {

bool present();

class Copy {
 public:
  explicit Copy(std::span<std::byte> host);
  ~Copy();
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  std::byte* data() const { return data_; }
  void back();  // to the host, after everything the device has been told to do

 private:
  std::span<std::byte> host_;
  std::byte* data_ = nullptr;
};

}  // namespace omni::gpu
