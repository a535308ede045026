// This file simulates which memories hold the data, how data are transferred, and which tasks
// depend on each other through data.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/tasks/models/machine_model.hpp"
#include "scheduling/forecast/group_simulation.hpp"

namespace omni {

// A SimulatedClock runs simulated events in the order of their times.
class SimulatedClock {
 public:
  double now() const { return now_; }  // s
  void at(double time, std::function<void()> happens) {
    events_.emplace(std::pair{time, count_++}, std::move(happens));
  }
  // Runs the next event. Returns false if none is left.
  bool step() {
    if (events_.empty()) return false;
    auto next = events_.extract(events_.begin());
    now_ = next.key().first;
    next.mapped()();
    return true;
  }

 private:
  std::map<std::pair<double, std::uint64_t>, std::function<void()>> events_;
  std::uint64_t count_ = 0;
  double now_ = 0;
};

class SimulatedMemory {
 public:
  SimulatedMemory(SimulatedClock& clock, const MachineModel& machine)
      : clock_(clock), links_(machine.links), driver_is_busy_(links_.size()) {}

  // Adds a datum to the first memory, where StarPU has all data that is registered with it.
  std::size_t add(std::size_t bytes) {
    data_.push_back({.bytes = static_cast<double>(bytes)});
    return data_.size() - 1;
  }
  // Returns the policy's estimate of a transfer's time. The policy counts data under way as
  // arrived, and links as free.
  double transfer_seconds(std::size_t datum, unsigned memory) const {
    const std::uint32_t there = data_[datum].valid | data_[datum].on_its_way;
    if ((there >> memory & 1u) != 0) return 0;
    return seconds(datum, static_cast<unsigned>(std::countr_zero(there)), memory);
  }
  // Returns the seconds of a transfer if the links are free.
  double seconds(std::size_t datum, unsigned from, unsigned to) const {
    const MachineModel::Link& link = links_[from][to];
    return link.latency + data_[datum].bytes * link.seconds_per_byte;
  }
  // Returns the memory in which the datum was last used, as used() noted it.
  std::optional<unsigned> last_user(std::size_t datum) const { return data_[datum].user; }
  void used(std::size_t datum, unsigned memory) { data_[datum].user = memory; }

  // Transfers the datum to `memory`, then calls `arrived`. `arrived` may be empty if no task waits
  // for the datum yet.
  void fetch(std::size_t datum, unsigned memory, int priority, std::function<void()> arrived) {
    if (is_in(datum, memory)) {
      if (arrived) arrived();
      return;
    }
    auto transfer = std::ranges::find_if(
        transfers_, [&](const Transfer& each) { return each.datum == datum && each.to == memory; });
    if (transfer == transfers_.end()) {
      data_[datum].on_its_way |= 1u << memory;
      transfer = transfers_.insert(transfers_.end(), {.datum = datum,
                                                      .from = source_of(datum, memory),
                                                      .to = memory,
                                                      .priority = priority,
                                                      .number = count_++});
    }
    transfer->priority = std::max(transfer->priority, priority);
    if (arrived) {
      transfer->awaited = true;
      transfer->arrived.push_back(std::move(arrived));
    }
    start_next(driver_of(*transfer));
  }

  void written(std::size_t datum, unsigned memory) { data_[datum].valid = 1u << memory; }

 private:
  // A GPU's driver needs this time, in seconds, to start a transfer. StarPU's own simulation uses
  // the same value.
  static constexpr double kToStart = 10e-6;
  struct Datum {
    double bytes;
    std::uint32_t valid = 1, on_its_way = 0;  // a bit for each memory
    std::optional<unsigned> user{};
  };
  struct Transfer {
    std::size_t datum;
    unsigned from, to;
    int priority;
    std::uint64_t number;  // numbered in the order of requests
    bool awaited = false;
    enum class State { requested, being_started, started } state = State::requested;
    int waits_for = 0;                // number of transfers that must end before this one starts
    std::vector<Transfer*> before{};  // transfers that wait for this one
    std::vector<std::function<void()>> arrived{};
  };
  bool is_in(std::size_t datum, unsigned memory) const {
    return (data_[datum].valid >> memory & 1u) != 0;
  }

  // Returns the nearest memory that has the datum, as StarPU chooses it.
  unsigned source_of(std::size_t datum, unsigned memory) const {
    unsigned best = memory;
    for (unsigned from = 0; from < links_.size(); ++from)
      if (is_in(datum, from) &&
          (best == memory || seconds(datum, from, memory) < seconds(datum, best, memory)))
        best = from;
    return best;
  }

