// How Winograd's convolution cuts a slice into tiles, and where their pixels lie; how it cuts the
// tiles into blocks and the output channels into panels, and the scratch memory for a block and a
// panel: planes that have a row per tile, or per filter.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/tasks/device_context.hpp"

namespace omni::winograd {

// One group's part of an image.
struct Image {
  int h, w, c;
  int stride;  // from pixel to pixel: the channels of all groups
  std::int64_t values() const { return std::int64_t{h} * w * stride; }
};

// What is convolved with what; backward_data is a convolution too, from diff_dst to diff_src.
struct Convolved {
  int n;
  Image in, out;
  int pad_h, pad_w;
  int tile_in, tile;  // inputs and outputs of a tile across

  int planes() const { return tile_in * tile_in; }  // a position of a transformed tile each
};

// Images side by side, as far apart as padding keeps them: where they are no multiple of a tile,
// tiles that reach over their edges save others. (Of 13 x 13 outputs, 4 images take 7 x 7 tiles
// instead of 8 x 8.) More only where they save enough: rounding errors and NaN of an image reach
// the edges of those whose tiles it shares, as they reach its own pixels of a tile.
struct Mosaic {
  int across = 1, down = 1;      // images
  int pitch_h = 0, pitch_w = 0;  // from image to image
  int columns = 0, rows = 0;     // tiles

  int images() const { return across * down; }
};
Mosaic mosaic_of(const Convolved& what);

// Where the pixels of the images of a mosaic are, by row and column.
class PixelMap {
 public:
  // image: what.in, whose tiles begin outside by the padding, or what.out.
  PixelMap(const Convolved& what, const Mosaic& mosaic, const Image& image, int pad_h, int pad_w);

  // The pixels of a tile of `size`; those that are nowhere lie `outside`. Rows go on through all
  // mosaics of the slice.
  template <int size, class T>
  std::array<T*, size * size> tile_at(T* slice, int row, int column, T* outside) const {
    const std::int64_t mosaic = row / rows_of_mosaic_ * values_of_mosaic_;
    const std::int64_t* const down = &rows_[row % rows_of_mosaic_ * tile_];
    const std::int64_t* const across = &columns_[column * tile_];
    std::array<T*, size * size> pixels;
    for (int y = 0; y < size; ++y)
      for (int x = 0; x < size; ++x) {
        const std::int64_t at = mosaic + down[y] + across[x];
        pixels[y * size + x] = at < end_ ? slice + at : outside;
      }
    return pixels;
  }

 private:
  int tile_, rows_of_mosaic_;
  std::int64_t values_of_mosaic_, end_;
  std::vector<std::int64_t> rows_, columns_;  // beyond the end for what is between images
};

// A run of rows of tiles.
struct Block {
  int first, rows;
};

// Bytes of a value in the planes of inputs, outputs and kernels.
struct ValueSizes {
  std::size_t in, out, kernel;
};

struct Blocking {
  Blocking(const Convolved& what, const Mosaic& mosaic, const ValueSizes& sizes);

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

  int rows, filters;  // of tiles, of all mosaics; output channels
  int panel, block_rows;
  std::int64_t in_plane, out_plane, kernel_plane;             // values from plane to plane
  std::size_t out_at, kernel_at, zeros_at, spare_at, floats;  // of the scratch memory
};

template <class In, class Out, class Kernel>
struct Workspace : Blocking {
  // scratch: null for the context's.
  Workspace(const Convolved& what, const Mosaic& mosaic, float* scratch, DeviceContext& context)
      : Blocking(what, mosaic, {sizeof(In), sizeof(Out), sizeof(Kernel)}) {
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
