// This header runs kernels on a played device. They run as the threads of a grid, one after the
// other; a thread stops only where it waits for others.
#pragma once

#include <cuda_runtime_api.h>
#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/played_gpu/stream.hpp"

namespace omni::played {

struct Region {
  const void* address;
  std::size_t bytes;
};

// Puts a kernel into a stream. When its turn comes, `used` must be memory that a device may use, or
// the device breaks: the pageable memory of the host is not.
cudaError_t enqueue_kernel(cudaStream_t stream, std::vector<Region> used, Work kernel);

struct Geometry {
  dim3 grid, block;
  std::size_t shared_bytes;
};
// A launch as `kernel<<<grid, block, shared_bytes, stream>>>(arguments)`: `thread` is the kernel
// with its arguments, `pointers` those of them that are pointers.
cudaError_t launch_kernel(const Geometry& geometry, cudaStream_t stream,
                          const std::vector<const void*>& pointers, Work thread);

// The threads of a block call these.
void wait_for_block();
// The value that the lane `source` of the warp has brought; 0xFF where nobody brings one.
std::uint64_t exchange_in_warp(unsigned mask, std::uint64_t value, int source);
int lane_of_thread();

}  // namespace omni::played
