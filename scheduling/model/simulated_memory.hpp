// Simulated locations and transfers of data.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/tasks/models/machine_model.hpp"

namespace omni {

// The queue of simulated events.
class SimulatedClock {
 public:
  double now() const { return now_; }  // s
  void at(double time, std::function<void()> happens) {
    events_.emplace(std::pair{time, count_++}, std::move(happens));
  }
  // Runs the next event; false: none is left.
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

  // A datum that lies in the first memory, like all that StarPU is told about.
  std::size_t add(std::size_t bytes) {
    data_.push_back({.bytes = static_cast<double>(bytes)});
    return data_.size() - 1;
  }
  // As the policy estimates it: data under way count as arrived, and links are free.
  double transfer_seconds(std::size_t datum, unsigned memory) const {
    const std::uint32_t there = data_[datum].valid | data_[datum].on_its_way;
    if ((there >> memory & 1u) != 0) return 0;
    return seconds(datum, static_cast<unsigned>(std::countr_zero(there)), memory);
  }
  // If nothing else travels.
  double seconds(std::size_t datum, unsigned from, unsigned to) const {
    const MachineModel::Link& link = links_[from][to];
    return link.latency + data_[datum].bytes * link.seconds_per_byte;
  }
  // The memory that the last used() of this datum named.
  std::optional<unsigned> last_user(std::size_t datum) const { return data_[datum].user; }
  void used(std::size_t datum, unsigned memory) { data_[datum].user = memory; }

  // `arrived` may be empty: nobody waits for it yet.
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
  // What a GPU's driver needs to start a transfer, s; StarPU's simulation supposes the same.
  static constexpr double kToStart = 10e-6;
  struct Datum {
    double bytes;
    std::uint32_t valid = 1, on_its_way = 0;  // by memory
    std::optional<unsigned> user{};
  };
  struct Transfer {
    std::size_t datum;
    unsigned from, to;
    int priority;
    std::uint64_t number;  // in order of requests
    bool awaited = false;
    enum class State { requested, being_started, started } state = State::requested;
    int waits_for = 0;                // others that were started before
    std::vector<Transfer*> before{};  // that wait for this one
    std::vector<std::function<void()>> arrived{};
  };
  bool is_in(std::size_t datum, unsigned memory) const {
    return (data_[datum].valid >> memory & 1u) != 0;
  }

  // The nearest, as StarPU chooses it.
  unsigned source_of(std::size_t datum, unsigned memory) const {
    unsigned best = memory;
    for (unsigned from = 0; from < links_.size(); ++from)
      if (is_in(datum, from) &&
          (best == memory || seconds(datum, from, memory) < seconds(datum, best, memory)))
        best = from;
    return best;
  }

  // Who must pass one after the other, as StarPU has observed it on GPUs: what goes the same way or
  // there and back, and what reaches an end of a transfer between two of them.
  static bool exclude(const Transfer& one, const Transfer& other) {
    const auto between_gpus = [](const Transfer& each) { return each.from != 0 && each.to != 0; };
    const auto reaches = [](const Transfer& each, const Transfer& end) {
      return each.to == end.from || each.to == end.to;
    };
    return (one.from == other.from && one.to == other.to) ||
           (between_gpus(one) && reaches(other, one)) ||
           (between_gpus(other) && reaches(one, other));
  }

  // The thread that drives a GPU starts the transfers to it, and those from it to the first memory.
  static unsigned driver_of(const Transfer& transfer) {
    return transfer.to != 0 ? transfer.to : transfer.from;
  }

  // First what a task waits for.
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
  std::list<Transfer> transfers_;  // that are not done
  std::vector<bool> driver_is_busy_;
  std::uint64_t count_ = 0;
};

}  // namespace omni
