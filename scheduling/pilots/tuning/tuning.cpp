#include "scheduling/pilots/tuning/tuning.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "scheduling/groups/compute_groups.hpp"
#include "scheduling/groups/group_layout.hpp"
#include "scheduling/pilots/tuning/step_range.hpp"

namespace omni {
namespace {

// The first number in a checkpoint. In older checkpoints the first number is the momentum, which is
// below 1.
constexpr double kLayout = 2;

// A step below 1 / (2 kSmall) of the failing one is raised if nothing is learned in 1 / kPart of
// the iterations. It becomes ten times as large, but at most 1 / kSmall of the failing one. Below 1
// / kTiny of the failing one, a step is too small for a loss above chance to be its failure.
constexpr double kSmall = 100, kTiny = 1000;
constexpr std::uint64_t kPart = 10;
constexpr double kBack = 0.98;  // a loss above this share of chance is back there

}  // namespace

// With steps that are far too small the loss stays above chance, as it is at first. Such a loss is
// no failure.
std::optional<std::string> Tuning::failure(const LossMean& recent, double step,
                                           double chance) const {
  const bool above = !warm && failing_step > 0 && step > failing_step / kTiny &&
                     surely_above_chance(recent, chance);
  const bool back = warm && recent.mean > kBack * chance;
  if (!above && !back) return {};
  return fmt::format("the loss is {:.4g}, {} that of guessing, {:.4g}", recent.mean,
                     above ? "above" : "back near", chance);
}

std::optional<double> Tuning::raised(double step, int groups, std::uint64_t iteration,
                                     std::uint64_t most) const {
  const double small = failing_step / kSmall, larger = std::min(10 * step, small);
  if (!(2 * step < small) || iteration < changed + most / kPart) return {};
  const auto known = failed.find(groups);
  if (known != failed.end() && larger > known->second / kMuchSmaller) return {};
  return larger;
}

void Tuning::note_failed(int groups, double step) {
  const auto [known, added] = failed.emplace(groups, step);
  if (!added) known->second = std::min(known->second, step);
}

std::vector<double> Tuning::numbers(std::uint64_t lost) const {
  const auto none = static_cast<std::uint64_t>(SavedNumbers::kMostIterations);
  std::vector<double> all{kLayout,
                          momentum,
                          learning_rate,
                          searches ? 1.0 : 0.0,
                          warm ? 1.0 : 0.0,
                          static_cast<double>(std::min(next_search, none)),
                          static_cast<double>(lost),
                          static_cast<double>(returns),
                          static_cast<double>(changed),
                          unproven ? 1.0 : 0.0,
                          failing_step,
                          static_cast<double>(failed.size())};
  for (const auto& [groups, step] : failed)
    all.insert(all.end(), {static_cast<double>(groups), step});
  return all;
}

bool Tuning::is_older(std::span<const double> numbers) { return numbers.front() != kLayout; }

std::uint64_t Tuning::take(SavedNumbers& read) {
  const double first = read.between(-1, kLayout);
  const bool older = first != kLayout;
  momentum = older ? first : read.between(-1, 1);
  learning_rate = read.between(0, SavedNumbers::kLargest);
  if (!older) searches = read.between(0, 1) != 0;
  warm = read.between(0, 1) != 0;
  next_search = read.count();
  if (static_cast<double>(next_search) == SavedNumbers::kMostIterations) next_search = UINT64_MAX;
  const std::uint64_t lost = read.count();
  if (older) {
    if (const double step = read.between(0, SavedNumbers::kLargest); step > 0) failed[1] = step;
    returns = read.count();
    return lost;
  }
  returns = read.count();
  changed = read.count();
  unproven = read.between(0, 1) != 0;
  failing_step = read.between(0, SavedNumbers::kLargest);
  const auto count = static_cast<int>(read.between(0, kMostGroups));
  for (int i = 0; i < count; ++i) {
    const auto groups = static_cast<int>(read.between(1, kMostGroups));
    failed[groups] = read.between(0, SavedNumbers::kLargest);
  }
  return lost;
}

}  // namespace omni
