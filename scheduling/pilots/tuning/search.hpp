// Finds the learning rate, the momentum and the number of compute groups by trials (after the
// optimizer of Omnivore, Hadjis et al.). One setting is the champion, at first the given one.
// Challengers train from the same parameters on the same images; a challenger that is clearly
// better becomes the champion. Independent of how a trial trains.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/result.hpp"

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

// State of a trial, the worst first.
enum class TrialEnd {
  diverged,
  dead,       // the net says the same of all images
  at_chance,  // the loss is that of guessing
  behind,     // given up: a smaller step, and a loss that is surely higher
  learns,
};

struct TrialResult {
  TrialEnd end = TrialEnd::diverged;
  std::vector<double> losses{};  // of the same mini-batches in all trials of a search
  double loss() const;           // their mean
  double error() const;          // its standard error
  std::string text() const;      // "loss 0.8333 +- 0.0100", "diverged"
};

struct Trial {
  int number = 0;  // from 1, in this start of the program
  Setting setting;
  std::uint64_t iterations = 0;  // done
  double seconds = 0;
  TrialResult result{};
  bool chosen = false;
  std::string reason{};  // why it was chosen, or why not
};

// Whether a challenger's losses are lower than the champion's: mini-batch by mini-batch, with the
// standard error of the mean difference.
struct Comparison {
  enum class Verdict { worse, tie, unsure, better };
  Verdict verdict = Verdict::tie;
  double gain = 0, error = 0;  // of loss
  std::string text() const;    // gain, error, and the rule that gave the verdict
};
Comparison compare(const TrialResult& challenger, const TrialResult& champion);

class TrialRunner {
 public:
  virtual ~TrialRunner() = default;
  // Trains from the start of the search for so many iterations. For the same setting it continues
  // up to that number. Errors other than divergence end the search.
  virtual Result<TrialResult> challenge(const Setting& setting, std::uint64_t iterations) = 0;
  virtual Result<TrialResult> defend(std::uint64_t iterations) = 0;  // the champion, likewise
  virtual void promote() = 0;  // makes the last challenger the champion
  virtual bool can_afford(std::uint64_t iterations) const = 0;  // of one more trial
  virtual void decided(const std::string& reason) = 0;  // what becomes of the last challenger
};

struct SearchPlan {
  std::uint64_t length = 0;        // iterations of a trial at first
  bool cold = false;               // the best step may be far from the given one
  double highest_step = 0;         // it and larger ones have failed before; 0: none
  std::vector<int> more_groups{};  // numbers of groups that are worth a trial, the most first
  bool groups_first = false;       // they promise more than other steps
};

struct Found {
  Setting setting;                  // the champion's, unless nothing learns
  TrialEnd end = TrialEnd::learns;  // of the champion
};

// ErrorKind::diverged when every trial diverges, although the rate is lowered.
Result<Found> search(const Setting& given, const SearchPlan& plan, TrialRunner& runner);

}  // namespace omni
