// This header chooses the fastest of several ways to compute something on a GPU, and allocates
// memory for trials of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "runtime/cuda/check.hpp"
#include "runtime/cuda/timed_event.hpp"
#include "runtime/cuda/worker.hpp"

namespace omni {

constexpr float kNever = std::numeric_limits<float>::infinity();

// Returns the time in milliseconds of what run() enqueues in the stream, or kNever if run() returns
// false. Calls run() several times, fewer if it is far slower than `best`, and waits for the
// stream.
template <class Run>
float shortest_time(cudaStream_t stream, Run run, float best = kNever) {
  constexpr int kRounds = 3, kRuns = 4;
  const TimedEvent begin, end;
  float least = kNever;
  bool runs = run();  // not timed: a library may load code first
  for (int round = 0; runs && round < kRounds; ++round) {
    const int times = round == 0 ? 1 : kRuns;
    begin.record(stream);
    for (int i = 0; runs && i < times; ++i) runs = run();
    end.record(stream);
    least = std::min(least, end.milliseconds_since(begin) / static_cast<float>(times));
    if (least > 2 * best) break;  // too slow to be worth more rounds
  }
  if (runs) return least;
  cudaGetLastError();  // clears the error that a refusal may leave
  return kNever;
}

// Returns the fastest candidate, or nullopt if no candidate runs: run(candidate) as above.
template <class Candidates, class Run>
std::optional<typename Candidates::value_type> fastest(cudaStream_t stream,
                                                       const Candidates& candidates, Run run) {
  std::optional<typename Candidates::value_type> found;
  float best = kNever;
  for (const auto& candidate : candidates)
    if (const float time = shortest_time(
            stream, [&] { return run(candidate); }, best);
        time < best) {
      best = time;
      found = candidate;
    }
  return found;
}

class TrialMemory {
 public:
  // Allocates `bytes` bytes in the worker's stream, or throws OutOfGpuMemory.
  TrialMemory(const CudaWorker& worker, std::size_t bytes) : stream_(worker.stream()) {
    // At least 1 byte is allocated, as CUDA does not allocate 0 bytes.
    check(cudaMallocAsync(&data_, std::max<std::size_t>(bytes, 1), stream_), "trying an algorithm",
          bytes);
  }
  ~TrialMemory() { cudaFreeAsync(data_, stream_); }
  TrialMemory(const TrialMemory&) = delete;
  TrialMemory& operator=(const TrialMemory&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  void fill(int byte, std::size_t bytes) const {
    check(cudaMemsetAsync(data_, byte, bytes, stream_), "filling memory to try an algorithm");
  }

 private:
  cudaStream_t stream_;
  void* data_ = nullptr;
};

// Returns whether a relu has kept NaN. `values` are the relu's results for nothing but NaN, in
// device memory; the worker's stream computes them. A relu by a maximum may give 0, and hide that a
// training diverges.
inline bool kept_nan(const CudaWorker& worker, const void* values, std::size_t bytes_of_one) {
  std::uint32_t bits = 0;
  check(cudaMemcpyAsync(&bits, values, bytes_of_one, cudaMemcpyDeviceToHost, worker.stream()),
        "copying a result");
  check(cudaStreamSynchronize(worker.stream()), "waiting for an algorithm that is tried");
  return bits != 0;
}

}  // namespace omni
