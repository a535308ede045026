#include "scheduling/pilots/loss_watch.hpp"

#include <algorithm>
#include <cmath>

namespace omni {

void LossWatch::note(double loss) {
  if (std::isinf(lowest_)) lowest_ = loss;
  recent_.push_back(loss);
  if (recent_.size() > window_) recent_.pop_front();
  if (first_.size() < window_)
    first_.push_back(loss);
  else
    ++since_;
  if (!full()) return;
  lowest_ = std::min(lowest_, median(window_));
  above_ = is_above() ? above_ + 1 : 0;
  risen_ = has_risen() ? risen_ + 1 : 0;
}

void LossWatch::restore(const State& state) {
  lowest_ = state.lowest;
  recent_.assign(state.recent.begin(), state.recent.end());
  while (recent_.size() > window_) recent_.pop_front();
  above_ = full() ? state.above : 0;
  risen_ = full() ? state.risen : 0;
  first_ = state.first;
  if (first_.size() > window_) first_.resize(window_);
  since_ = state.since;
}

bool LossWatch::surely_above(const LossMean& now, const LossMean& before) const {
  constexpr double kMuch = 0.05, kOfChance = 0.02, kErrors = 4;
  if (before.count == 0) return false;
  const double error = std::hypot(before.error(), now.error());
  const double floor = std::isfinite(chance_) ? kOfChance * chance_ : 0;
  return now.mean - before.mean > std::max({kMuch * before.mean, floor, kErrors * error});
}

bool LossWatch::is_above() const {
  constexpr double kLeast = 0.995, kMost = 1.02, kLearned = 0.97;  // of the loss at chance
  const auto [least, most] = std::ranges::minmax(recent_);
  const bool dead =
      least > kLeast * chance_ && most < kMost * chance_ && lowest_ < kLearned * chance_;
  return dead || median(window_) > lowest_ + margin(kForgotten, kNoise);
}

bool LossWatch::has_exploded() const {
  constexpr double kHuge = 10;
  constexpr std::ptrdiff_t kSeveral = 3;
  const double huge = kHuge * std::max(lowest_, chance_);
  return std::ranges::count_if(recent_, [&](double loss) { return loss > huge; }) >= kSeveral;
}

bool LossWatch::near_chance() const { return !(recent().mean < kNearChance * chance_); }

bool LossWatch::lost() const {
  constexpr double kExplodes = 1.5;
  return above_ >= window_ || has_exploded() ||
         (above_ > 0 && median(window_) > kExplodes * std::max(lowest_, chance_));
}

bool LossWatch::has_risen() const {
  constexpr double kMuch = 0.5, kOfChance = 0.1;
  const double floor = std::isfinite(chance_) ? kOfChance * chance_ : 0;
  return median(window_) > lowest_ + std::max(kMuch * lowest_, floor);
}

double LossWatch::median(std::size_t last) const {
  std::vector<double> sorted(recent_.end() - static_cast<std::ptrdiff_t>(last), recent_.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((last - 1) / 2);
  std::ranges::nth_element(sorted, middle);
  return *middle;
}

}  // namespace omni
