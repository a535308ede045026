// A setting that a search tries, and the result of a trial.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace omni {

struct Setting {
  int groups = 1;
  double momentum = 0;  // in total: asynchrony gives some of it (groups/momentum.hpp)
  double learning_rate = 0;

  bool operator==(const Setting&) const = default;
};
std::string describe(const Setting& setting);
// How far one gradient moves the parameters in the long run, as a rate without momentum.
double step_of(const Setting& setting);
// The same step with another momentum; a step of another size.
Setting with_momentum(Setting setting, double momentum);
Setting scaled(Setting setting, double factor);

// State of a trial, the worst first.
enum class Fate {
  diverged,
  dead,       // the net says the same of all images
  at_chance,  // the loss is that of guessing
  behind,     // given up: a smaller step, and a loss that is surely higher
  learns,
};

struct Showing {
  Fate fate = Fate::diverged;
  std::vector<double> losses{};  // of the same mini-batches in all trials of a search
  double loss() const;           // their mean
  double error() const;          // its standard error
  std::string said() const;      // "loss 0.8333 +- 0.0100", "diverged"
};

struct Trial {
  int number = 0;  // from 1, in this start of the program
  Setting setting;
  std::uint64_t iterations = 0;  // done
  double seconds = 0;
  Showing showing{};
  bool chosen = false;
  std::string reason{};  // why it was chosen, or why not
};

// Whether a challenger's losses are lower than the champion's: mini-batch by mini-batch, with the
// standard error of the mean difference.
struct Comparison {
  enum class Verdict { worse, tie, unsure, better };
  Verdict verdict = Verdict::tie;
  double gain = 0, error = 0;  // of loss
  std::string said() const;    // gain, error, and the rule that gave the verdict
};
Comparison compare(const Showing& challenger, const Showing& champion);

}  // namespace omni
