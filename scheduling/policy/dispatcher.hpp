// Dispatcher makes the decisions of the policy: which kind of workers gets a ready task, and which
// task a worker takes. It is independent of StarPU, so that scheduling/forecast/ can simulate it.
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "scheduling/policy/backlog_forecast.hpp"
#include "scheduling/policy/placement.hpp"
#include "scheduling/policy/ready_queue.hpp"

namespace omni {

// A WorkerKind has all workers of one type and one memory, which are equal. They share one queue,
// so no worker is idle while another has a backlog, whatever the performance models predict.
template <class Task>
struct WorkerKind {
  unsigned type, node;
  std::vector<unsigned> workers{};
  ReadyQueue<Task> ready{};
  bool may_help = false;  // true: a task was given to another kind that this kind may finish first
  // `overhead` is the time that a task takes besides its length; on a GPU small tasks take longer
  // to start than to run. Only tasks that were taken before the previous one was done are measured.
  double overhead = 0;
  BacklogForecast backlog_forecast{};  // only used if there are several kinds
};

// `Facts` has these members, with all times in one unit:
//   double kMicrosecond, constant
//   int priority(Task), BacklogForecast::Sort sort(Task)
//   bool holds_shared(Task): as soon as it is ready, it holds data for which other tasks wait
//   bool runs(Task, unsigned worker)
//   bool is_for(Task, unsigned worker): false: it is bound to other workers, as those of a group
//   std::optional<double> length(Task, const Kind&): of the best implementation; NaN: not known
//     yet; nothing: none of these workers can run it
//   double guess(Task, const Kind&): a length without performance models
//   double transfer(Task, unsigned node): the time to bring its data to the node
//   double back(Task, unsigned node): the time to return updated data to where they were used last
//   void takes(Task, unsigned node): note that workers there use its data now
template <class Task, class Facts>
class Dispatcher {
 public:
  using Kind = WorkerKind<Task>;
  using Ready = ReadyTask<Task>;
  struct Place {
    Kind* kind;
    double length;
    Kind* helper = nullptr;  // another kind that may run the task; null: none
    bool returns = false;    // the data that the task updates are returned as soon as it is done
  };

  Dispatcher(Facts facts, double now) : facts_(std::move(facts)), start_(now) {}

  // has_choice() returns false if there is only one kind of workers. All tasks are then in its
  // queue.
  bool has_choice() const { return kinds_.size() > 1; }
  Place only_place() { return {&kinds_.front(), 0}; }

  void add_worker(unsigned worker, unsigned type, unsigned node) {
    auto kind = std::ranges::find_if(
        kinds_, [&](const Kind& each) { return each.type == type && each.node == node; });
    if (kind == kinds_.end()) kind = kinds_.insert(kind, Kind{.type = type, .node = node});
    workers_.try_emplace(worker, Worker{&*kind});
    if (!is_among(kind->workers, worker)) kind->workers.push_back(worker);
  }

  std::size_t worker_count() const {
    std::size_t count = 0;
    for (const Kind& kind : kinds_) count += kind.workers.size();
    return count;
  }

  // From now on only workers for which `stays` is true take tasks. Removes all ready tasks from the
  // queues and returns them. The caller must place them again, as some may wait for workers that
  // left.
  std::vector<Task> regroup(auto stays) {
    std::vector<Task> waiting;
    for (Kind& kind : kinds_) {
      kind.workers.clear();
      while (const auto ready = kind.ready.pop(-1, [](const Task&) { return true; }))
        waiting.push_back(ready->task);
    }
    for (auto& [number, worker] : workers_)
      if (stays(number)) worker.kind->workers.push_back(number);
    return waiting;
  }