  // Returns whether two transfers cannot overlap, as StarPU does on GPUs. They cannot if both go
  // from the same memory to the same other one. A transfer between two GPUs also excludes other
  // transfers to either of them.
  static bool exclude(const Transfer& one, const Transfer& other) {
    const auto between_gpus = [](const Transfer& each) { return each.from != 0 && each.to != 0; };
    const auto reaches = [](const Transfer& each, const Transfer& end) {
      return each.to == end.from || each.to == end.to;
    };
    return (one.from == other.from && one.to == other.to) ||
           (between_gpus(one) && reaches(other, one)) ||
           (between_gpus(other) && reaches(one, other));
  }

  // Returns the GPU whose driver thread starts the transfer. A GPU's driver starts the transfers to
  // it, and those from it to the first memory.
  static unsigned driver_of(const Transfer& transfer) {
    return transfer.to != 0 ? transfer.to : transfer.from;
  }

  // Starts the next transfer of the driver. Transfers for which a task waits come first.
  void start_next(unsigned driver) {
    if (driver_is_busy_[driver]) return;
    Transfer* next = nullptr;
    const auto rank = [](const Transfer& each) {
      return std::tuple(!each.awaited, -each.priority, each.number);
    };
    for (Transfer& each : transfers_)
      if (each.state == Transfer::State::requested && driver_of(each) == driver &&
          (next == nullptr || rank(each) < rank(*next)))
        next = &each;
    if (next == nullptr) return;
    driver_is_busy_[driver] = true;
    next->state = Transfer::State::being_started;
    clock_.at(clock_.now() + kToStart, [this, driver, next] {
      driver_is_busy_[driver] = false;
      start(*next);
      start_next(driver);
    });
  }

  void start(Transfer& transfer) {
    for (Transfer& other : transfers_)
      if (other.state == Transfer::State::started && exclude(transfer, other)) {
        other.before.push_back(&transfer);
        ++transfer.waits_for;
      }
    transfer.state = Transfer::State::started;
    if (transfer.waits_for == 0) travel(transfer);
  }

  void travel(Transfer& transfer) {
    clock_.at(clock_.now() + seconds(transfer.datum, transfer.from, transfer.to),
              [this, &transfer] { finish(transfer); });
  }

  void finish(Transfer& transfer) {
    const std::uint32_t there = 1u << transfer.to;
    data_[transfer.datum].valid |= there;
    data_[transfer.datum].on_its_way &= ~there;
    for (Transfer* next : transfer.before)
      if (--next->waits_for == 0) travel(*next);
    const auto arrived = std::move(transfer.arrived);
    transfers_.remove_if([&](const Transfer& each) { return &each == &transfer; });
    for (const auto& tell : arrived) tell();
  }

  SimulatedClock& clock_;
  const std::vector<std::vector<MachineModel::Link>>& links_;
  std::vector<Datum> data_;
  std::list<Transfer> transfers_;  // transfers that are not done
  std::vector<bool> driver_is_busy_;
  std::uint64_t count_ = 0;
};

inline constexpr int kNoGroup = -1, kNoWorker = -1;

struct SimulatedTask {
  const IterationTask* task;
  int group, iteration;  // kNoGroup: ahead of all groups
  struct Use {
    std::size_t datum;
    AccessMode mode;
  };
  std::vector<Use> uses{};
  int waits_for = 0;
  std::size_t acquired = 0;  // number of its uses, in order, whose data it need not wait for
  bool done = false;
  std::vector<int> successors{};
};

// SimulatedTasks follows StarPU's rules for tasks that use the same data, in submission order.
class SimulatedTasks {
 public:
  // `ready` is called with the task and the worker that made it ready.
  using Ready = std::function<void(int task, int worker)>;
  // `in_turn` means that updates reach the masters in the order of their submission; otherwise they
  // do so as they arrive.
  SimulatedTasks(SimulatedMemory& memory, bool in_turn, Ready ready)
      : memory_(memory), in_turn_(in_turn), ready_(std::move(ready)) {}

