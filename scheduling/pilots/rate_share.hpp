// RateShare is the share of the learning rate with which several groups train. It grows towards 1
// unless the loss rises. After a failure it falls. Then it grows in smaller steps, which do not
// reach the rate that failed until the training is much longer. Rates are compared, not shares,
// since the learning rate may follow a policy.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "scheduling/pilots/saved_numbers.hpp"

namespace omni {

class RateShare {
 public:
  explicit RateShare(double share = 1) : share_(share) {}
  // Reads what saved() returned. `with_failure` is false for checkpoints of older versions, which
  // have no failures.
  RateShare(SavedNumbers& read, bool with_failure);
  std::vector<double> saved() const;

  double value() const { return share_; }
  // Returns true if the share is so small that it is not lowered any more.
  bool is_smallest() const { return share_ < kSmallest; }

  // Call held() when the training was good up to `iteration`, whose learning rate is `rate`. A
  // share that has just grown fails if the loss is `higher` than before. `may_grow` means that
  // enough iterations are left to see the effect of a larger share.
  void held(std::uint64_t iteration, double rate, bool higher, bool may_grow);
  // Call failed() when the training was bad with the current share.
  void failed(std::uint64_t iteration, double rate);

 private:
  static constexpr double kSmallest = 1e-4;

  double share_;
  // patience_ is the least number of calls of held() from one growth to the next. wait_ is how many
  // of them are left.
  std::uint64_t patience_ = 1, wait_ = 1;
  // proven_ and failed_ are learning rates times shares. proven_ is the last product before the
  // share grew; 0 means that the share has not grown, or has shrunk since. failed_ is the last
  // product that failed, in iteration failed_at_; 0 means that none failed lately.
  double proven_ = 0, failed_ = 0;
  std::uint64_t failed_at_ = 0;
  bool grown_ = false;  // the last call of held() let the share grow
};

}  // namespace omni
