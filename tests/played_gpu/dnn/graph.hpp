// A graph of operations, read: a convolution, and what is done with each of its values.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tests/played_gpu/dnn/convolution.hpp"
#include "tests/played_gpu/dnn/descriptors.hpp"

namespace omni::played {

struct Graph {
  // A Step follows the convolution. A tensor that it adds is the bias.
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

// Tensors, geometries, functions and operations by themselves: whether all is there that they need.
cudnnStatus_t check_part_of_graph(const Descriptor& descriptor);

// BAD_PARAM when operations do not fit together; NOT_SUPPORTED for what is not played (other types
// than float and bf16, other than channels last).
cudnnStatus_t read_graph(const Descriptor& descriptor, Graph& graph);

}  // namespace omni::played
