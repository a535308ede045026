#include "scheduling/forecast/machine/machine.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>

namespace omni {
namespace {

constexpr double kLeastSeconds = 1e-12;  // s; a net may have no flops

// Returns the seconds for `samples` samples by the table, as Machine::seconds() describes.
double interpolated(const std::map<std::uint64_t, double>& table, std::uint64_t samples) {
  const auto size = static_cast<double>(samples);
  const auto line = [&](auto from, auto to) {
    const auto x = static_cast<double>(from->first), width = static_cast<double>(to->first) - x;
    return from->second + (to->second - from->second) * (size - x) / width;
  };
  const auto to = table.lower_bound(samples);  // the smallest size that is not below `samples`
  const auto first = table.begin(), last = std::prev(table.end());
  if (to != table.end() && to->first == samples) return to->second;
  const double in_proportion = first->second * size / static_cast<double>(first->first);
  if (first == last) return in_proportion;
  if (to == first) return std::max(line(first, std::next(first)), in_proportion);
  if (to == table.end()) return std::max(line(std::prev(last), last), last->second);
  return line(std::prev(to), to);
}

// Returns a random number between 0 and 1, but neither 0 nor 1.
double unit(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = std::uint64_t{high} << 32 | low;
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

}  // namespace

// Libraries and compilers differ in the last bit of a logarithm. After rounding to ticks only about
// 1 in 10^8 draws differs.
double Machine::Device::variation(const Philox::Block& bits) const {
  if (law == Law::constant) return 1;
  const double logarithm = -std::log(unit(bits[0], bits[1]));
  if (law == Law::exponential) return logarithm;
  const double angle = 2 * std::numbers::pi * unit(bits[2], bits[3]);
  const double normal = std::sqrt(2 * logarithm) * std::cos(angle);
  return std::exp(sigma * (normal - sigma / 2));  // the mean is 1
}

double Machine::seconds(std::size_t device, std::uint64_t samples, double flops_per_sample) const {
  const Device& each = devices[device];
  if (!each.seconds.empty()) return std::max(interpolated(each.seconds, samples), kLeastSeconds);
  const double size = static_cast<double>(samples) + each.half_size;
  return std::max(each.overhead + flops_per_sample * size / each.flops_per_second, kLeastSeconds);
}

// The throughput is interpolated between two numbers of groups, and constant beyond the last one.
double Machine::slowdown(std::size_t device, std::size_t groups) const {
  std::map<std::uint64_t, double> gain = devices[device].gain;
  gain.emplace(1, 1);
  const auto count = static_cast<double>(groups);
  const auto above = gain.lower_bound(groups);
  if (above == gain.end()) return count / std::prev(above)->second;
  if (above->first == groups) return count / above->second;
  const auto below = std::prev(above);
  const double part = (count - static_cast<double>(below->first)) /
                      static_cast<double>(above->first - below->first);
  return count / (below->second + part * (above->second - below->second));
}

}  // namespace omni
