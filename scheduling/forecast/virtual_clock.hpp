// Simulated time: which compute group finishes next on the machine of a machine file, and when.
// Devices, the links of their places in either direction, and the server of merged layers are busy;
// mini-batches demand them and wait. Times are whole multiples of 2^-30 s, which sums keep exactly:
// the same on every machine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/rng.hpp"
#include "scheduling/forecast/demands.hpp"
#include "scheduling/forecast/shared_links.hpp"
#include "scheduling/strategies/sends.hpp"

namespace omni {

class VirtualClock {
 public:
  // For a checkpoint. The numbers are what is under way.
  struct State {
    double now = 0;  // s
    std::vector<double> numbers{};
    std::vector<std::uint64_t> draws{};  // made, by device
    bool operator==(const State&) const = default;
  };

  VirtualClock(Machine machine, GroupDevices placement, const NetCosts& costs, std::uint64_t seed);

  // Starts a mini-batch of an idle group, once what it waits for has arrived.
  void begin(int group, std::uint64_t samples, Sends sends);
  // The group whose update is done next; of several at once the lowest. now() becomes that time.
  // Requires a running group.
  int next();
  // All models travel, while all groups are idle.
  void meet();
  // Abandons running mini-batches.
  void give_up();

  bool under_way(int group) const { return groups_[group].stage != Stage::idle; }
  double now() const { return now_; }  // simulated s since the training began

  const std::string& machine() const { return machine_.name; }
  const GroupDevices& placement() const { return placement_; }
  const Demands& demands() const { return demands_; }
  // How the group's devices divide a mini-batch.
  const Division& division(int group, std::uint64_t samples);
  State state() const;
  // False: not a state of so many groups on such a machine; nothing has changed.
  bool restore(const State& state);
  // Goes on from a state of its own, with the time and the draws of another clock.
  void restart(const State& state, const State& other) {
    if (!restore(state)) return;
    now_ = std::max(now_, other.now);
    if (other.draws.size() == draws_.size()) draws_ = other.draws;
  }

  // Seconds that the busiest of its kind was busy.
  struct Busy {
    double devices = 0, links = 0, server = 0;
  };
  Busy busy() const;

 private:
  enum class Stage { idle, awaits_values, forward, to_server, served, from_server, backward };
  // Merged layers go first on a device that serves them beside its own groups.
  struct Device {
    double served_until = 0;
    double served = 0;  // s, by which its groups are delayed
    double busy = 0;
  };
  struct Computing {
    double end;
    std::size_t device;
    double served;  // by the device, when the end was computed
  };
  struct Wait {
    int messages = 0;  // that are under way
    double until = 0;
    void extend(double time) { until = std::max(until, time); }
  };
  struct Group {
    Stage stage = Stage::idle;
    Sends sends = Sends::nothing;
    std::uint64_t samples = 0;
    bool contributed = false;
    bool meets = false;             // what it sent last, and the values for it, are of a meeting
    std::vector<double> lengths{};  // s of computing, by device; 0: it has no part in it
    std::vector<Computing> computing{};
    Wait stage_wait{};
    Wait values{};         // for the next mini-batch
    double values_at = 0;  // when the first of these leave their owners; 0: no more do
    bool is_complete(double now) const;  // the stage
    double at() const;                   // its next event, but for messages
  };

  bool has_link(std::size_t place) const {
    return demands_.places.count > 1 && !(demands_.places.has_cores && place == 0);
  }
  double draw(std::size_t device);  // of its law, around 1
  double merged_share(std::size_t device) const {
    return machine_.devices[device].merged_share.value_or(costs_.merged_share);
  }
  void send(int group, std::size_t place, bool in, double bytes, bool for_later = false);
  void compute(int group, bool backward);
  void cross(int group, bool back);
  void exchange(int group, bool back, bool for_later);
  void expect_values(int group);
  bool go_on(int group);  // true: the update is done
  template <class Archive>
  void visit(Archive& archive);

  Machine machine_;
  GroupDevices placement_;
  NetCosts costs_;
  Demands demands_;
  Philox random_;
  std::vector<double> slowdown_;                              // by device, of the groups on it
  std::vector<double> sharers_;                               // groups, by place
  std::vector<std::map<std::uint64_t, Division>> divisions_;  // by group and samples
  double piece_seconds_ = 0;  // until the first piece of parameters has arrived
  double now_ = 0;
  std::vector<Device> devices_;
  SharedLinks links_;  // out and in of each place
  std::vector<Group> groups_;
  std::vector<std::uint64_t> draws_;
};

}  // namespace omni
