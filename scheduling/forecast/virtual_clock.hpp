// VirtualClock simulates which compute group finishes next, and when, on a Machine. Groups that
// share a device slow each other down. Mini-batches wait for links in either direction, and for the
// server of merged layers. Times are multiples of 2^-30 s, which are added exactly, so results are
// equal on every machine, except for rare random draws (Machine::Device::variation()).
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
  // A State is the state of the clock that a checkpoint keeps. `numbers` describes the mini-batches
  // and messages under way.
  struct State {
    double now = 0;  // s
    std::vector<double> numbers{};
    std::vector<std::uint64_t> draws{};  // by device: how many random numbers were drawn
    bool operator==(const State&) const = default;
  };

  VirtualClock(Machine machine, GroupDevices placement, const NetCosts& costs, std::uint64_t seed);

  // Starts a mini-batch of an idle group. Its computation begins once the parameter values it waits
  // for have arrived.
  void begin(int group, std::uint64_t samples, Sends sends);
  // Returns the group whose update is done next; if several are done at once, the lowest number.
  // now() becomes that time. A group must be running.
  int next();
  // Simulates a meeting of idle groups, in which all groups send their models.
  void meet();
  // Drops running mini-batches and messages under way.
  void give_up();

  bool under_way(int group) const { return groups_[group].stage != Stage::idle; }
  double now() const { return now_; }  // simulated s since this clock began

  const std::string& machine() const { return machine_.name; }
  const GroupDevices& placement() const { return placement_; }
  const Demands& demands() const { return demands_; }
  // Returns how the group's devices divide a mini-batch of `samples` samples.
  const Division& division(int group, std::uint64_t samples);
  State state() const;
  // Restores a saved state. Returns false, and changes nothing, if the state does not fit the
  // groups and the machine.
  bool restore(const State& state);
  // Restores a state of this clock, but takes the draws of another clock, and its time if that is
  // later.
  void restart(const State& state, const State& other) {
    if (!restore(state)) return;
    now_ = std::max(now_, other.now);
    if (other.draws.size() == draws_.size()) draws_ = other.draws;
  }

  // Busy has the seconds for which the busiest device, the busiest link and the server were busy.
  struct Busy {
    double devices = 0, links = 0, server = 0;
  };
  Busy busy() const;

 private:
  enum class Stage { idle, awaits_values, forward, to_server, served, from_server, backward };
  // A device can compute merged layers and groups; it then computes merged layers first.
  struct Device {
    double served_until = 0;
    double served = 0;  // s of merged layers so far, by which its groups are delayed
    double busy = 0;
  };
  struct Computing {
    double end;
    std::size_t device;
    double served;  // Device::served when `end` was computed
  };
  struct Wait {
    int messages = 0;  // number of messages under way
    double until = 0;
    void extend(double time) { until = std::max(until, time); }
  };
  struct Group {
    Stage stage = Stage::idle;
    Sends sends = Sends::nothing;
    std::uint64_t samples = 0;
    bool contributed = false;
    bool meets = false;             // the last values that it sent or awaits are of a meeting
    std::vector<double> lengths{};  // s of computing, by device; 0: the device has no part in it
    std::vector<Computing> computing{};
    Wait stage_wait{};
    Wait values{};         // parameters for the next mini-batch
    double values_at = 0;  // when owners will begin to send these values; 0: none are to be sent
    bool is_complete(double now) const;  // the current stage is complete
    double at() const;  // time of the next event that is not a message; infinite: there is none
  };

  bool has_link(std::size_t place) const {
    return demands_.places.count > 1 && !(demands_.places.has_cores && place == 0);
  }
  double draw(std::size_t device);  // a random factor around 1 of the device's computing time
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
  std::vector<double> slowdown_;                              // by device, as groups share it
  std::vector<double> sharers_;                               // by place: number of groups
  std::vector<std::map<std::uint64_t, Division>> divisions_;  // by group and samples
  double piece_seconds_ = 0;  // s from sending a piece of parameters to its arrival
  double now_ = 0;
  std::vector<Device> devices_;
  SharedLinks links_;  // two for each place, out and in
  std::vector<Group> groups_;
  std::vector<std::uint64_t> draws_;
};

}  // namespace omni
