// This header converts the order of a parameter's values to that of Darknet's and Caffe's files.
#pragma once

#include <cstdint>

#include "layers/layer.hpp"

namespace omni {

// Stored is a parameter as a file stores it. A file stores each of its rows channels first:
// (channels, spatial). In tensors the order is (spatial, channels). For a vector `spatial` is 1,
// and both orders are equal.
struct Stored {
  Param* param;
  bool connected;  // a matrix that old files may hold as (inputs, outputs)
  std::int64_t rows = 1, spatial = 1, channels = 1;

  Stored(Param& of, bool is_connected)
      : param(&of), connected(is_connected), channels(of.shape.back()) {
    for (std::size_t i = 0; i + 1 < of.shape.size(); ++i)
      (i + 3 < of.shape.size() ? rows : spatial) *= of.shape[i];
  }
};

// Visits every value by its index in the tensor and its index in the file.
inline void for_each_value(const Stored& of, auto visit) {
  const std::int64_t inner = of.spatial * of.channels;
  for (std::int64_t row = 0; row < of.rows; ++row)
    for (std::int64_t s = 0; s < of.spatial; ++s)
      for (std::int64_t c = 0; c < of.channels; ++c)
        visit(row * inner + s * of.channels + c, row * inner + c * of.spatial + s);
}

}  // namespace omni
