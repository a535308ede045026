#include "scheduling/pilots/health/loss_level.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace omni {
namespace {

double entropy_part(double share) { return share > 0 ? -share * std::log(share) : 0; }

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

bool surely_below(const LossMean& mean, double level) {
  constexpr double kErrors = 3, kLeast = 0.005;
  return mean.count > 1 && mean.mean + kErrors * mean.error() < (1 - kLeast) * level;
}

}  // namespace

std::optional<double> chance_loss(const Net& net, std::span<const double> shares) {
  double sum = 0;
  for (const auto& layer : net.layers()) {
    if (!layer->is_loss()) continue;
    const std::string& type = layer->type();
    if (type != "softmax" && type != "logistic") return {};
    const std::size_t classes = layer->output().extent.count();
    const auto smoothing = static_cast<double>(layer->label_smoothing());
    const double even = 1.0 / static_cast<double>(classes);
    double loss = 0;
    for (std::size_t i = 0; i < classes; ++i) {
      const double share = shares.empty() ? even : i < shares.size() ? shares[i] : 0;
      loss += type == "softmax" ? entropy_part((1 - smoothing) * share + smoothing * even)
                                : entropy_part(share) + entropy_part(1 - share);
    }
    sum += static_cast<double>(layer->loss_weight()) * loss;
  }
  return sum;
}

bool at_chance(std::span<const double> losses, double chance) {
  return !surely_below(mean_of(losses), chance);
}

void LossLevel::compare_with_chance(const LossMean& mean) {
  since_.add(mean);
  if (surely_below(mean, best_)) {
    best_ = mean.mean;
    since_ = {};
  } else if (chance_ && (surely_below(mean, *chance_) || surely_below(since_, *chance_))) {
    since_ = {};
  }
}

void LossLevel::note(double loss) {
  // The loss is high if it exceeds the lowest by the share kForgotten of what was learned, and by
  // the share kGrown of the lowest.
  constexpr double kForgotten = 0.8, kGrown = 0.25;
  part_.add(loss);
  if (part_.count >= static_cast<double>(chance_block_))
    compare_with_chance(std::exchange(part_, {}));
  block_.push_back(loss);
  if (block_.size() < kBlock) return;
  recent_ = median(std::move(block_));
  block_.clear();
  if (first_ == kNone) first_ = recent_;
  lowest_ = std::min(lowest_, recent_);
  const double learned = chance_.value_or(first_) - lowest_;
  const bool high = recent_ > lowest_ + std::max(kForgotten * learned, kGrown * lowest_);
  risen_ = high ? risen_ + kBlock : 0;
}

std::vector<double> LossLevel::numbers() const {
  std::vector<double> all{since_.count, since_.mean, since_.squares, best_,
                          first_,       lowest_,     recent_,        static_cast<double>(risen_),
                          part_.count,  part_.mean,  part_.squares};
  all.insert(all.end(), block_.begin(), block_.end());
  return all;
}

bool LossLevel::take(std::span<const double> numbers) {
  constexpr double kMost = 1e12;
  constexpr std::size_t kPart = 3;
  const auto sound = [](double number) { return std::isfinite(number); };
  const auto is_count = [](double number) { return number >= 0 && number <= kMost; };
  const bool is_older = numbers.size() == kOlder;
  if ((!is_older && numbers.size() < kOlder + kPart) || numbers.size() >= kOlder + kPart + kBlock ||
      !std::ranges::all_of(numbers, sound) || !is_count(numbers[0]) || !is_count(numbers[7]) ||
      (!is_older && !is_count(numbers[kOlder])))
    return false;
  since_ = {numbers[0], numbers[1], numbers[2]};
  best_ = numbers[3];
  first_ = numbers[4];
  lowest_ = numbers[5];
  recent_ = numbers[6];
  risen_ = static_cast<std::uint64_t>(numbers[7]);
  if (is_older) return true;
  part_ = {numbers[kOlder], numbers[kOlder + 1], numbers[kOlder + 2]};
  block_.assign(numbers.begin() + kOlder + kPart, numbers.end());
  return true;
}

}  // namespace omni
