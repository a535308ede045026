// Several devices of a machine combined into one, for a group that uses all of them.
#include "scheduling/arrivals/machine_file.hpp"

#include <algorithm>
#include <vector>

namespace omni {
namespace {

// How many samples a device can do in that time, up to `most`.
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

}  // namespace

Machine united(const Machine& machine, std::uint64_t batch, double flops_per_sample) {
  double least = 0, most = machine.seconds(0, batch, flops_per_sample);
  constexpr int kHalvings = 50;
  for (int i = 0; i < kHalvings; ++i) {
    const double seconds = (least + most) / 2;
    std::uint64_t done = 0;
    for (std::size_t device = 0; device < machine.devices.size() && done < batch; ++device)
      done += samples_in(machine, device, seconds, batch, flops_per_sample);
    (done >= batch ? most : least) = seconds;
  }
  Machine one{.name = machine.name, .devices = {machine.devices.front()}, .link = machine.link};
  one.devices.front().seconds = {{batch, most}};
  return one;
}

Machine grouped(const Machine& machine, int groups, std::uint64_t batch, double flops_per_sample) {
  const std::size_t all = machine.devices.size(), count = static_cast<std::size_t>(groups);
  if (count >= all) return machine;
  Machine result{.name = machine.name, .devices = {}, .link = machine.link};
  for (std::size_t group = 0; group < count; ++group) {
    Machine share{.name = machine.name, .devices = {}, .link = machine.link};
    const auto first = machine.devices.begin();
    share.devices.assign(first + static_cast<std::ptrdiff_t>(group * all / count),
                         first + static_cast<std::ptrdiff_t>((group + 1) * all / count));
    result.devices.push_back(united(share, batch, flops_per_sample).devices.front());
  }
  return result;
}

double seconds_per_update(const Machine& machine, int groups, std::uint64_t batch,
                          double flops_per_sample, double message) {
  const Machine shares = grouped(machine, groups, batch, flops_per_sample);
  const std::vector<std::size_t> devices = devices_of_groups(shares, groups);
  double per_second = 0;
  for (const std::size_t device : devices) {
    const auto sharing = static_cast<double>(std::ranges::count(devices, device));
    per_second += 1 / (sharing * shares.seconds(device, batch, flops_per_sample) + message);
  }
  return 1 / per_second;
}

}  // namespace omni
