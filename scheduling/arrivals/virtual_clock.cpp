#include "scheduling/arrivals/virtual_clock.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>
#include <utility>

namespace omni {
namespace {

constexpr double kTicks = 0x1p30;  // per second

// Libraries and compilers differ in the last bit of a logarithm: rounding hides that from all but
// some 1 in 10^8 draws.
double in_ticks(double seconds) { return std::max(std::round(seconds * kTicks), 1.0) / kTicks; }

// Above 0, below 1.
double unit(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = std::uint64_t{high} << 32 | low;
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

}  // namespace

VirtualClock::VirtualClock(const Machine& machine, std::vector<std::size_t> device_of_group,
                           double flops_per_sample, std::uint64_t seed)
    : machine_(machine),
      devices_(std::move(device_of_group)),
      flops_per_sample_(flops_per_sample),
      random_(seed, RandomStream::arrivals),
      state_{.finishes = std::vector<double>(devices_.size()),
             .draws = std::vector<std::uint64_t>(devices_.size())} {
  for (const std::size_t device : devices_)
    sharing_.push_back(static_cast<double>(std::ranges::count(devices_, device)));
}

double VirtualClock::draw(std::size_t group) {
  const Machine::Device& device = machine_.devices[devices_[group]];
  if (device.law == Machine::Law::constant) return 1;
  const Philox::Block bits = random_(group, state_.draws[group]++);
  const double logarithm = -std::log(unit(bits[0], bits[1]));
  if (device.law == Machine::Law::exponential) return logarithm;
  const double angle = 2 * std::numbers::pi * unit(bits[2], bits[3]);
  const double normal = std::sqrt(2 * logarithm) * std::cos(angle);
  return std::exp(device.sigma * (normal - device.sigma / 2));  // the mean is 1
}

void VirtualClock::begin(int group, std::uint64_t samples, double extra_seconds) {
  assert(!under_way(group) && samples > 0);
  const double mean = machine_.seconds(devices_[group], samples, flops_per_sample_);
  state_.finishes[group] =
      state_.now + in_ticks(draw(group) * sharing_[group] * mean + extra_seconds);
}

int VirtualClock::next() {
  std::vector<double>& finishes = state_.finishes;
  const auto first = std::ranges::min_element(
      finishes, {}, [](double each) { return each > 0 ? each : INFINITY; });
  assert(*first > 0);
  state_.now = std::exchange(*first, 0);
  return static_cast<int>(first - finishes.begin());
}

bool VirtualClock::restore(State state) {
  const auto is_time = [](double time) { return std::isfinite(time) && time >= 0; };
  const bool sound = state.finishes.size() == devices_.size() &&
                     state.draws.size() == devices_.size() && is_time(state.now) &&
                     std::ranges::all_of(state.finishes, [&](double finish) {
                       return is_time(finish) && (finish == 0 || finish >= state.now);
                     });
  if (sound) state_ = std::move(state);
  return sound;
}

}  // namespace omni
