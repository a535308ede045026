// Simulated time: which compute group finishes next on the machine of a machine file, and when.
// Devices, the links of their places in either direction, and the server of merged layers are busy;
// mini-batches demand them and wait. Times are whole multiples of 2^-30 s, which sums keep exactly:
// the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/rng.hpp"
#include "scheduling/forecast/demands.hpp"
#include "scheduling/forecast/sends.hpp"

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

  // Seconds that the busiest of its kind was busy.
  struct Busy {
    double devices = 0, links = 0, server = 0;
  };
  Busy busy() const;

 private:
  enum class Stage { idle, awaits_values, forward, to_server, served, from_server, backward };
  // Urgent work goes first: what a place does for others, of which each part is small.
  struct Resource {
    double free_at = 0;       // when what waits in order is done
    double urgent_until = 0;  // when what is urgent is done
    double taken = 0;         // s of all urgent work, by which the rest is delayed
    double busy = 0;
  };
  struct Span {
    double end;
    std::size_t resource;  // that may still be delayed; kNone: none
    double taken;          // of the resource, when the end was computed
  };
  struct Group {
    Stage stage = Stage::idle;
    Sends sends = Sends::nothing;
    std::uint64_t samples = 0;
    bool contributed = false;
    std::vector<double>
        lengths{};                 // s of computing the mini-batch, by device; 0: has no part in it
    std::vector<Span> spans{};     // that its stage waits for
    std::vector<Span> arriving{};  // values, that its next mini-batch waits for
    double values_at = 0;          // when the first values leave their owners; 0: nothing is due
    double at() const;             // its next event
  };
  static constexpr std::size_t kNone = SIZE_MAX;

  std::size_t link(std::size_t place, bool in) const {
    return machine_.devices.size() + 2 * place + (in ? 1 : 0);
  }
  bool has_link(std::size_t place) const {
    return demands_.places.count > 1 && !(demands_.places.has_cores && place == 0);
  }
  double draw(std::size_t device);  // of its law, around 1
  Span in_order(std::size_t resource, double seconds);
  Span urgent(std::size_t resource, double seconds);
  void send(std::vector<Span>& spans, std::size_t place, bool in, double bytes, bool is_urgent);
  void compute(int group, bool backward);
  void cross(int group, bool back);
  void exchange(int group, bool back, std::vector<Span>& spans);
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
  std::vector<Resource> resources_;  // devices, then links: out and in of each place
  std::vector<Group> groups_;
  std::vector<std::uint64_t> draws_;
};

}  // namespace omni
