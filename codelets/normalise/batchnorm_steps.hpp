// How batch normalisation walks a slice on a CPU, and what it adds up there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace omni {

// Channels lie together, so a slice is one run of rows * c values. The kernels walk it in steps of
// `width` values, a multiple of c that is long enough to vectorise even where c is 1 or 3; what
// they hold by channel is repeated up to that width.
struct Steps {
  std::int64_t count;
  int width;

  Steps(std::int64_t rows, int c) : count(rows * c), width((255 + c) / c * c) {}

  // Calls visit(first value, values) for every step; the last one may be shorter.
  void for_each(auto visit) const {
    for (std::int64_t at = 0; at < count; at += width)
      visit(at, static_cast<int>(std::min<std::int64_t>(width, count - at)));
  }
};

inline void repeat(float* wide, int c, int width) {
  for (int i = c; i < width; ++i) wide[i] = wide[i - c];
}
inline void repeat(const float* by_channel, float* wide, int c, int width) {
  std::copy_n(by_channel, c, wide);
  repeat(wide, c, width);
}

// Two sums by channel, in double: it costs nothing next to reading the data, and lets the variance
// come from plain sums of squares.
class ChannelSums {
 public:
  ChannelSums(const Steps& steps, float* memory)
      : width_(steps.width), first_(reinterpret_cast<double*>(memory)), second_(first_ + width_) {
    std::fill_n(first_, 2 * width_, 0.0);
  }
  static std::size_t floats(const Steps& steps) { return 4 * steps.width; }

  double* first() const { return first_; }
  double* second() const { return second_; }
  void fold(int c) {
    for (int i = c; i < width_; ++i) {
      first_[i % c] += first_[i];
      second_[i % c] += second_[i];
    }
  }

 private:
  int width_;
  double *first_, *second_;
};

}  // namespace omni
