// This analysis finds what every worker did at every instant of a run, and why it did nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "perf/trace/trace.hpp"

namespace omni::perf {

// The time of a worker has these parts; `omni-perf idle --help` explains them. At an instant with
// several of the worker's tasks, the first of compute, data and scheduling counts. Of the causes of
// idle time the first counts, in this order: scheduling, other_workers, start_up, other_nodes,
// nothing_ready, barrier, submission_late. But start_up does not count while a submitted task waits
// for others, nor other_nodes while a task of the rank computes.
enum class Part {
  compute,
  data,
  scheduling,
  other_workers,
  nothing_ready,
  submission_late,
  barrier,
  other_nodes,
  start_up
};
constexpr std::size_t kPartCount = 9;
// The parts have these names, in JSON, too.
constexpr std::array<std::string_view, kPartCount> kPartNames = {
    "compute",         "data",    "scheduling",  "other_workers", "nothing_ready",
    "submission_late", "barrier", "other_nodes", "start_up"};

struct WorkerTime {
  std::uint32_t worker = 0;                     // index into Trace::workers
  std::array<Nanoseconds, kPartCount> parts{};  // by Part; their sum is exactly the wall time
  std::uint64_t tasks = 0;

  double seconds(Part part) const {
    return static_cast<double>(parts[static_cast<std::size_t>(part)]) * 1e-9;
  }
};

struct Idle {
  double wall = 0;                         // s
  std::vector<WorkerTime> workers;         // as in Trace::workers
  std::array<double, kPartCount> total{};  // s, by Part, over all workers
  std::array<double, kPartCount> share{};  // by Part, of the time of all workers; the sum is 1
};

// Analyses the whole run. With `skip`, begins when half of the last skipped iteration is computed.
// It ends when half of the last iteration is computed, so it leaves out what is not training.
// nullopt: there are no more iterations than `skip`.
std::optional<Idle> analyse_idle(const Trace& trace, std::size_t skip);
Idle analyse_idle(const Trace& trace);

}  // namespace omni::perf
