#include "scheduling/ensemble/parzen.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

namespace omni {
namespace {

constexpr int kCandidates = 24;
constexpr std::size_t kMostGood = 25;
constexpr std::size_t kNewest = 25;  // of more trials, older ones count less

// Returns the probability that a normal number lies between two ends.
double normal_between(double low, double high) {
  const auto below = [](double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); };
  // In the upper tail differences of small numbers are exact, those of numbers near 1 are not.
  return low > 0 ? below(-low) - below(-high) : below(high) - below(low);
}

std::vector<double> weights_of(std::size_t count) {
  std::vector<double> weights(count, 1);
  const auto n = static_cast<double>(count);
  if (count <= kNewest) return weights;
  const std::size_t older = count - kNewest;
  for (std::size_t i = 0; i < older; ++i)
    weights[i] =
        older == 1 ? 1 / n
                   : 1 / n + (1 - 1 / n) * static_cast<double>(i) / static_cast<double>(older - 1);
  return weights;
}

}  // namespace

ParzenDensity::ParzenDensity(const ParzenAxis& axis, std::span<const double> values) : axis_(axis) {
  const auto scaled = [&](double x) { return axis.logarithmic ? std::log(x) : x; };
  const double step = axis.whole ? 0.5 : 0;
  low_ = scaled(axis.low - step);
  high_ = scaled(axis.high + step);
  const std::vector<double> weights = weights_of(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    kernels_.push_back({weights[i], axis.choices > 0 ? values[i] : scaled(values[i]), 0});
  const double range = high_ - low_, middle = 0.5 * (low_ + high_);
  kernels_.push_back({1, middle, range});
  const double total =
      std::accumulate(kernels_.begin(), kernels_.end(), 0.0,
                      [](double sum, const Kernel& each) { return sum + each.weight; });
  for (Kernel& each : kernels_) each.weight /= total;
  if (axis.choices > 0) return;

  // A kernel is as wide as the larger distance to its neighbours, of which that of the whole range
  // is one.
  std::vector<std::size_t> order(kernels_.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, {}, [&](std::size_t each) { return kernels_[each].mean; });
  const auto mean = [&](std::size_t place) { return kernels_[order[place]].mean; };
  const std::size_t last = order.size() - 1;
  const double narrowest = range / std::min(100.0, 1.0 + static_cast<double>(order.size()));
  for (std::size_t place = 0; place <= last; ++place) {
    if (order[place] == last) continue;  // the kernel of the whole range
    const double before = place > 0 ? mean(place) - mean(place - 1) : 0;
    const double behind = place < last ? mean(place + 1) - mean(place) : 0;
    kernels_[order[place]].width = std::clamp(std::max(before, behind), narrowest, range);
  }
}

double ParzenDensity::draw(Draws& draws) const {
  double left = draws.uniform();
  std::size_t at = 0;
  while (at + 1 < kernels_.size() && left >= kernels_[at].weight) left -= kernels_[at++].weight;
  const Kernel& kernel = kernels_[at];
  if (axis_.choices > 0) {
    const bool any = at + 1 == kernels_.size();
    // Each choice has a share of the kernel of the whole range in all other kernels, too.
    const double share =
        1 / (1 + 1 / static_cast<double>(kernels_.size()) * static_cast<double>(axis_.choices));
    if (any || draws.uniform() >= share)
      return draws.below(static_cast<std::uint32_t>(axis_.choices));
    return kernel.mean;
  }
  double value = low_;
  do value = kernel.mean + kernel.width * draws.normal();
  while (!(value >= low_ && value <= high_));
  if (axis_.logarithmic) value = std::exp(value);
  if (axis_.whole) value = std::round(value);
  return std::clamp(value, axis_.low, axis_.high);
}

double ParzenDensity::log_of(double value) const {
  double sum = 0;
  for (std::size_t i = 0; i < kernels_.size(); ++i) {
    const auto& [weight, mean, width] = kernels_[i];
    if (axis_.choices > 0) {
      const auto choices = static_cast<double>(axis_.choices);
      const double smoothed = 1 / static_cast<double>(kernels_.size());
      const bool any = i + 1 == kernels_.size();
      sum += weight *
             (any ? 1 / choices : (smoothed + (mean == value ? 1 : 0)) / (1 + smoothed * choices));
      continue;
    }
    const double within = normal_between((low_ - mean) / width, (high_ - mean) / width);
    const auto scaled = [&](double x) { return axis_.logarithmic ? std::log(x) : x; };
    if (axis_.whole) {
      sum += weight / within *
             normal_between((scaled(value - 0.5) - mean) / width,
                            (scaled(value + 0.5) - mean) / width);
    } else {
      const double distance = (scaled(value) - mean) / width;
      sum += weight / within * std::exp(-0.5 * distance * distance) /
             (width * std::sqrt(2 * std::numbers::pi));
    }
  }
  return std::log(sum);
}

std::vector<double> parzen_draw(std::span<const ParzenAxis> axes,
                                std::span<const ParzenTrial> ended,
                                std::span<const std::vector<double>> running, Draws& draws) {
  std::vector<std::size_t> order(ended.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, {}, [&](std::size_t each) {
    const ParzenTrial& trial = ended[each];
    const double loss =
        std::isnan(trial.loss) ? std::numeric_limits<double>::infinity() : trial.loss;
    return std::pair(trial.complete ? 0 : UINT64_MAX - trial.iterations, loss);
  });
  const std::size_t most = std::min((ended.size() + 9) / 10, kMostGood);
  std::vector<bool> is_good(ended.size());
  for (std::size_t i = 0; i < most; ++i) is_good[order[i]] = true;
  std::vector<double> settings;
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    std::vector<double> good, bad;
    for (std::size_t i = 0; i < ended.size(); ++i)
      (is_good[i] ? good : bad).push_back(ended[i].values[axis]);
    for (const std::vector<double>& each : running) bad.push_back(each[axis]);
    const ParzenDensity of_good(axes[axis], good), of_bad(axes[axis], bad);
    double best = 0, largest = -std::numeric_limits<double>::infinity();
    for (int i = 0; i < kCandidates; ++i) {
      const double value = of_good.draw(draws),
                   ratio = of_good.log_of(value) - of_bad.log_of(value);
      if (ratio > largest || i == 0) {
        best = value;
        largest = ratio;
      }
    }
    settings.push_back(best);
  }
  return settings;
}

}  // namespace omni
