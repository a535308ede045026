// How Winograd's convolution cuts the tiles of a slice into blocks and the output channels into
// panels, and the scratch memory for a block and a panel: planes that have a row per tile, or per
// filter.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "runtime/tasks/device_context.hpp"

namespace omni::winograd {

// A run of rows of tiles.
struct Block {
  int first, rows;
};

// What is to be cut: rows x columns of tiles.
struct Tiling {
  int rows, columns;
  int planes;
  int channels, filters;  // of input and output
};

// Bytes of a value in the planes of inputs, outputs and kernels.
struct ValueSizes {
  std::size_t in, out, kernel;
};

struct Blocking {
  Blocking(const Tiling& tiling, const ValueSizes& sizes);

  void for_each_block(auto visit) const {
    for (int first = 0; first < rows; first += block_rows)
      visit(Block{first, std::min(block_rows, rows - first)});
  }
  template <class Visit>  // visit(first output channel, how many)
  void for_each_panel(Visit visit) const {
    for (int first = 0; first < filters; first += panel)
      visit(first, std::min(panel, filters - first));
  }
  bool one_panel() const { return panel == filters; }

  int rows, filters;
  int panel, block_rows;
  std::int64_t in_plane, out_plane, kernel_plane;             // values from plane to plane
  std::size_t out_at, kernel_at, zeros_at, spare_at, floats;  // of the scratch memory
};

template <class In, class Out, class Kernel>
struct Workspace : Blocking {
  // scratch: null for the context's.
  Workspace(const Tiling& tiling, float* scratch, DeviceContext& context)
      : Blocking(tiling, {sizeof(In), sizeof(Out), sizeof(Kernel)}) {
    if (scratch == nullptr) scratch = context.scratch(floats);
    in = reinterpret_cast<In*>(scratch);
    out = reinterpret_cast<Out*>(scratch + out_at);
    kernel = reinterpret_cast<Kernel*>(scratch + kernel_at);
    zeros = scratch + zeros_at;
    spare = scratch + spare_at;
    std::fill(zeros, spare, 0.0f);
  }

  In* in;
  Out* out;
  Kernel* kernel;
  float *zeros, *spare;  // what lies outside of the images, to read and to write
};

}  // namespace omni::winograd
