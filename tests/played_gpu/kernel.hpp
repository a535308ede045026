// This header runs kernels on a played device, as the threads of a grid, one after the other. A
// thread stops only where it waits for other threads.
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

// Puts a kernel into a stream. When it runs, all regions in `used` must be memory that a device may
// use. Otherwise, for example with pageable host memory, the device breaks.
cudaError_t enqueue_kernel(cudaStream_t stream, std::vector<Region> used, Work kernel);

struct Geometry {
  dim3 grid, block;
  std::size_t shared_bytes;
};
// Launches `kernel<<<grid, block, shared_bytes, stream>>>(arguments)`. `thread` calls the kernel
// with its arguments, and `pointers` has those arguments that are pointers.
cudaError_t launch_kernel(const Geometry& geometry, cudaStream_t stream,
                          const std::vector<const void*>& pointers, Work thread);

// The threads of a block call the next functions.
void wait_for_block();
// Returns the value that lane `source` of the warp passed, or bytes of 0xFF if this lane did not
// call.
std::uint64_t exchange_in_warp(unsigned mask, std::uint64_t value, int source);
int lane_of_thread();

}  // namespace omni::played
