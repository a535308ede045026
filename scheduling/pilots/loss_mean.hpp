// LossMean computes the mean of losses that are added one by one, and the standard error of the
// mean.
#pragma once

#include <cmath>

namespace omni {

struct LossMean {
  double count = 0, mean = 0;
  double squares = 0;  // sum of the squared distances from the mean

  void add(double loss) { add(LossMean{1, loss, 0}); }
  void add(const LossMean& others) {
    const double all = count + others.count, away = others.mean - mean;
    squares += others.squares + away * away * count * others.count / all;
    mean += away * others.count / all;
    count = all;
  }
  double error() const { return count > 1 ? std::sqrt(squares / (count - 1) / count) : 0; }
};

LossMean mean_of(const auto& losses) {
  LossMean mean;
  for (const double loss : losses) mean.add(loss);
  return mean;
}

}  // namespace omni
