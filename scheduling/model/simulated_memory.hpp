// Where data are in simulated time, and how long they travel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "runtime/tasks/models/machine_model.hpp"
#include "scheduling/model/simulated_clock.hpp"

namespace omni {

class SimulatedMemory {
 public:
  SimulatedMemory(SimulatedClock& clock, const MachineModel& machine)
      : clock_(clock), links_(machine.links) {}

  // A datum that lies in the first memory, like all that StarPU is told about.
  std::size_t add(std::size_t bytes);
  double transfer_seconds(std::size_t datum, unsigned memory) const;  // if nothing else travels
  // `arrived` may be empty: nobody waits for it yet.
  void fetch(std::size_t datum, unsigned memory, int priority, std::function<void()> arrived);
  bool is_in(std::size_t datum, unsigned memory) const {
    return (data_[datum].valid >> memory & 1u) != 0;
  }
  void written(std::size_t datum, unsigned memory) { data_[datum].valid = 1u << memory; }

 private:
  struct Datum {
    double bytes;
    std::uint32_t valid = 1;  // by memory
  };
  struct Transfer {
    std::size_t datum;
    unsigned from, to;
    int priority;
    std::uint64_t number;  // in order of requests
    bool awaited, under_way;
    std::vector<std::function<void()>> arrived;
  };
  unsigned source_of(std::size_t datum, unsigned memory) const;
  double seconds(std::size_t datum, unsigned from, unsigned to) const;
  using Link = std::vector<Transfer>;  // that are not done
  Link& link(unsigned from, unsigned to) { return links_under_way_[{from, to}]; }
  void start_next(Link& link);
  void finish(Link& link, std::uint64_t number);

  SimulatedClock& clock_;
  const std::vector<std::vector<MachineModel::Link>>& links_;
  std::vector<Datum> data_;
  std::map<std::pair<unsigned, unsigned>, Link> links_under_way_;  // from, to
  std::uint64_t count_ = 0;
};

}  // namespace omni
