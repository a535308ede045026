// These exceptions report failures of CUDA, cuBLAS and cuDNN.
#pragma once

#include <cstddef>
#include <new>
#include <stdexcept>
#include <string>

namespace omni {

class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// OutOfGpuMemory is a bad_alloc, since some callers catch that type to try again with less memory.
class OutOfGpuMemory : public std::bad_alloc {
 public:
  // `asked` and `free` are bytes. An `asked` of 0 means that a library did not say how much it
  // wanted.
  OutOfGpuMemory(const std::string& what, int gpu, std::size_t asked, std::size_t free);
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

}  // namespace omni
