#include "scheduling/arrivals/united.hpp"

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

}  // namespace omni
