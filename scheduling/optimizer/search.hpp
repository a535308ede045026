// Finds the learning rate, the momentum and the number of compute groups by trials (after the
// optimizer of Omnivore, Hadjis et al.). One setting is the champion, at first the given one.
// Challengers train from the same parameters on the same images; a challenger that is clearly
// better becomes the champion. Independent of how a trial trains.
#pragma once

#include <vector>

#include "runtime/result.hpp"
#include "scheduling/optimizer/setting.hpp"

namespace omni {

class TrialRunner {
 public:
  virtual ~TrialRunner() = default;
  // Trains from the start of the search for so many iterations. For the same setting it continues
  // up to that number. Errors other than divergence end the search.
  virtual Result<Showing> challenge(const Setting& setting, std::uint64_t iterations) = 0;
  virtual Result<Showing> defend(std::uint64_t iterations) = 0;  // the champion, likewise
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
  Setting setting;           // the champion's, unless nothing learns
  Fate fate = Fate::learns;  // of the champion
};

// ErrorKind::diverged when every trial diverges, although the rate is lowered.
Result<Found> search(const Setting& given, const SearchPlan& plan, TrialRunner& runner);

// A momentum covers 1 / (1 - momentum) iterations. A trial must be several times as long.
double longest_momentum(std::uint64_t iterations);

}  // namespace omni
