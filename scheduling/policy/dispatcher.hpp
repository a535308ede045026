// The decisions of the policy: which kind of workers gets a ready task, and which task a worker
// takes. Independent of StarPU, so that scheduling/forecast/ can simulate it.
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

// Equal workers: of one type, with one memory. They share one queue, so none idles while another
// has a backlog, whatever the performance models predict.
template <class Task>
struct WorkerKind {
  unsigned type, node;
  std::vector<unsigned> workers{};
  ReadyQueue<Task> ready{};
  bool may_help = false;  // another kind has got a task that these would have finished first
  // Overhead of a task beside its length: on a GPU small tasks take longer to hand out than to run.
  // Measured when a worker takes its next task before the current one is done.
  double overhead = 0;
  BacklogForecast backlog_forecast{};  // only where there are several kinds
};

// `Facts` answers what is asked about tasks, all times in one unit:
//   double kMicrosecond, constant
//   int priority(Task), BacklogForecast::Sort sort(Task)
//   bool holds_shared(Task): others wait for data that it holds from the time it is ready
//   bool runs(Task, unsigned worker)
//   bool is_for(Task, unsigned worker): not bound to others, as those of other groups are
//   std::optional<double> length(Task, const Kind&): of the best implementation; NaN: not known
//     yet; nothing: none of these workers can run it
//   double guess(Task, const Kind&): in its place
//   double transfer(Task, unsigned node): to bring its data there
//   double back(Task, unsigned node): to return its updated data to where they were used last
//   void takes(Task, unsigned node): note that workers there use its data now
template <class Task, class Facts>
class Dispatcher {
 public:
  using Kind = WorkerKind<Task>;
  using Ready = ReadyTask<Task>;
  struct Place {
    Kind* kind;
    double length;
    Kind* helper = nullptr;  // may take the task over
    bool returns = false;    // what it updates is brought back as soon as it is done
  };

  Dispatcher(Facts facts, double now) : facts_(std::move(facts)), start_(now) {}

  // No place while there is no other kind: everything is in one queue.
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

  // From now on only workers for which `stays` is true take tasks. Returns all ready tasks, to be
  // placed anew: they may wait for workers that take none any more.
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

  // Where several kinds of workers are, it is decided when the task gets ready, so that its data
  // can travel while it waits.
  Place place(const Task& task, double now) {
    if (!has_choice()) return only_place();
    std::vector<Candidate> candidates;
    std::vector<Kind*> kinds;
    for (Kind& kind : kinds_) {
      if (kind.workers.empty()) continue;  // all of them have left
      const auto length = facts_.length(task, kind);
      if (!length) continue;
      const double transfer = facts_.transfer(task, kind.node);
      // Beside its data it runs before less urgent tasks; elsewhere it displaces other work.
      const int before = transfer > 0 ? kLeastPriority : facts_.priority(task);
      const double ready = wait_for(kind, task, before, now);
      // Nothing may delay what holds data that others wait for.
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
    if (done.taken.empty()) return;  // a task bound to this worker never was in the queue
    if (done.in_a_row_since) {
      // The median excess of tasks' times over their expected times, found in small steps, so that
      // rare delays, such as waiting for data, have no effect.
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
    // Lengths of those taken and not finished; StarPU lets one of a GPU take the next task early.
    std::deque<double> taken{};
    double until = 0;                        // when they are expected to be done
    std::optional<double> in_a_row_since{};  // when one was done and the next one taken already
  };

  static bool is_among(const std::vector<unsigned>& workers, unsigned worker) {
    return std::ranges::find(workers, worker) != workers.end();
  }

  // A task that others do sooner than these are given one is no task for these. Of longer ones it
  // is left out: cores would be given more of what they are slow at.
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

  // Time until a worker of this kind is free for this task, if it had this priority. The ready work
  // is supposed to be spread evenly over all groups' workers.
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
    // One that is free has found nothing of what is ready to be for it.
    if (one_is_free && (kind.ready.empty() || able < kind.workers.size())) return 0;
    return left / static_cast<double>(able) +
           kind.ready.length_before(priority) / static_cast<double>(kind.workers.size());
  }

  // Others may run a task of a busy kind of workers, when they have fetched its data, run it and
  // brought the data back before that kind would be done with it. The transfer must not take longer
  // than the task would take there: else the links become the bottleneck.
  static bool pays_to_help(const Candidate& helper, double length_there, double done_there) {
    return helper.transfer <= length_there && 2 * helper.transfer + helper.length < done_there;
  }

  // A task of another kind of workers that this one will have finished before. An idle worker takes
  // the one that the others would run last, after all that is ready; a busy one only what is more
  // urgent than all that waits for its own kind.
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