  void submit(const IterationTask& task, int group, int iteration) {
    const int id = static_cast<int>(tasks_.size());
    tasks_.push_back({.task = &task, .group = group, .iteration = iteration});
    for (const IterationTask::Use& use : task.uses) {
      at(id).uses.push_back({datum_of(use, group, iteration), mode_of(task, use)});
      order(id, at(id).uses.back());
    }
    if (at(id).waits_for == 0) acquire(id, kNoWorker);
  }

  void done(int id, int worker) {
    at(id).done = true;
    for (const SimulatedTask::Use& use : at(id).uses)
      if (use.mode == AccessMode::accumulate) release(use.datum, worker);
    for (const int next : at(id).successors)
      if (--at(next).waits_for == 0) acquire(next, worker);
  }

  const SimulatedTask& operator[](int task) const { return tasks_[task]; }

 private:
  // A Datum knows the tasks that last used it. As in StarPU, the next task that uses it depends on
  // them.
  struct Datum {
    std::vector<int> writers{};  // one task, or several that accumulate
    std::vector<int> readers{};  // tasks that have read since the last write
    bool accumulating = false;
    std::vector<int> before{};  // the tasks for which the accumulating ones waited
    int holder = -1;            // the task that holds the datum to accumulate; -1: none
    std::vector<int> want_to_hold{};
  };

  AccessMode mode_of(const IterationTask& task, const IterationTask::Use& use) const {
    const bool of_a_master = task.update && !task.any_worker &&
                             use.owner == IterationTask::Owner::all &&
                             use.mode == AccessMode::read_write;
    return of_a_master && !in_turn_ ? AccessMode::accumulate : use.mode;
  }

  std::size_t datum_of(const IterationTask::Use& use, int group, int iteration) {
    using Owner = IterationTask::Owner;
    const int owner = use.owner == Owner::all     ? kNoGroup
                      : use.owner == Owner::group ? group
                                                  : iteration;
    const auto [place, is_new] = places_.try_emplace({use.data, use.owner, owner}, data_.size());
    if (is_new) {
      memory_.add(use.bytes);
      data_.emplace_back();
    }
    return place->second;
  }

  void order(int id, const SimulatedTask::Use& use) {
    Datum& datum = data_[use.datum];
    switch (use.mode) {
      case AccessMode::read:
        wait_for(id, datum.writers);
        datum.readers.push_back(id);
        break;
      case AccessMode::accumulate:
        if (!datum.accumulating || !datum.readers.empty()) {
          datum.before = datum.readers.empty() ? datum.writers : datum.readers;
          datum.writers.clear();
          datum.readers.clear();
          datum.accumulating = true;
        }
        wait_for(id, datum.before);
        datum.writers.push_back(id);
        break;
      case AccessMode::write:
      case AccessMode::read_write:
        wait_for(id, datum.writers);
        wait_for(id, datum.readers);
        datum.writers = {id};
        datum.readers.clear();
        datum.accumulating = false;
        break;
    }
  }

  void wait_for(int id, const std::vector<int>& others) {
    for (const int other : others) {
      if (other == id || at(other).done) continue;
      at(other).successors.push_back(id);
      ++at(id).waits_for;
    }
  }

  // Gets the data into which the task accumulates. The task holds them from before it is ready
  // until it is done.
  void acquire(int id, int worker) {
    SimulatedTask& task = at(id);
    for (; task.acquired < task.uses.size(); ++task.acquired) {
      if (task.uses[task.acquired].mode != AccessMode::accumulate) continue;
      Datum& datum = data_[task.uses[task.acquired].datum];
      if (datum.holder >= 0 && datum.holder != id) {
        datum.want_to_hold.push_back(id);
        return;
      }
      datum.holder = id;
    }
    ready_(id, worker);
  }

  // Gives the datum to the most urgent waiting task; if several are equal, to the one that asked
  // first.
  void release(std::size_t number, int worker) {
    data_[number].holder = -1;
    std::vector<int>& waiting = data_[number].want_to_hold;
    const auto next =
        std::ranges::max_element(waiting, {}, [this](int id) { return at(id).task->priority; });
    if (next == waiting.end()) return;
    const int id = *next;
    waiting.erase(next);
    acquire(id, worker);
  }

  SimulatedTask& at(int id) { return tasks_[id]; }

  SimulatedMemory& memory_;
  bool in_turn_;
  Ready ready_;
  std::deque<SimulatedTask> tasks_;
  std::vector<Datum> data_;  // in the order of memory_
  std::map<std::tuple<std::uint32_t, IterationTask::Owner, int>, std::size_t> places_;
};

}  // namespace omni
