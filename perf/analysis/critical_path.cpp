#include "perf/analysis/critical_path.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <utility>

namespace omni::perf {
namespace {

// Replays a trace with other lengths of tasks.
//
// A replay keeps which worker runs which tasks in which order. It keeps a worker's time from asking
// for a task to its start, and from its end to the release of its data. It also keeps the pace of
// the submitting thread between waits, and how long that thread takes to go on after a wait.
//
// A task starts when it is submitted and three kinds of tasks are done. They are those on which it
// depends, those that its worker ran before, and those that updated the same data before by
// commuting accesses. A wait of the submitting thread ends with the task whose end was the last
// before the wait's end.
//
// A replay drops all other time between a task being ready and its worker asking for it. So a
// replay without changes takes less time than the run. A replay with changes must be compared with
// that replay, not with the run.
class Replay {
 public:
  Replay(const Trace& trace, const Dependencies& dependencies);
  // Returns the wall time in seconds. Tasks of codelet i take their length times scale[i].
  double run(std::span<const double> scale) const;

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Step {
    Nanoseconds at = 0;
    bool is_task = false;  // false: a wait
    std::uint32_t index = 0;
    auto operator<=>(const Step&) const = default;
  };
  struct Waited {
    std::uint32_t before = kNone;   // the wait before, of the same thread
    std::uint32_t trigger = kNone;  // the task that ended it
  };
  void plan_waits();
  void plan_tasks();

