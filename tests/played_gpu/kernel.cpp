#include "tests/played_gpu/kernel.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <memory>

#include "tests/played_gpu/cuda_language.hpp"
#include "tests/played_gpu/device.hpp"
#include "tests/played_gpu/fiber.hpp"
#include "tests/played_gpu/host_memory.hpp"

constinit thread_local uint3 threadIdx{}, blockIdx{};
constinit thread_local dim3 blockDim{}, gridDim{};

namespace omni::played {
namespace {

constexpr unsigned kLanes = 32;
constexpr std::uint64_t kNothing = ~std::uint64_t{0};

// Runs the blocks of a grid in the calling thread. A fiber runs the block's threads one after the
// other until one waits. Then another fiber runs the next threads. So a kernel that never waits
// needs only one fiber.
class BlockRunner {
 public:
  void run(const Work& thread, bool backwards) {
    thread_ = &thread;
    threads_ = blockDim.x * blockDim.y * blockDim.z;
    backwards_ = backwards;
    begun_ = ended_ = 0;
    warps_.assign((threads_ + kLanes - 1) / kLanes, {});
    while (ended_ < threads_) go_on();
  }

  void wait_for_block() {
    at_barrier_.push_back(current_);
    Fiber::pause();
  }

  std::uint64_t exchange_in_warp(unsigned mask, std::uint64_t value, int source) {
    const unsigned lane = current_->thread % kLanes, warp = current_->thread / kLanes;
    const unsigned present = threads_ - warp * kLanes;
    if ((mask >> lane & 1) == 0)
      stop_program(fmt::format("a shuffle with mask {:#x} is called by lane {}", mask, lane));
    if (present < kLanes) mask &= (1u << present) - 1;
    Meeting& meeting = warps_[warp][mask];
    auto& values = meeting.values[meeting.count % 2];
    values[lane] = value;
    meeting.arrived |= 1u << lane;
    if (meeting.arrived == mask) {
      ++meeting.count;
      meeting.arrived = 0;
      ready_.insert(ready_.end(), meeting.waiting.begin(), meeting.waiting.end());
      meeting.waiting.clear();
    } else {
      meeting.waiting.push_back(current_);
      Fiber::pause();
    }
    return (mask >> source & 1) != 0 ? values[static_cast<unsigned>(source)] : kNothing;
  }

  unsigned lane() const { return current_->thread % kLanes; }

 private:
  struct Worker {
    explicit Worker(std::function<void()> body) : fiber(std::move(body)) {}
    Fiber fiber;
    unsigned thread = 0;
  };
  // A Meeting is for the lanes of a warp that a mask names. Two sets of values suffice, because no
  // lane is two meetings ahead of another one.
  struct Meeting {
    unsigned arrived = 0, count = 0;
    std::uint64_t values[2][kLanes];
    std::vector<Worker*> waiting;
  };

  void go_on() {
    if (ready_.empty() && begun_ == threads_) {
      if (at_barrier_.size() != threads_) stop_at_deadlock();
      ready_.swap(at_barrier_);
    }
    if (ready_.empty() && idle_.empty()) {
      workers_.push_back(std::make_unique<Worker>([this] { take_threads(); }));
      idle_.push_back(workers_.back().get());
    }
    auto& from = ready_.empty() ? idle_ : ready_;
    current_ = from.back();
    from.pop_back();
    set_thread_index();
    current_->fiber.resume();
  }

  void take_threads() {
    for (;;) {
      while (begun_ < threads_) {
        // In every second block the threads run from the last to the first. So a kernel that is
        // right only in one order gives wrong results.
        current_->thread = backwards_ ? threads_ - 1 - begun_ : begun_;
        ++begun_;
        set_thread_index();
        (*thread_)();
        ++ended_;
      }
      idle_.push_back(current_);
      Fiber::pause();
    }
  }