  // Chooses the kind of workers when the task becomes ready, so that its data can be transferred
  // before it runs.
  Place place(const Task& task, double now) {
    if (!has_choice()) return only_place();
    std::vector<Candidate> candidates;
    std::vector<Kind*> kinds;
    for (Kind& kind : kinds_) {
      if (kind.workers.empty()) continue;  // all of them have left
      const auto length = facts_.length(task, kind);
      if (!length) continue;
      const double transfer = facts_.transfer(task, kind.node);
      // Workers that have its data run the task before less urgent ones. On other workers it would
      // displace other work, so there it waits as the least urgent task would.
      const int before = transfer > 0 ? kLeastPriority : facts_.priority(task);
      const double ready = wait_for(kind, task, before, now);
      // If other tasks wait for data that this task holds, it should start early. So the forecast
      // of later work does not count.
      const double wait = facts_.holds_shared(task)
                              ? ready
                              : kind.backlog_forecast.expected(facts_.sort(task), ready);
      candidates.push_back({.wait = wait,
                            .ready = ready,
                            .transfer = transfer,
                            .back = facts_.back(task, kind.node),
                            .length = *length,
                            .guess = facts_.guess(task, kind)});
      kinds.push_back(&kind);
    }
    if (kinds.empty())
      return only_place();  // no kind can run it now: it waits for a worker that can
    const std::size_t chosen = placement_.choose(with_overheads(candidates, kinds), now - start_);
    const Candidate& candidate = candidates[chosen];
    Place place{kinds[chosen], std::isnan(candidate.length) ? candidate.guess : candidate.length};
    place.returns = std::ranges::any_of(candidates, [&](const Candidate& other) {
      return other.back < candidate.back && is_back_before(candidate, other);
    });
    const double ready_work = wait_for(*place.kind, task, kLeastPriority, now);
    if (ready_work > 0) place.kind->backlog_forecast.note(facts_.sort(task), ready_work);
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (i == chosen || !kinds[i]->ready.empty() ||
          !pays_to_help(candidates[i], place.length, ready_work))
        continue;
      place.helper = kinds[i];
      place.helper->may_help = true;
    }
    return place;
  }

  void push(const Place& place, const Task& task, int made_ready_by) {
    place.kind->ready.push({task, made_ready_by, place.length}, facts_.priority(task));
  }

  std::optional<Ready> pop(unsigned worker, double now) {
    Worker& asking = workers_.at(worker);
    Kind& kind = *asking.kind;
    std::optional<Ready> ready;
    if (!is_among(kind.workers, worker)) return ready;  // it has left
    if (has_choice() && !kind.ready.empty()) ready = help(kind, worker, now, false);
    if (!ready) {
      ready = kind.ready.pop(static_cast<int>(worker),
                             [&](const Task& task) { return facts_.runs(task, worker); });
      if (!ready)
        kind.backlog_forecast.ran_empty();
      else if (has_choice())
        kind.backlog_forecast.began(facts_.sort(ready->task),
                                    ready->length / static_cast<double>(kind.workers.size()));
    }
    if (!ready && kind.may_help) ready = help(kind, worker, now, true);
    if (ready && has_choice()) {
      facts_.takes(ready->task, kind.node);
      asking.until = (asking.taken.empty() ? now : asking.until) + ready->length;
      asking.taken.push_back(ready->length);
    }
    return ready;
  }

  void finished(unsigned worker, double now) {
    Worker& done = workers_.at(worker);
    if (done.taken.empty()) return;  // StarPU gave it the task, not pop()
    if (done.in_a_row_since) {
      // The overhead approaches the median excess of tasks' times over their expected times. It
      // moves in small steps, so that rare delays, such as waiting for data, have no effect.
      constexpr double kStep = 0.1 * Facts::kMicrosecond;
      double& overhead = done.kind->overhead;
      const bool longer = now - *done.in_a_row_since > done.taken.front() + overhead;
      overhead = std::max(0.0, overhead + (longer ? kStep : -kStep));
    }
    done.taken.pop_front();
    done.in_a_row_since.reset();
    if (!done.taken.empty()) done.in_a_row_since = now;
  }

 private:
  static constexpr int kLeastPriority = std::numeric_limits<int>::min();

