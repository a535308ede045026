// Figures that a few odd tasks do not move (median and median absolute deviation), and sets of
// instants.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

#include "perf/trace/trace.hpp"

namespace omni::perf {

struct Spread {
  std::size_t count = 0;
  double total = 0, mean = 0, median = 0, min = 0, max = 0;
  double mad = 0;  // median of |value - median|
  // The median's standard error, as if the values were normally distributed: 1.2533 * 1.4826 * mad
  // / sqrt(count).
  double standard_error() const {
    return count > 0 ? 1.2533 * 1.4826 * mad / std::sqrt(static_cast<double>(count)) : 0;
  }
};

// All zero without values.
Spread spread_of(std::vector<double> values);

// Requires at least one value; values may be infinite.
double median_of(std::vector<double> values);

inline constexpr double kNever = std::numeric_limits<double>::infinity();  // seconds

// part / whole, 0 when there is no whole.
constexpr double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

// A set of instants is sorted intervals that neither overlap nor touch.
struct Interval {
  Nanoseconds from = 0, to = 0;
};

// Any intervals, in any order, to a set; empty ones vanish.
std::vector<Interval> united(std::vector<Interval> intervals);

Nanoseconds length_of(const std::vector<Interval>& set);

Nanoseconds common_length(const std::vector<Interval>& a, const std::vector<Interval>& b);

// Which tasks are expected to take the same time: those of one codelet, implementation, kind of
// worker and layer. Analyses leave out of it what they do not tell apart.
struct TaskClass {
  std::uint32_t codelet = 0, implementation = 0, kind = 0;
  std::int32_t layer = -1;
  bool operator==(const TaskClass&) const = default;
};

struct TaskClassHash {
  std::size_t operator()(const TaskClass& key) const {
    std::size_t hash = 0;
    for (const std::uint32_t part :
         {key.codelet, key.implementation, key.kind, static_cast<std::uint32_t>(key.layer)})
      hash = (hash ^ part) * 0x9e3779b97f4a7c15U;
    return hash ^ hash >> 32;
  }
};

// The kinds of workers of a trace, numbered.
class KindIndex {
 public:
  explicit KindIndex(const Trace& trace) {
    std::unordered_map<std::string, std::uint32_t> known;
    for (const Worker& worker : trace.workers) {
      const auto [kind, is_new] =
          known.emplace(worker.kind, static_cast<std::uint32_t>(names_.size()));
      if (is_new) names_.push_back(worker.kind);
      of_worker_.push_back(kind->second);
    }
  }
  std::uint32_t of(const Task& task) const { return of_worker_[task.worker]; }
  TaskClass class_of(const Task& task, bool by_layer = true) const {
    return {task.codelet, task.implementation, of(task), by_layer ? task.layer : -1};
  }
  std::uint32_t of_worker(std::size_t worker) const { return of_worker_[worker]; }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
  std::vector<std::uint32_t> of_worker_;
};

}  // namespace omni::perf
