// A Comparison says which of two trials is better, from their losses on the same mini-batches.
#pragma once

#include <cmath>
#include <string>
#include <vector>

namespace omni {

// TrialEnd tells how a trial ended; the worst end comes first.
enum class TrialEnd {
  diverged,
  dead,          // the outputs are the same for all images
  above_chance,  // the loss is surely above that of a net that has learned nothing about images
  at_chance,     // the loss is not surely above chance, and not clearly below it
  behind,        // given up: the step is smaller than the champion's, and the loss surely higher
  learns,
};

struct TrialResult {
  TrialEnd end = TrialEnd::diverged;
  std::vector<double> losses{};  // on mini-batches that are the same in all trials of a search
  double loss() const;           // their mean
  double error() const;          // its standard error
  std::string text() const;      // "loss 0.8333 +- 0.01", "diverged"
};

// A difference of losses counts when it exceeds this share of the champion's loss.
inline constexpr double kWorth = 0.02;
// The difference must also exceed this number of its standard errors.
inline constexpr double kSureErrors = 2.5;

// A Comparison compares a challenger's losses with the champion's on the same mini-batches. It uses
// the mean difference and its standard error. If both losses are near chance, it is a tie.
struct Comparison {
  enum class Verdict { worse, tie, unsure, better };
  Verdict verdict = Verdict::tie;
  // `gain` is the mean difference between the champion's and the challenger's losses: positive if
  // the challenger's are lower. `error` is its standard error.
  double gain = 0, error = 0;
  std::string text() const;  // "0.05 +- 0.01 lower"; empty: the losses were not compared
};
// `worth` is the share of the champion's loss by which the challenger's must be lower to win.
Comparison compare(const TrialResult& challenger, const TrialResult& champion,
                   double chance = INFINITY, double worth = kWorth);

}  // namespace omni