  struct Worker {
    Kind* kind;
    // `taken` has the lengths of tasks that were taken and are not finished. A GPU worker takes its
    // next task early.
    std::deque<double> taken{};
    double until = 0;                        // when these tasks are expected to be done
    std::optional<double> in_a_row_since{};  // when a task was done and the next was already taken
  };

  static bool is_among(const std::vector<unsigned>& workers, unsigned worker) {
    return std::ranges::find(workers, worker) != workers.end();
  }

  // Adds the overhead of a kind to the length of a task if another kind finishes it within that
  // overhead. It is not added to longer tasks, as cores would get more tasks at which they are
  // slow.
  static std::vector<Candidate> with_overheads(std::vector<Candidate> candidates,
                                               const std::vector<Kind*>& kinds) {
    std::vector<double> lengths;
    for (const Candidate& each : candidates) lengths.push_back(each.length);
    for (std::size_t i = 0; i < kinds.size(); ++i)
      for (std::size_t other = 0; other < kinds.size(); ++other)
        if (other != i && lengths[other] < kinds[i]->overhead)
          candidates[i].length = lengths[i] + kinds[i]->overhead;
    return candidates;
  }

  // Returns the time until a worker of this kind is free for the task, if the task had this
  // priority. Ready work is assumed to be spread evenly over the workers of all groups.
  double wait_for(const Kind& kind, const Task& task, int priority, double now) const {
    double left = 0;
    std::size_t able = 0;
    bool one_is_free = false;
    for (const unsigned number : kind.workers) {
      if (!facts_.is_for(task, number)) continue;
      ++able;
      const Worker& worker = workers_.at(number);
      if (!worker.taken.empty()) left += std::max(0.0, worker.until - now);
      one_is_free = one_is_free || worker.taken.empty();
    }
    // A worker is free, so any tasks in the queue are for other groups, and the task need not wait.
    if (one_is_free && (kind.ready.empty() || able < kind.workers.size())) return 0;
    return left / static_cast<double>(able) +
           kind.ready.length_before(priority) / static_cast<double>(kind.workers.size());
  }

  // Returns whether workers of another kind, `helper`, may run a task of a busy kind. They must
  // fetch its data, run it and return the data before `done_there`. The transfer must not take
  // longer than the task would take on the busy kind, or the links become the bottleneck.
  static bool pays_to_help(const Candidate& helper, double length_there, double done_there) {
    return helper.transfer <= length_there && 2 * helper.transfer + helper.length < done_there;
  }

  // Takes a task of another kind of workers that this kind would finish first. If its own kind has
  // no task for the worker (`idle`), the task that the other kind would run last is preferred.
  // Otherwise the task must be more urgent than all tasks that wait for its own kind.
  std::optional<Ready> help(Kind& own, unsigned worker, double now, bool idle) {
    for (Kind& busy : kinds_) {
      if (&busy == &own || busy.ready.empty()) continue;
      double length = 0;
      const auto runs = [&](const Task& task) { return facts_.runs(task, worker); };
      const auto pays = [&](const Task& task) {
        length = facts_.length(task, own).value_or(std::nan(""));
        const double there = facts_.length(task, busy).value_or(std::nan(""));
        const double done = idle ? wait_for(busy, task, kLeastPriority, now)
                                 : wait_for(busy, task, facts_.priority(task), now) + there;
        return pays_to_help({.transfer = facts_.transfer(task, own.node), .length = length}, there,
                            done);
      };
      auto ready = idle ? busy.ready.pop_last(runs, pays)
                        : busy.ready.pop_above(own.ready.highest_priority(), runs, pays);
      if (!ready) continue;
      ready->length = length;
      return ready;
    }
    if (idle) own.may_help = false;
    return std::nullopt;
  }

  Facts facts_;
  double start_;
  std::deque<Kind> kinds_;
  std::map<unsigned, Worker> workers_;
  Placement placement_;
};

}  // namespace omni
