// These loops run on a GPU over a matrix with channels along its rows. They are for values that
// need something of their column, such as a bias. A thread stays in its column, and reads the bias
// once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "codelets/cuda/elements.cuh"
#include "runtime/extent.hpp"

namespace omni {

// Lanes are the values that one instruction loads or stores.
template <int lanes, class T = float>
struct alignas(lanes * sizeof(T)) Lanes {
  T at[lanes];
};

// One instruction moves at most this many values.
template <class T>
inline constexpr int kMostLanes = 16 / sizeof(T);

// Returns whether vectors of `lanes` values can move rows of `columns` values. `lanes` must divide
// `columns`, and the pointers must be aligned to such vectors.
template <class... T>
bool divides(int lanes, std::int64_t columns, const T*... pointers) {
  const auto vector = static_cast<std::uintptr_t>(lanes);
  return columns % lanes == 0 &&
         ((reinterpret_cast<std::uintptr_t>(pointers) % (vector * sizeof(T)) == 0) && ...);
}

template <class Columns>
__global__ void columns_kernel(std::int64_t rows, int columns, Columns at) {
  const std::int64_t column = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  const auto use = at(static_cast<int>(column));
  const std::int64_t stride = std::int64_t{gridDim.y} * blockDim.y;
  std::int64_t row = std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y;
  // Two rows are loaded before the first is finished. The compiler cannot do this, as it does not
  // know that no row writes what the next one reads.
  if constexpr (requires { use.load(row); }) {
    for (; row + stride < rows; row += 2 * stride) {
      const auto first = use.load(row), second = use.load(row + stride);
      use.finish(row, first);
      use.finish(row + stride, second);
    }
    if (row < rows) use.finish(row, use.load(row));
  } else {
    for (; row < rows; row += stride) use(row);
  }
}

// Calls use(row) for every row of every column, where use = at(column). If `use` has load(row),
// use.finish(row, use.load(row)) is called instead. Neighbouring threads have neighbouring columns.
// If there are few columns, the next threads have the next rows.
template <class Columns>
void for_each_column(CudaWorker& worker, std::int64_t rows, int columns, Columns at) {
  if (rows <= 0 || columns <= 0) return;
  unsigned across = 1;
  while (across < 32 && across < static_cast<unsigned>(columns)) across *= 2;
  const unsigned down = kThreads / across;
  const unsigned tiles = (static_cast<unsigned>(columns) + across - 1) / across;
  const std::int64_t wanted = (rows + down - 1) / down;
  constexpr auto kKernel = columns_kernel<Columns>;
  const std::int64_t most =
      std::clamp<std::int64_t>(resident_blocks<kKernel>(worker) / tiles, 1, 65535);
  launch(kKernel, dim3(tiles, static_cast<unsigned>(std::min(wanted, most))), dim3(across, down), 0,
         worker.stream(), rows, columns, at);
}

// The following loops visit the positions of images. They are for kernels that read neighbours or
// another grid.

// The values of an image can be numbered in 32 bits (Extent). Divisions of 64 bits would take
// longer than moving the data.
template <class Use>
__global__ void positions_kernel(int images, unsigned in_image, unsigned w, unsigned columns,
                                 Use use) {
  const unsigned stride = gridDim.x * blockDim.x;
  const int image_stride = static_cast<int>(gridDim.y * blockDim.y);
  for (int image = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y); image < images;
       image += image_stride)
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < in_image; i += stride) {
      const unsigned pixel = i / columns, y = pixel / w;
      use(image, static_cast<int>(y), static_cast<int>(pixel - y * w),
          static_cast<int>(i - pixel * columns));
    }
}

// Calls use(image, y, x, column) for all positions of the images. extent.c counts columns; a column
// is one or several channels.
template <class Use>
void for_each_position(CudaWorker& worker, int images, const Extent& extent, Use use) {
  const auto in_image = static_cast<unsigned>(extent.count());
  if (images <= 0 || in_image == 0) return;
  unsigned across = 32;
  while (across < kThreads && across < in_image) across *= 2;
  const unsigned down = kThreads / across;
  const unsigned wide = (in_image + across - 1) / across;
  const unsigned high = (static_cast<unsigned>(images) + down - 1) / down;
  const unsigned most = blocks_for(worker, std::int64_t{images} * in_image).x;
  const unsigned x = std::min(wide, most);
  launch(positions_kernel<Use>, dim3(x, std::clamp(most / x, 1u, high)), dim3(across, down), 0,
         worker.stream(), images, in_image, static_cast<unsigned>(extent.w),
         static_cast<unsigned>(extent.c), use);
}

}  // namespace omni