  void set_thread_index() const {
    const unsigned row = current_->thread / blockDim.x;
    threadIdx = {current_->thread % blockDim.x, row % blockDim.y, row / blockDim.y};
  }

  [[noreturn]] void stop_at_deadlock() const {
    stop_program(fmt::format(
        "a kernel waits for ever: of the {} threads of block ({}, {}, {}), {} have ended, {} wait "
        "at __syncthreads() and {} in a warp (all of a block, or all that a mask names, must come)",
        threads_, blockIdx.x, blockIdx.y, blockIdx.z, ended_, at_barrier_.size(),
        threads_ - ended_ - at_barrier_.size()));
  }

  const Work* thread_ = nullptr;
  unsigned threads_ = 0, begun_ = 0, ended_ = 0;
  bool backwards_ = false;
  Worker* current_ = nullptr;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Worker*> idle_, ready_, at_barrier_;
  std::vector<std::map<unsigned, Meeting>> warps_;
};

BlockRunner& runner() {
  thread_local BlockRunner its;
  return its;
}

void run_grid(const Geometry& geometry, const Work& thread) {
  gridDim = geometry.grid;
  blockDim = geometry.block;
  bool backwards = false;
  for (blockIdx.z = 0; blockIdx.z < gridDim.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x, backwards = !backwards)
        runner().run(thread, backwards);
}

bool usable(const Region& region) {
  const Device* owner = owner_of(region.address);
  return owner != nullptr ? owner->memory.holds(region.address, region.bytes)
                          : is_pinned(region.address, region.bytes);
}

bool launches_wait() {
  const char* const value = std::getenv("CUDA_LAUNCH_BLOCKING");
  return value != nullptr && value[0] == '1';
}

cudaError_t check(const Geometry& geometry) {
  const auto& [grid, block, shared_bytes] = geometry;
  const bool block_fits = block.x <= 1024 && block.y <= 1024 && block.z <= 64 &&
                          std::uint64_t{block.x} * block.y * block.z - 1 < 1024;  // not zero either
  const bool grid_fits = grid.x - 1 < 0x7FFFFFFF && grid.y - 1 < 65535 && grid.z - 1 < 65535;
  if (!block_fits || !grid_fits) return cudaErrorInvalidConfiguration;
  return shared_bytes <= 48 << 10 ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace

cudaError_t enqueue_kernel(cudaStream_t handle, std::vector<Region> used, Work kernel) {
  return on_device([&](Device&) {
    const auto stream = find_stream(handle);
    return on_device(stream->device, [&](Device& device) {
      const Ticket done = device.enqueue(stream, [&device, used = std::move(used),
                                                  kernel = std::move(kernel)] {
        device.count_launch();
        for (const Region& region : used)
          if (!usable(region))
            device.fail(cudaErrorIllegalAddress,
                        fmt::format("a kernel is given {} bytes at {}, which is neither allocated "
                                    "device memory nor pinned",
                                    region.bytes, fmt::ptr(region.address)));
        if (device.failure() == cudaSuccess) kernel();
      });
      if (!launches_wait()) return cudaSuccess;
      done.wait();
      return device.failure();
    });
  });
}

cudaError_t launch_kernel(const Geometry& geometry, cudaStream_t stream,
                          const std::vector<const void*>& pointers, Work thread) {
  if (const cudaError_t error = check(geometry); error != cudaSuccess) return noted(error);
  std::vector<Region> used;
  for (const void* pointer : pointers)
    if (pointer != nullptr) used.push_back({pointer, 0});
  return enqueue_kernel(stream, std::move(used),
                        [geometry, thread = std::move(thread)] { run_grid(geometry, thread); });
}

void wait_for_block() { runner().wait_for_block(); }

std::uint64_t exchange_in_warp(unsigned mask, std::uint64_t value, int source) {
  return runner().exchange_in_warp(mask, value, source);
}

int lane_of_thread() { return static_cast<int>(runner().lane()); }

}  // namespace omni::played
