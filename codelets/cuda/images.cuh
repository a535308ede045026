// Loops over the positions of images, for kernels that gather from neighbours or from another grid.
#pragma once

#include <algorithm>
#include <cstdint>

#include "codelets/cuda/rows.cuh"
#include "runtime/extent.hpp"

namespace omni {

// One image's values are countable (see Extent), so 32 bits number them; divisions of 64 bits would
// cost more than the data.
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

// use(image, y, x, column) for all positions of the images; extent.c counts columns, which may be
// channels or several at a time.
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
