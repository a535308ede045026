// The order of a parameter's values in files of Darknet and Caffe.
#pragma once

#include <cstdint>

#include "layers/layer.hpp"

namespace omni {

// A parameter as it is stored: channels first, so (channels, spatial) where here are (spatial,
// channels). Of a vector, spatial is 1, and the order is the same.
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

// Visits every value by its index here and in the file.
inline void for_each_value(const Stored& of, auto visit) {
  const std::int64_t inner = of.spatial * of.channels;
  for (std::int64_t row = 0; row < of.rows; ++row)
    for (std::int64_t s = 0; s < of.spatial; ++s)
      for (std::int64_t c = 0; c < of.channels; ++c)
        visit(row * inner + s * of.channels + c, row * inner + c * of.spatial + s);
}

}  // namespace omni
