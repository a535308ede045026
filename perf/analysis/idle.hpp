// What every worker did at every instant of the run, and why it did nothing. Where tasks of one
// worker overlap, the first part in the order of Part holds; so it does where several causes do,
// but other_nodes stands before nothing_ready. `omni-perf idle --help` says what each part is.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "perf/trace/trace.hpp"

namespace omni::perf {

enum class Part {
  compute,
  data,
  scheduling,
  other_workers,
  nothing_ready,
  submission_late,
  barrier,
  other_nodes
};
constexpr std::size_t kPartCount = 8;
// The names of the parts in JSON.
constexpr std::array<std::string_view, kPartCount> kPartNames = {
    "compute",         "data",    "scheduling", "other_workers", "nothing_ready",
    "submission_late", "barrier", "other_nodes"};

struct WorkerTime {
  std::uint32_t worker = 0;                     // index into Trace::workers
  std::array<Nanoseconds, kPartCount> parts{};  // their sum is the wall time, exactly
  std::uint64_t tasks = 0;

  double seconds(Part part) const {
    return static_cast<double>(parts[static_cast<std::size_t>(part)]) * 1e-9;
  }
};

struct Idle {
  double wall = 0;                         // s
  std::vector<WorkerTime> workers;         // as in Trace::workers
  std::array<double, kPartCount> total{};  // s, of all workers
  std::array<double, kPartCount> share{};  // of the time of all workers; the sum is 1
};

// Of all that happened; or without the first `skip` iterations: from half of the last of these
// being computed to half of the last one, which leaves out what is not training. Nothing: there are
// not so many iterations.
std::optional<Idle> analyse_idle(const Trace& trace, std::size_t skip);
Idle analyse_idle(const Trace& trace);

}  // namespace omni::perf
