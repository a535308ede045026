// A pass of a convolution as cuDNN's graph interface wants it told, channels last.
#pragma once

#include <array>
#include <cstdint>
#include <deque>

#include "codelets/convolution/convolution_shape.hpp"
#include "codelets/convolution/cudnn/backend.hpp"

namespace omni::cudnn {

// How cuDNN and we call the tensors of a graph. Backward, src, weights and dst are the gradients of
// what they are forward, where they are not the values themselves.
enum class TensorName : std::int64_t { src = 1, weights, dst, bias };

// What is planned for: the GPU of a handle; or one that is only described, where nothing runs. The
// header of cuDNN 9.8 calls handles old-fashioned here, but they are what others plan with, too.
struct Target {
  cudnnHandle_t handle = nullptr;
  const Backend* description = nullptr;
};

// Sums, and what operations hand on, are floats.
struct ConvolutionWork {
  Pass pass;
  ConvShape shape;
  cudnnDataType_t type;             // of all tensors
  int alignment = 16;               // in bytes; but of the bias, which is where vectors may be
  bool adds = false;                // to what is there; not forward
  bool bias = false, relu = false;  // forward: what the convolution ends in
};

class ConvolutionGraph {
 public:
  ConvolutionGraph(const ConvolutionWork& work, const Target& target);

  // Its status says whether cuDNN understood.
  const Backend& operations() const { return parts_.back(); }

 private:
  using Size = std::array<std::int64_t, 4>;  // n c h w

  Backend& add(cudnnBackendDescriptorType_t type) { return parts_.emplace_back(type); }
  const Backend& tensor(TensorName name, const Size& size, cudnnDataType_t type, int alignment);
  Backend& add_tensor(std::int64_t name, const Size& size, cudnnDataType_t type, int alignment);
  const Backend& convolution(const ConvolutionWork& work, const Backend& src,
                             const Backend& weights, const Backend& dst);
  const Backend& pointwise(cudnnPointwiseMode_t mode, const Backend& src, const Backend* second,
                           const Backend& dst);

  std::deque<Backend> parts_;  // cuDNN's documentation does not say that it keeps them itself
};

}  // namespace omni::cudnn
