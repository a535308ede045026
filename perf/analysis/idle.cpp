#include "perf/analysis/idle.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <span>

#include "perf/analysis/iterations.hpp"
#include "perf/common/intervals.hpp"
#include "perf/common/statistics.hpp"

namespace omni::perf {
namespace {

// From `at` to the next Cause, workers of a process that run nothing are idle for this reason.
struct Cause {
  Nanoseconds at;
  Part part;
};

// A Sweep goes over intervals of one kind. It says whether any of them holds the present instant.
class Sweep {
 public:
  void add(Nanoseconds from, Nanoseconds to) {
    if (from >= to) return;
    starts_.push_back(from);
    ends_.push_back(to);
  }
  void sort() {
    std::ranges::sort(starts_);
    std::ranges::sort(ends_);
  }
  // Returns the next instant at which an interval begins or ends; `last` if there is none.
  Nanoseconds next(Nanoseconds last) const {
    if (end_ == ends_.size()) return last;
    return start_ < starts_.size() ? std::min(starts_[start_], ends_[end_]) : ends_[end_];
  }
  void advance(Nanoseconds to) {
    while (start_ < starts_.size() && starts_[start_] <= to) ++start_;
    while (end_ < ends_.size() && ends_[end_] <= to) ++end_;
  }
  bool any() const { return start_ > end_; }

