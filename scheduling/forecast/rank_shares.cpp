#include "scheduling/forecast/rank_shares.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "scheduling/groups/group_layout.hpp"

namespace omni {
namespace {

constexpr double kSteps = 8;  // from a power of two to the next one
constexpr double kMostRatio = 1e5;

// Returns the time of a mini-batch that lasts until the last rank has computed its share.
double seconds_of(std::span<const double> speeds, std::span<const int> weights) {
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  double seconds = 0;
  for (std::size_t rank = 0; rank < speeds.size(); ++rank)
    seconds = std::max(seconds, weights[rank] / all / speeds[rank]);
  return seconds;
}

}  // namespace

std::vector<int> weights_of_speeds(std::span<const double> speeds) {
  const double slowest = std::ranges::min(speeds);
  std::vector<int> weights;
  int divisor = 0;
  for (const double speed : speeds) {
    const double ratio = std::min(speed / slowest, kMostRatio);
    const auto step = static_cast<int>(std::bit_floor(static_cast<unsigned>(ratio)));
    weights.push_back(static_cast<int>(std::lround(kSteps * ratio / step)) * step);
    divisor = std::gcd(divisor, weights.back());
  }
  for (int& each : weights) each /= divisor;
  const std::vector<int> equal(speeds.size(), 1);
  if (seconds_of(speeds, equal) <= kWorthUnequal * seconds_of(speeds, weights)) weights.clear();
  return weights;
}

}  // namespace omni
