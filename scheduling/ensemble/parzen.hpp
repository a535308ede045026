// The tree-structured Parzen estimator (Bergstra et al. 2011) draws further settings of a sweep
// from the results so far, as Optuna's TPESampler does with its usual options. The best tenth of
// the trials are good. Each setting has a density of the good trials and one of the others. Of 24
// values that are drawn from the first, the one with the largest ratio of the two is taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/rng.hpp"

namespace omni {

// What a setting may be: a number between two ends, or one of several choices, by its index.
struct ParzenAxis {
  double low = 0, high = 1;
  bool logarithmic = false, whole = false;
  std::size_t choices = 0;  // 0: it is a number
};

// A ParzenTrial is a member with its settings. Complete ones are compared by their losses. They are
// before those that were ended earlier, of which the longer ones come first. NaN is the worst loss.
struct ParzenTrial {
  std::vector<double> values;  // by axis
  bool complete = false;
  std::uint64_t iterations = 0;
  double loss = 0;
};

// A density of one setting: a kernel for each value, and one for the whole range. `values` are in
// the order of their trials; the last 25 count most.
class ParzenDensity {
 public:
  ParzenDensity(const ParzenAxis& axis, std::span<const double> values);
  double draw(Draws& draws) const;
  double log_of(double value) const;  // of whole numbers and choices: of the probability

 private:
  struct Kernel {
    double weight, mean, width;  // after the logarithm; choices: the mean is the choice
  };
  ParzenAxis axis_;
  double low_, high_;  // of the kernels: after the logarithm, whole numbers with half a step more
  std::vector<Kernel> kernels_;  // the last is that of the whole range
};

// Returns the settings of the next trial. `ended` are in the order in which they began. `running`
// are trials without a result yet: they count as bad, so that trials at the same time differ.
std::vector<double> parzen_draw(std::span<const ParzenAxis> axes,
                                std::span<const ParzenTrial> ended,
                                std::span<const std::vector<double>> running, Draws& draws);

}  // namespace omni
