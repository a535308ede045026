// This header has the tiles of Winograd's convolution. A slice is cut into tiles, the tiles into
// blocks, and the output channels into panels. The scratch memory for a block and a panel consists
// of planes. These are matrices with a row per tile (inputs, outputs) or per channel (kernels).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/tasks/device_context.hpp"

namespace omni::winograd {

// An Image is the channels of one group in an image.
struct Image {
  int h, w, c;
  int stride;  // values from pixel to pixel: the channels of all groups
  std::int64_t values() const { return std::int64_t{h} * w * stride; }
};

// A Convolved is a convolution from `in` to `out`. backward_data is also one, from diff_dst to
// diff_src.
struct Convolved {
  int n;
  Image in, out;
  int pad_h, pad_w;
  int tile_in, tile;  // inputs and outputs of a tile across

  int planes() const { return tile_in * tile_in; }  // one per position in a transformed tile
};

// A Mosaic puts images side by side, with padding between them. If an image is not a multiple of a
// tile in size, a mosaic needs fewer tiles, because tiles cover the edges of two images. 4 images
// with 13 x 13 outputs take 7 x 7 tiles instead of 8 x 8. A tile spreads rounding errors and NaN to
// all its images. So a mosaic has several images only if that saves enough tiles.
struct Mosaic {
  int across = 1, down = 1;      // number of images in each direction
  int pitch_h = 0, pitch_w = 0;  // from the start of an image to that of the next, in pixels
  int columns = 0, rows = 0;     // numbers of tiles

  int images() const { return across * down; }
};
Mosaic mosaic_of(const Convolved& what);

// A PixelMap has the place in memory of the pixel at a row and a column of a mosaic.
class PixelMap {
 public:
  // `image` is what.in or what.out. The first tiles of what.in begin in the padding.
  PixelMap(const Convolved& what, const Mosaic& mosaic, const Image& image, int pad_h, int pad_w);

  // Returns pointers to the pixels of a tile of `size` x `size` pixels. Pixels that are in no image
  // point to `outside`. `row` counts the rows of tiles of all mosaics in the slice.
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
  std::vector<std::int64_t> rows_, columns_;  // offsets; between images they are beyond the end
};

// A Block is a number of consecutive rows of tiles.
struct Block {
  int first, rows;
};

// ValueSizes are the sizes in bytes of a value in the planes of inputs, outputs and kernels.
struct ValueSizes {
  std::size_t in, out, kernel;
};

struct Blocking {
  Blocking(const Convolved& what, const Mosaic& mosaic, const ValueSizes& sizes);

  void for_each_block(auto visit) const {
    for (int first = 0; first < rows; first += block_rows)
      visit(Block{first, std::min(block_rows, rows - first)});
  }
  // Calls visit(first output channel, number of channels) for every panel.
  template <class Visit>
  void for_each_panel(Visit visit) const {
    for (int first = 0; first < filters; first += panel)
      visit(first, std::min(panel, filters - first));
  }
  bool one_panel() const { return panel == filters; }

  int rows, filters;      // rows of tiles in all mosaics; output channels
  int panel, block_rows;  // output channels of a panel; rows of tiles of a block
  std::int64_t in_plane, out_plane, kernel_plane;             // values from plane to plane
  std::size_t out_at, kernel_at, zeros_at, spare_at, floats;  // offsets and size of scratch memory
};

template <class In, class Out, class Kernel>
struct Workspace : Blocking {
  // Places the planes in `scratch`, or in the context's scratch memory if `scratch` is null.
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
  float *zeros, *spare;  // pixels outside of images are read as zeros, and written to `spare`
};

}  // namespace omni::winograd
