// What implicit momentum the groups' asynchrony has, from the path of the parameters.
//
// Update t moves them by the gradient G_t, which was taken some updates before; F is the one taken
// at the parameters w_{t-1} that it moves, which arrives later as some other update. Theorem 6 of
// "Asynchrony begets momentum" says of means that
//   F - G_t = implicit * (F - G_{t-1})
// whatever the explicit momentum and the rate. Both sides share the noise of F, the noise of the
// mini-batches is larger than what is looked for, and a ratio of the two would tell of that noise
// alone. So both are multiplied by something that the mini-batches of F, G_t and G_{t-1} had no
// part in, the way which the parameters had come before, z = w_{t-2} - w_{t-2-m}, and summed up
// over parameters and updates: there the noise cancels, and
//   implicit = sum (F - G_t) z / sum (F - G_{t-1}) z.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace omni {

// Some of the parameters after an update.
struct PathPoint {
  std::int64_t number = 0;  // of the update
  std::int64_t seen = 0;    // number of the one at whose parameters its gradient was taken
  float learning_rate = 0, momentum = 0;  // of the update; the explicit momentum
  std::vector<float> values{};
};

class ImplicitMomentum {
 public:
  explicit ImplicitMomentum(int groups);

  // In about the order of their numbers; what lies too far back is no longer of use.
  void add(PathPoint point);

  struct Estimate {
    double value, error;  // a standard error
  };
  std::optional<Estimate> estimate() const;  // none: not enough was seen

 private:
  struct Known {
    std::optional<PathPoint> point;
    std::vector<float> gradient{};  // by which the update moved; empty: not known
  };
  struct Sums {
    double above = 0, below = 0;
    int updates = 0;
  };
  Known* known(std::int64_t number);  // null: gone, or to come
  bool has(std::int64_t number);
  void take_next();  // of those that have arrived
  void find_gradient(std::int64_t number);
  void compare(std::int64_t number);

  std::int64_t window_;      // updates
  std::deque<Known> path_;   // consecutive updates
  std::int64_t first_ = -1;  // number of the first; -1: none yet
  std::int64_t next_ = 0;    // to be taken
  std::deque<Sums> sums_;    // of blocks of updates
};

}  // namespace omni
