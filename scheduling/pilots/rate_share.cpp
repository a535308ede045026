#include "scheduling/pilots/rate_share.hpp"

#include <cmath>
#include <utility>

namespace omni {
namespace {

constexpr double kGrowth = 2, kLeastGrowth = 1.2;  // factors by which a share grows
// A share below this part of one that failed is clearly smaller.
constexpr double kClear = 0.75;
// A failure counts until the training is this many times as long, as curvatures have changed by
// then.
constexpr std::uint64_t kForgotten = 4;

}  // namespace

RateShare::RateShare(SavedNumbers& read, bool with_failure) : share_(read.between(0, 1)) {
  patience_ = std::max<std::uint64_t>(read.count(), 1);
  wait_ = read.count();
  if (!with_failure) return;
  proven_ = read.between(0, SavedNumbers::kLargest);
  failed_ = read.between(0, SavedNumbers::kLargest);
  failed_at_ = read.count();
  grown_ = read.between(0, 1) != 0;
}

std::vector<double> RateShare::saved() const {
  const auto number = [](auto count) { return static_cast<double>(count); };
  return {share_,  number(patience_),  number(wait_), proven_,
          failed_, number(failed_at_), number(grown_)};
}

void RateShare::held(std::uint64_t iteration, double rate, bool higher, bool may_grow) {
  if (std::exchange(grown_, false) && higher) return failed(iteration, rate);
  if (wait_ > 0) --wait_;
  if (share_ == 1 || wait_ > 0 || higher || !may_grow || !(rate > 0)) return;
  if (iteration >= kForgotten * failed_at_) failed_ = 0;
  double next = std::min(1.0, kGrowth * share_);
  if (failed_ > 0) next = std::min(next, std::sqrt(share_ * failed_ / rate));
  if (next < 1 && next < kLeastGrowth * share_) return;
  proven_ = share_ * rate;
  share_ = next;
  wait_ = patience_;
  grown_ = true;
}

// The first failure after a growth restores the rate from before the growth, if it is clearly
// smaller but more than half. Any other failure halves the share.
void RateShare::failed(std::uint64_t iteration, double rate) {
  failed_ = share_ * rate;
  failed_at_ = iteration;
  const double before = rate > 0 ? proven_ / rate : 0;
  share_ = before > share_ / 2 && before < kClear * share_ ? before : share_ / 2;
  proven_ = 0;
  grown_ = false;
  patience_ *= 2;
  wait_ = patience_;
}

}  // namespace omni