 private:
  std::vector<Nanoseconds> starts_, ends_;
  std::size_t start_ = 0, end_ = 0;  // numbers of starts and ends that have passed
};

// Returns for every set in Trace::eligible whether the worker is in it.
std::vector<bool> may_run(const Trace& trace, std::uint32_t worker) {
  std::vector<bool> may;
  for (const std::vector<bool>& eligible : trace.eligible)
    may.push_back(worker < eligible.size() && eligible[worker]);
  return may;
}

std::vector<Cause> causes_of(const Trace& trace, std::int32_t rank, const std::vector<bool>& may,
                             Interval window) {
  Sweep ready, elsewhere, awaited, computing, blocked, starting, waiting;
  const std::array all{&ready, &elsewhere, &awaited, &computing, &blocked, &starting, &waiting};
  for (const Task& task : trace.tasks) {
    if (trace.workers[task.worker].rank != rank) continue;
    const bool own = task.eligible < 0 || may[task.eligible];
    (own ? ready : elsewhere).add(task.times.ready, task.times.pop_start);
    blocked.add(task.times.submitted, task.times.ready);
    computing.add(task.times.start, task.times.end);
  }
  for (const trace::Transfer& each : trace.transfers)
    if (each.rank == rank && each.from_rank >= 0) awaited.add(each.from, each.to);
  for (const trace::Wait& wait : trace.waits)
    if (wait.rank == rank) waiting.add(wait.from, wait.to);
  // The time before training, in which peaks are measured, ranks connected and files opened, is
  // start_up.
  std::optional<Nanoseconds> begun;
  for (const trace::IterationStart& iteration : trace.iterations)
    if (iteration.rank == rank) begun = std::min(begun.value_or(iteration.at), iteration.at);
  starting.add(trace.begin, begun.value_or(trace.begin));
  for (Sweep* sweep : all) sweep->sort();

  std::vector<Cause> causes;
  const Nanoseconds last = window.to;
  for (Nanoseconds now = window.from; now < last;) {
    for (Sweep* sweep : all) sweep->advance(now);
    const Part part = ready.any()                         ? Part::scheduling
                      : elsewhere.any()                   ? Part::other_workers
                      : starting.any() && !blocked.any()  ? Part::start_up
                      : awaited.any() && !computing.any() ? Part::other_nodes
                      : blocked.any()                     ? Part::nothing_ready
                      : waiting.any()                     ? Part::barrier
                                                          : Part::submission_late;
    if (causes.empty() || causes.back().part != part) causes.push_back({now, part});
    now = last;
    for (const Sweep* sweep : all) now = std::min(now, sweep->next(last));
  }
  return causes;
}

void split_gap(const std::vector<Cause>& causes, Nanoseconds from, Nanoseconds to,
               WorkerTime& time) {
  auto next = std::upper_bound(causes.begin(), causes.end(), from,
                               [](Nanoseconds at, const Cause& cause) { return at < cause.at; });
  while (from < to) {
    const Nanoseconds until = next == causes.end() ? to : std::min(to, next->at);
    time.parts[static_cast<std::size_t>(std::prev(next)->part)] += until - from;
    from = until;
    if (next != causes.end()) ++next;
  }
}

WorkerTime split(const Trace& trace, std::uint32_t worker, std::span<const std::uint32_t> tasks,
                 const std::vector<Cause>& causes, Interval window) {
  WorkerTime time{.worker = worker, .parts = {}, .tasks = 0};
  for (const std::uint32_t task : tasks)
    if (trace.tasks[task].times.end >= window.from && trace.tasks[task].times.end <= window.to)
      ++time.tasks;
  const auto part = [&time](Part which) -> Nanoseconds& {
    return time.parts[static_cast<std::size_t>(which)];
  };
  // Each set contains the one before, so the earlier part counts where tasks overlap.
  std::vector<Interval> intervals;
  const auto include = [&](auto from, auto to) {
    for (const std::uint32_t task : tasks) {
      const trace::TaskTimes& times = trace.tasks[task].times;
      intervals.push_back({std::clamp(times.*from, window.from, window.to),
                           std::clamp(times.*to, window.from, window.to)});
    }
    intervals = united(std::move(intervals));
    return length_of(intervals);
  };
  using trace::TaskTimes;
  const Nanoseconds compute = include(&TaskTimes::start, &TaskTimes::end);
  const Nanoseconds with_data = include(&TaskTimes::fetch_start, &TaskTimes::fetch_end);
  const Nanoseconds with_all = include(&TaskTimes::pop_start, &TaskTimes::released);
  part(Part::compute) = compute;
  part(Part::data) = with_data - compute;
  part(Part::scheduling) = with_all - with_data;

  Nanoseconds idle_from = window.from;
  for (const Interval& busy : intervals) {
    split_gap(causes, idle_from, busy.from, time);
    idle_from = busy.to;
  }
  split_gap(causes, idle_from, window.to, time);
  return time;
}

Idle analyse(const Trace& trace, Interval window) {
  Idle idle;
  idle.wall = static_cast<double>(window.to - window.from) * 1e-9;
  idle.workers.resize(trace.workers.size());
  std::vector<std::vector<std::uint32_t>> tasks(trace.workers.size());  // by worker
  for (std::uint32_t i = 0; i < trace.tasks.size(); ++i) tasks[trace.tasks[i].worker].push_back(i);
  for (const trace::Header& header : trace.headers) {
    std::map<std::vector<bool>, std::vector<Cause>>
        causes;  // by the sets of tasks that a worker may run
    for (std::uint32_t worker = 0; worker < trace.workers.size(); ++worker) {
      if (trace.workers[worker].rank != header.rank) continue;
      const std::vector<bool> may = may_run(trace, worker);
      const auto [found, added] = causes.try_emplace(may);
      if (added) found->second = causes_of(trace, header.rank, may, window);
      idle.workers[worker] = split(trace, worker, tasks[worker], found->second, window);
    }
  }
  for (const WorkerTime& worker : idle.workers)
    for (std::size_t part = 0; part < kPartCount; ++part)
      idle.total[part] += worker.seconds(static_cast<Part>(part));
  for (std::size_t part = 0; part < kPartCount; ++part)
    idle.share[part] =
        ratio(idle.total[part], idle.wall * static_cast<double>(idle.workers.size()));
  return idle;
}

}  // namespace

Idle analyse_idle(const Trace& trace) { return analyse(trace, {trace.begin, trace.end}); }

std::optional<Idle> analyse_idle(const Trace& trace, std::size_t skip) {
  if (skip == 0) return analyse_idle(trace);
  const std::vector<IterationTime> iterations = analyse_iterations(trace).times;
  if (iterations.size() <= skip) return std::nullopt;
  return analyse(trace, {iterations[skip - 1].half_done, iterations.back().half_done});
}

}  // namespace omni::perf
