#include "scheduling/pilots/tuning/tuning.hpp"

#include <algorithm>

#include "scheduling/groups/compute_groups.hpp"
#include "scheduling/groups/group_layout.hpp"

namespace omni {
namespace {

// The first number in checkpoints; older ones begin with the momentum.
constexpr double kLayout = 2;

}  // namespace

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
