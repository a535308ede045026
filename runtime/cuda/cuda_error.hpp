// What a failure of CUDA, cuBLAS or cuDNN is thrown as.
#pragma once

#include <stdexcept>

namespace omni {

class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace omni