  const Trace& trace_;
  const Dependencies& dependencies_;
  std::vector<Step> steps_;  // in an order in which each needs only earlier ones
  std::vector<Waited> waits_;
  std::vector<std::uint32_t> wait_before_;  // by task: the last wait before its submission
  std::vector<Nanoseconds> own_;  // by task: from the end of all that it waits for to its start
  Lists waits_for_;               // by task: other tasks, without members of joins
};

// A thread submits nothing while it waits, so few tasks must be tried. This limit is for forged
// traces.
constexpr int kMaxTriggersTried = 1000;

Replay::Replay(const Trace& trace, const Dependencies& dependencies)
    : trace_(trace), dependencies_(dependencies) {
  for (std::uint32_t i = 0; i < trace.tasks.size(); ++i)
    steps_.push_back({trace.tasks[i].times.start, true, i});
  for (std::uint32_t i = 0; i < trace.waits.size(); ++i)
    steps_.push_back({trace.waits[i].to, false, i});
  std::ranges::sort(steps_);
  plan_waits();
  plan_tasks();
}

void Replay::plan_waits() {
  std::map<std::int32_t, std::vector<std::uint32_t>> released, waits;  // by rank, in order of time
  for (std::uint32_t i = 0; i < trace_.tasks.size(); ++i)
    released[trace_.workers[trace_.tasks[i].worker].rank].push_back(i);
  for (auto& [rank, tasks] : released)
    std::ranges::sort(tasks, [&](std::uint32_t a, std::uint32_t b) {
      return trace_.tasks[a].times.released < trace_.tasks[b].times.released;
    });
  for (const Step& step : steps_)
    if (!step.is_task) waits[trace_.waits[step.index].rank].push_back(step.index);

  const auto last_wait = [&](std::int32_t rank, Nanoseconds until) {
    const std::vector<std::uint32_t>& of_rank = waits[rank];
    const auto found = std::partition_point(of_rank.begin(), of_rank.end(), [&](std::uint32_t i) {
      return trace_.waits[i].to <= until;
    });
    return found == of_rank.begin() ? kNone : *std::prev(found);
  };
  const auto trigger = [&](const trace::Wait& wait) {
    const std::vector<std::uint32_t>& tasks = released[wait.rank];
    auto next = std::partition_point(tasks.begin(), tasks.end(), [&](std::uint32_t i) {
      return trace_.tasks[i].times.released <= wait.to;
    });
    for (int tried = 0; next != tasks.begin() && tried < kMaxTriggersTried; ++tried) {
      const trace::TaskTimes& times = trace_.tasks[*--next].times;
      if (times.released <= wait.from) break;
      if (times.submitted <= wait.from && times.start < wait.to) return *next;
    }
    return kNone;
  };

  waits_.resize(trace_.waits.size());
  for (std::size_t i = 0; i < waits_.size(); ++i) {
    const trace::Wait& wait = trace_.waits[i];
    const std::uint32_t before = last_wait(wait.rank, wait.from);
    waits_[i] = {.before = before == i ? kNone : before, .trigger = trigger(wait)};
  }
  wait_before_.reserve(trace_.tasks.size());
  for (const Task& task : trace_.tasks)
    wait_before_.push_back(last_wait(trace_.workers[task.worker].rank, task.times.submitted));
}

void Replay::plan_tasks() {
  std::vector<std::uint32_t> on_worker(trace_.workers.size(), kNone);
  std::vector<std::uint32_t> added(trace_.data.size(), kNone);
  std::vector<std::uint32_t> before(trace_.tasks.size(), kNone);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> commuting;  // task, the one before it
  for (const Step& step : steps_) {
    if (!step.is_task) continue;
    const Task& task = trace_.tasks[step.index];
    before[step.index] = std::exchange(on_worker[task.worker], step.index);
    for (const trace::Access& access : trace_.accesses_of(task)) {
      if (access.mode != trace::AccessMode::add) continue;
      const std::uint32_t other = std::exchange(added[access.data], step.index);
      if (other != kNone && trace_.tasks[other].times.released <= task.times.start)
        commuting.emplace_back(step.index, other);
    }
  }
  std::ranges::sort(commuting);

  std::vector<Nanoseconds> joined(dependencies_.join_count(), trace_.begin);
  for (std::size_t join = 0; join < joined.size(); ++join)
    for (const std::uint32_t task : dependencies_.members(join))
      joined[join] = std::max(joined[join], trace_.tasks[task].times.released);

  auto other = commuting.begin();
  for (std::uint32_t i = 0; i < trace_.tasks.size(); ++i) {
    const trace::TaskTimes& times = trace_.tasks[i].times;
    const auto direct = dependencies_.direct(i);
    std::vector<std::uint32_t> tasks(direct.begin(), direct.end());
    if (before[i] != kNone) tasks.push_back(before[i]);
    for (; other != commuting.end() && other->first == i; ++other) tasks.push_back(other->second);
    waits_for_.add(tasks);

    Nanoseconds possible = times.pop_start;
    for (const std::uint32_t task : tasks)
      possible = std::max(possible, trace_.tasks[task].times.released);
    for (const std::uint32_t join : dependencies_.joins(i))
      possible = std::max(possible, joined[join]);
    own_.push_back(times.start - possible);  // negative where a worker overlaps its tasks
  }
}

double Replay::run(std::span<const double> scale) const {
  const auto begin = static_cast<double>(trace_.begin);
  std::vector<double> released(trace_.tasks.size(), begin), delay(waits_.size(), 0.0);
  std::vector<double> joined(dependencies_.join_count(), begin);  // all members released
  const auto delayed = [&](Nanoseconds at, std::uint32_t wait) {
    return static_cast<double>(at) + (wait == kNone ? 0 : delay[wait]);
  };
  double end = begin;
  for (const Step& step : steps_) {
    if (!step.is_task) {
      const trace::Wait& wait = trace_.waits[step.index];
      const Waited& waited = waits_[step.index];
      double until = delayed(wait.from, waited.before);
      if (waited.trigger == kNone)
        until += static_cast<double>(wait.to - wait.from);
      else
        until = std::max(
            until, released[waited.trigger] +
                       static_cast<double>(wait.to - trace_.tasks[waited.trigger].times.released));
      delay[step.index] = until - static_cast<double>(wait.to);
      end = std::max(end, until);
      continue;
    }
    const Task& task = trace_.tasks[step.index];
    double start = delayed(task.times.submitted, wait_before_[step.index]);
    for (const std::uint32_t other : waits_for_[step.index])
      start = std::max(start, released[other]);
    for (const std::uint32_t join : dependencies_.joins(step.index))
      start = std::max(start, joined[join]);
    start += static_cast<double>(own_[step.index]);
    released[step.index] = start + static_cast<double>(task.length()) * scale[task.codelet] +
                           static_cast<double>(task.times.released - task.times.end);
    for (const std::uint32_t join : dependencies_.joins_with(step.index))
      joined[join] = std::max(joined[join], released[step.index]);
    end = std::max(end, released[step.index]);
  }
  return (end - begin) * 1e-9;
}

constexpr std::size_t kMostReplays = 12;

// Returns the indices of the codelets to make faster: those named, or else those with most compute
// time.
std::vector<std::size_t> candidates(const Trace& trace, const std::vector<std::string>& named) {
  std::vector<double> compute(trace.codelets.size(), 0.0);
  for (const Task& task : trace.tasks) compute[task.codelet] += task.seconds();
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < trace.codelets.size(); ++i) {
    const bool wanted = std::ranges::find(named, trace.codelets[i].name) != named.end();
    if (named.empty() ? compute[i] > 0 : wanted) chosen.push_back(i);
  }
  std::ranges::stable_sort(chosen,
                           [&](std::size_t a, std::size_t b) { return compute[a] > compute[b]; });
  if (named.empty()) chosen.resize(std::min(chosen.size(), kMostReplays));
  return chosen;
}

}  // namespace

