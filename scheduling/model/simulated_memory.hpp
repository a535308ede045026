// Simulated locations and transfers of data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
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
  std::size_t add(std::size_t bytes);
  // As the policy estimates it: data under way count as arrived, and links are free.
  double transfer_seconds(std::size_t datum, unsigned memory) const;
  double seconds(std::size_t datum, unsigned from, unsigned to) const;  // if nothing else travels
  // The memory that the last used() of this datum named.
  std::optional<unsigned> last_user(std::size_t datum) const { return data_[datum].user; }
  void used(std::size_t datum, unsigned memory) { data_[datum].user = memory; }
  // `arrived` may be empty: nobody waits for it yet.
  void fetch(std::size_t datum, unsigned memory, int priority, std::function<void()> arrived);
  void written(std::size_t datum, unsigned memory) { data_[datum].valid = 1u << memory; }

 private:
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
  unsigned source_of(std::size_t datum, unsigned memory) const;
  static bool exclude(const Transfer& one, const Transfer& other);
  static unsigned driver_of(const Transfer& transfer);
  void start_next(unsigned driver);
  void start(Transfer& transfer);
  void travel(Transfer& transfer);
  void finish(Transfer& transfer);

  SimulatedClock& clock_;
  const std::vector<std::vector<MachineModel::Link>>& links_;
  std::vector<Datum> data_;
  std::list<Transfer> transfers_;  // that are not done
  std::vector<bool> driver_is_busy_;
  std::uint64_t count_ = 0;
};

}  // namespace omni
