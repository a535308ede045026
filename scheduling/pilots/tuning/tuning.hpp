// Tuning is the state of --auto that a checkpoint keeps.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "scheduling/pilots/loss_mean.hpp"
#include "scheduling/pilots/saved_numbers.hpp"

namespace omni {

// When the state before a search is restored, the step is divided by this number.
inline constexpr double kMuchSmaller = 3.1622776601683795;

// Tuning has the settings that were found, which replace the solver's, and the iteration of the
// next search.
struct Tuning {
  double momentum = 0, learning_rate = 0;
  bool searches = true;            // false: the training is too short
  bool warm = false;               // something is learned: a loss was clearly below chance
  std::uint64_t next_search = 0;   // iteration; UINT64_MAX: none
  std::uint64_t returns = 0;       // how often earlier parameters were restored
  std::uint64_t changed = 0;       // iteration of the last search, return or other change
  bool unproven = false;           // true: no good state was saved since the last return
  double failing_step = 0;         // Found::fails of the last cold search; 0: not known
  std::map<int, double> failed{};  // by groups: with this step or larger ones a training diverged

  // Returns why the net cannot learn any more at this loss. Before it has learned anything, the
  // reason is a loss above that of guessing, with a step that is not far below the failing one.
  // Later the reason is a loss that is near that of guessing again. Returns nothing if the loss
  // shows no such reason.
  std::optional<std::string> failure(const LossMean& recent, double step, double chance) const;
  // Returns a larger step for a training that has learned nothing yet and whose step is far below
  // the failing one. Returns nothing if the step stays. `most` is the number of the training's
  // iterations.
  std::optional<double> raised(double step, int groups, std::uint64_t iteration,
                               std::uint64_t most) const;

  // Records that a training diverged with this step and this number of groups. Larger steps are
  // then known to diverge as well.
  void note_failed(int groups, double step);

  // Returns the numbers that a checkpoint keeps. `lost` is the number of trials' iterations that
  // were discarded.
  std::vector<double> numbers(std::uint64_t lost) const;
  static bool is_older(std::span<const double> numbers);  // true: an older program wrote them
  // Reads what numbers() of this or an older version returned, and returns `lost`.
  std::uint64_t take(SavedNumbers& read);
};

}  // namespace omni
