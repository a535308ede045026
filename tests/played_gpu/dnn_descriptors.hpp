// cuDNN's descriptors, and a convolution made of them once they are found to belong together.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstddef>

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

struct cudnnTensorStruct {
  bool set = false;
  cudnnDataType_t type{};
  std::array<int, 4> size{}, stride{};  // n c h w
};

struct cudnnFilterStruct {
  bool set = false;
  cudnnDataType_t type{};
  cudnnTensorFormat_t format{};
  int k = 0, c = 0, h = 0, w = 0;
};

struct cudnnConvolutionStruct {
  bool set = false;
  std::array<int, 2> pad{}, stride{}, dilation{};  // h w
  cudnnConvolutionMode_t mode{};
  cudnnDataType_t compute{};
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  int groups = 1;
};

struct cudnnActivationStruct {
  cudnnActivationMode_t mode = CUDNN_ACTIVATION_IDENTITY;
};

namespace omni::played {

// From x to y, whatever is computed; channels last.
struct Convolution {
  int n = 0, groups = 1;
  int c = 0, h = 0, w = 0;          // of x; c of all groups
  int k = 0, out_h = 0, out_w = 0;  // of y; k of all groups
  int filter_h = 0, filter_w = 0;
  std::array<int, 2> pad{}, stride{}, dilation{};
  int mantissa = 0;   // the bits to which factors are rounded
  bool bf16 = false;  // the type of x, y and the filter; else float

  std::size_t x_count() const { return product(n, h, w, c); }
  std::size_t y_count() const { return product(n, out_h, out_w, k); }
  std::size_t filter_count() const { return product(k, filter_h, filter_w, c / groups); }

 private:
  static std::size_t product(int a, int b, int c, int d) {
    return static_cast<std::size_t>(a) * static_cast<std::size_t>(b) * static_cast<std::size_t>(c) *
           static_cast<std::size_t>(d);
  }
};

// BAD_PARAM when they do not fit together; NOT_SUPPORTED for what is not played (other types
// than float and bf16, other than channels last) and, as most real algorithms say, for padding as
// large as the filter.
cudnnStatus_t make_convolution(cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t filter,
                               cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t y,
                               Convolution& made);

}  // namespace omni::played
