#include "scheduling/groups/implicit_momentum.hpp"

#include <cmath>
#include <utility>

namespace omni {
namespace {

constexpr int kBlock = 50, kFewestBlocks = 8, kMostBlocks = 40;  // of updates
// The gradient at some parameters comes about half a window later, that of a slow group several.
constexpr std::int64_t kWindowsKept = 6;

}  // namespace

ImplicitMomentum::ImplicitMomentum(int groups) : window_(2 * groups) {}

ImplicitMomentum::Known* ImplicitMomentum::known(std::int64_t number) {
  const std::int64_t at = number - first_;
  if (first_ < 0 || at < 0 || at >= std::ssize(path_)) return nullptr;
  return &path_[static_cast<std::size_t>(at)];
}

bool ImplicitMomentum::has(std::int64_t number) {
  const Known* of = known(number);
  return of != nullptr && of->point;
}

void ImplicitMomentum::add(PathPoint point) {
  const std::int64_t number = point.number;
  if (first_ < 0) first_ = next_ = number;
  if (number < first_) return;
  while (number - first_ >= std::ssize(path_)) path_.emplace_back();
  known(number)->point = std::move(point);
  // Those that finished at the same time may come in another order.
  while (has(next_)) take_next();
  if (number - next_ > window_) next_ = number;
  while (std::ssize(path_) > kWindowsKept * window_) {
    path_.pop_front();
    ++first_;
  }
  if (next_ < first_) next_ = first_;
}

void ImplicitMomentum::take_next() {
  find_gradient(next_);
  compare(next_);
  ++next_;
}

// velocity' = momentum * velocity + gradient; values' = values - rate * velocity'
void ImplicitMomentum::find_gradient(std::int64_t number) {
  if (!has(number) || !has(number - 1) || !has(number - 2)) return;
  const PathPoint &now = *known(number)->point, &last = *known(number - 1)->point,
                  &before = *known(number - 2)->point;
  if (!(now.learning_rate > 0) || !(last.learning_rate > 0)) return;
  std::vector<float>& gradient = known(number)->gradient;
  gradient.resize(now.values.size());
  for (std::size_t i = 0; i < gradient.size(); ++i)
    gradient[i] = (last.values[i] - now.values[i]) / now.learning_rate -
                  now.momentum * (before.values[i] - last.values[i]) / last.learning_rate;
}

void ImplicitMomentum::compare(std::int64_t number) {
  const Known& taken = *known(number);
  const std::int64_t at = taken.point->seen;  // t - 1
  const Known *update = known(at + 1), *last = known(at);
  if (taken.gradient.empty() || update == nullptr || update->gradient.empty() || last == nullptr ||
      last->gradient.empty() || !has(at - 1) || !has(at - 1 - window_))
    return;
  const std::vector<float>&to = known(at - 1)->point->values,
        &from = known(at - 1 - window_)->point->values;
  double above = 0, below = 0, length = 0;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const double fresh = taken.gradient[i], way = to[i] - from[i];
    above += (fresh - update->gradient[i]) * way;
    below += (fresh - last->gradient[i]) * way;
    length += way * way;
  }
  if (length == 0) return;
  // As gradients become smaller, so does the way that they lead, and what is seen then shall count
  // for as much.
  const double rate = taken.point->learning_rate, weight = rate * rate / length;
  if (sums_.empty() || sums_.back().updates == kBlock) sums_.emplace_back();
  if (sums_.size() > kMostBlocks) sums_.pop_front();
  Sums& sums = sums_.back();
  ++sums.updates;
  sums.above += weight * above;
  sums.below += weight * below;
}

// Its error is what the estimates without one block each tell (the jackknife).
std::optional<ImplicitMomentum::Estimate> ImplicitMomentum::estimate() const {
  if (sums_.size() < kFewestBlocks) return {};
  double above = 0, below = 0;
  for (const Sums& each : sums_) {
    above += each.above;
    below += each.below;
  }
  double mean = 0, squares = 0;  // of the differences from the mean
  int count = 0;
  for (const Sums& each : sums_) {
    const double without = (above - each.above) / (below - each.below), before = mean;
    mean += (without - before) / ++count;
    squares += (without - before) * (without - mean);
  }
  const Estimate estimate{above / below, std::sqrt(squares * (count - 1) / count)};
  if (!std::isfinite(estimate.value) || !std::isfinite(estimate.error)) return {};
  return estimate;
}

}  // namespace omni
