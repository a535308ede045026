#include "scheduling/forecast/machine/group_devices.hpp"

#include <algorithm>

#include "scheduling/forecast/rank_shares.hpp"
#include "scheduling/groups/group_layout.hpp"

namespace omni {
namespace {

using Devices = std::span<const std::size_t>;

// Returns how many samples a device can compute in `seconds`, at most `most`.
std::uint64_t samples_in(const Machine& machine, std::size_t device, double seconds,
                         std::uint64_t most, double flops_per_sample) {
  std::uint64_t done = 0;
  for (std::uint64_t left = most; left > 0;) {  // bisection: times grow with the size
    const std::uint64_t middle = done + (left + 1) / 2;
    if (machine.seconds(device, middle, flops_per_sample) <= seconds) {
      left -= middle - done;
      done = middle;
    } else {
      left = middle - done - 1;
    }
  }
  return done;
}

// Splits a range of devices where the kind of device changes.
std::vector<Devices> kinds_of(const Machine& machine, Devices devices) {
  std::vector<Devices> kinds;
  for (std::size_t first = 0, end = 0; first < devices.size(); first = end) {
    const Machine::Kind kind = machine.devices[devices[first]].kind;
    while (end < devices.size() && machine.devices[devices[end]].kind == kind) ++end;
    kinds.push_back(devices.subspan(first, end - first));
  }
  return kinds;
}

// Nodes are dealt as ranks are: by their speeds, as first_ranks() does.
void deal_nodes(const Machine& machine, Devices nodes, std::size_t groups,
                GroupDevices& placement) {
  constexpr std::uint64_t kImages = 64;  // their times tell which nodes are faster
  constexpr double kFlops = 1e9;
  std::vector<double> speeds;
  for (const std::size_t node : nodes) speeds.push_back(1 / machine.seconds(node, kImages, kFlops));
  const std::vector<int> firsts = first_ranks(
      static_cast<int>(groups), static_cast<int>(nodes.size()), weights_of_speeds(speeds));
  for (std::size_t group = 0; group < groups; ++group) {
    const Devices own = nodes.subspan(firsts[group], firsts[group + 1] - firsts[group]);
    placement.devices.emplace_back(own.begin(), own.end());
  }
}

void deal(const Machine& machine, Devices devices, std::size_t groups, GroupDevices& placement) {
  if (machine.devices[devices.front()].kind == Machine::Kind::node && groups < devices.size())
    return deal_nodes(machine, devices, groups, placement);
  for (std::size_t group = 0; group < groups; ++group) {
    const std::size_t first = group * devices.size() / groups,
                      end = (group + 1) * devices.size() / groups;
    const Devices own = devices.subspan(first, std::max<std::size_t>(end - first, 1));
    placement.devices.emplace_back(own.begin(), own.end());
  }
}

}  // namespace

GroupDevices place_on(const Machine& machine, int groups, bool merges) {
  GroupDevices placement;
  std::vector<std::size_t> devices;
  if (merges) placement.server = 0;
  for (std::size_t device = 0; device < machine.devices.size(); ++device)
    if (merges && machine.devices[device].serves_merged)
      placement.server = device;
    else
      devices.push_back(device);
  std::size_t groups_left = static_cast<std::size_t>(groups), devices_left = devices.size();
  std::vector<Devices> kinds = kinds_of(machine, devices);
  if (groups_left >= devices_left || groups_left < kinds.size()) kinds = {devices};
  for (std::size_t later = kinds.size(); later-- > 0;) {
    const Devices own = kinds[kinds.size() - 1 - later];
    const std::size_t in_proportion = groups_left * own.size() / devices_left;
    const std::size_t here =
        later == 0 ? groups_left : std::clamp<std::size_t>(in_proportion, 1, groups_left - later);
    deal(machine, own, here, placement);
    groups_left -= here;
    devices_left -= own.size();
  }
  return placement;
}

Division divide(const Machine& machine, std::span<const std::size_t> devices, std::uint64_t samples,
                double flops_per_sample) {
  const auto in_time = [&](double seconds) {
    Division division{.seconds = seconds};
    std::uint64_t left = samples;
    for (const std::size_t device : devices) {
      division.samples.push_back(samples_in(machine, device, seconds, left, flops_per_sample));
      left -= division.samples.back();
    }
    if (left > 0) division.samples.clear();
    return division;
  };
  double least = 0, most = machine.seconds(devices.front(), samples, flops_per_sample);
  if (devices.size() == 1) return {most, {samples}};
  constexpr int kHalvings = 50;
  for (int i = 0; i < kHalvings; ++i) {
    const double seconds = (least + most) / 2;
    (in_time(seconds).samples.empty() ? least : most) = seconds;
  }
  return in_time(most);
}

}  // namespace omni
