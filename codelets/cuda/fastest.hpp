// Which of several ways to compute something on a device is the fastest: all are tried.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>

#include "runtime/cuda/timed_event.hpp"

namespace omni {

// Calls run(candidate) several times for each; it enqueues into the stream, or says `false` if it
// cannot. Waits for the stream. Nothing: no candidate runs.
template <class Candidates, class Run>
std::optional<typename Candidates::value_type> fastest(cudaStream_t stream,
                                                       const Candidates& candidates, Run run) {
  constexpr int kRounds = 3, kRuns = 4;
  const TimedEvent begin, end;
  // Infinite: it cannot run.
  const auto shortest = [&](const auto& candidate, float best) {
    float least = std::numeric_limits<float>::infinity();
    bool runs = run(candidate);  // the first time a library loads what it runs
    for (int round = 0; runs && round < kRounds; ++round) {
      const int times = round == 0 ? 1 : kRuns;
      begin.record(stream);
      for (int i = 0; runs && i < times; ++i) runs = run(candidate);
      end.record(stream);
      least = std::min(least, end.milliseconds_since(begin) / static_cast<float>(times));
      if (least > 2 * best) break;  // it is not worth the time
    }
    if (runs) return least;
    cudaGetLastError();  // a refusal may leave one, which is nobody else's
    return std::numeric_limits<float>::infinity();
  };
  std::optional<typename Candidates::value_type> found;
  float best = std::numeric_limits<float>::infinity();
  for (const auto& candidate : candidates)
    if (const float time = shortest(candidate, best); time < best) {
      best = time;
      found = candidate;
    }
  return found;
}

}  // namespace omni
