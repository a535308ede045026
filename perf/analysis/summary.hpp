// One screen: what ran, how fast, and where most of the time was lost; and what every worker did
// at every instant of the run, and why it did nothing.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "perf/analysis/iterations.hpp"
#include "perf/analysis/kernels.hpp"
#include "perf/analysis/memory.hpp"
#include "perf/trace/dependencies.hpp"
#include "perf/trace/trace.hpp"

namespace omni::perf {

// Where tasks of one worker overlap, the first part in this order holds; so it does where several
// causes do, but other_nodes stands before nothing_ready. `omni-perf idle --help` says what each
// part is.
enum class Part {
  compute,
  data,
  scheduling,
  other_workers,
  nothing_ready,
  submission_late,
  barrier,
  other_nodes,
  start_up  // stands before barrier and submission_late
};
constexpr std::size_t kPartCount = 9;
// The names of the parts in JSON.
constexpr std::array<std::string_view, kPartCount> kPartNames = {
    "compute",         "data",    "scheduling",  "other_workers", "nothing_ready",
    "submission_late", "barrier", "other_nodes", "start_up"};

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

// How often a slice of a mini-batch goes on where it is: a task whose last input another task of
// its slice made finds it in the cache, if both run on one worker. By chance, one of as many as
// there are workers would.
struct SliceSteps {
  std::uint64_t all = 0;   // tasks that one of their own slice has released
  std::uint64_t kept = 0;  // by the same worker

  // NaN without any.
  double share() const { return static_cast<double>(kept) / static_cast<double>(all); }
};

SliceSteps count_slice_steps(const Trace& trace);

struct Loss {
  std::string name;  // a part's; or "decoding" or "others", which are parts of compute
  double share = 0;  // of worker time
  std::string text;  // what the name means
};

struct Summary {
  double wall = 0;
  std::uint64_t tasks = 0;
  Iterations iterations;
  Idle idle;
  Kernels kernels;
  Memory memory;
  SliceSteps slices;
  std::vector<Loss> losses;  // largest first; at least 1 %
};

Summary analyse_summary(const Trace& trace);

}  // namespace omni::perf