std::vector<std::uint32_t> longest_path(const Trace& trace, const Dependencies& dependencies) {
  constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::vector<double> length(trace.tasks.size());  // of the longest path that ends here
  std::vector<std::uint32_t> before(trace.tasks.size(), kNone);
  std::vector<std::uint32_t> longest(dependencies.join_count(),
                                     kNone);  // by join: the member with the longest path
  const auto prefer = [&](std::uint32_t& best, std::uint32_t other) {
    if (best == kNone || std::pair(length[other], other) > std::pair(length[best], best))
      best = other;
  };
  std::uint32_t last = kNone;
  for (std::uint32_t i = 0; i < trace.tasks.size(); ++i) {
    for (const std::uint32_t other : dependencies.direct(i)) prefer(before[i], other);
    for (const std::uint32_t join : dependencies.joins(i)) {
      // All members of a join have lower indices than the first task that waits for it.
      if (longest[join] == kNone)
        for (const std::uint32_t other : dependencies.members(join)) prefer(longest[join], other);
      prefer(before[i], longest[join]);
    }
    length[i] =
        static_cast<double>(trace.tasks[i].length()) + (before[i] == kNone ? 0 : length[before[i]]);
    if (last == kNone || length[i] >= length[last]) last = i;
  }
  std::vector<std::uint32_t> path;
  for (; last != kNone; last = before[last]) path.push_back(last);
  std::ranges::reverse(path);
  return path;
}

CriticalPath analyse_critical_path(const Trace& trace, const Dependencies& dependencies,
                                   double factor, const std::vector<std::string>& codelets) {
  CriticalPath result;
  result.wall = trace.wall_seconds();
  result.factor = factor;
  result.tasks = longest_path(trace, dependencies);
  std::map<std::uint32_t, PathRow> rows;
  for (const std::uint32_t task : result.tasks) {
    PathRow& row = rows[trace.tasks[task].codelet];
    row.codelet = trace.codelet_name(trace.tasks[task]);
    row.tasks += 1;
    row.seconds += trace.tasks[task].seconds();
    result.length += trace.tasks[task].seconds();
  }
  for (auto& [codelet, row] : rows) result.rows.push_back(std::move(row));
  std::ranges::stable_sort(result.rows, std::ranges::greater(), &PathRow::seconds);

  const Replay replay(trace, dependencies);
  std::vector<double> scale(trace.codelets.size(), 1.0);
  result.replayed = replay.run(scale);
  for (const std::size_t codelet : candidates(trace, codelets)) {
    scale[codelet] = 1 / factor;
    const double seconds = replay.run(scale);
    scale[codelet] = 1;
    result.what_if.push_back({.codelet = trace.codelets[codelet].name,
                              .seconds = seconds,
                              .saved = result.replayed - seconds});
  }
  std::ranges::stable_sort(result.what_if, std::ranges::greater(), &WhatIf::saved);
  return result;
}

}  // namespace omni::perf
