// A Graph is read from cuDNN's descriptors. It has a convolution and the operations on each of its
// values.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tests/played_gpu/dnn/convolution.hpp"
#include "tests/played_gpu/dnn/descriptors.hpp"

namespace omni::played {

struct Graph {
  // A Step is an operation after the convolution. If it adds a tensor, the tensor is the bias.
  struct Step {
    cudnnPointwiseMode_t mode{};
    bool keeps_nan = false;
  };

  cudnnBackendDescriptorType_t pass{};  // the convolution's type
  Convolution shape;
  std::int64_t x = 0, filter = 0, y = 0;  // of the convolution, by name
  float beta = 0;
  std::vector<Step> steps;
  std::int64_t bias = 0, result = 0;                // bias 0: none
  std::map<std::int64_t, std::int64_t> alignments;  // of tensors, in bytes

  bool is_forward() const { return pass == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR; }
};

// Checks a descriptor of a tensor, a geometry, a function or an operation by itself: whether all
// attributes that it needs are set.
cudnnStatus_t check_part_of_graph(const Descriptor& descriptor);

// Returns BAD_PARAM if operations do not fit together. Returns NOT_SUPPORTED for types other than
// float and bf16, and for layouts other than channels last.
cudnnStatus_t read_graph(const Descriptor& descriptor, Graph& graph);

}  // namespace omni::played
