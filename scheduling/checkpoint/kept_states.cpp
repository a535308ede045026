#include "scheduling/checkpoint/kept_states.hpp"

#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "scheduling/checkpoint/saved_values.hpp"
#include "scheduling/checkpoint/training_snapshot.hpp"

namespace omni {
namespace {

constexpr std::string_view kKept = "kept_";
constexpr std::size_t kNumbersOfKept = 4;  // iteration, samples, averages of loss and accuracy
constexpr double kNoAccuracy = -1;

std::string prefix_of_kept(std::string_view pilot, std::size_t number) {
  return fmt::format("kept/{}/{}/", pilot, number);
}

Result<std::shared_ptr<const TrainingSnapshot>> saved_state(const Checkpoint& checkpoint, Net& net,
                                                            const std::string& prefix,
                                                            TrainingState at) {
  Status status;
  std::vector<std::vector<float>> arrays;
  for_each_array(net, [&](const std::string& name, const Param& param, const Tensor&) {
    if (!status) return;
    const auto saved = saved_values(checkpoint, prefix + name, param);
    if (saved)
      arrays.emplace_back(saved->begin(), saved->end());
    else
      status = saved.error();
  });
  OMNI_CHECK(std::move(status));
  return std::make_shared<const TrainingSnapshot>(std::move(at), std::move(arrays));
}

}  // namespace

void save_kept(Snapshot& snapshot, Net& net, const TrainingState& state) {
  for (const auto& [pilot, states] : state.kept) {
    std::vector<double> numbers;
    for (std::size_t number = 0; number < states.size(); ++number) {
      const TrainingState& at = states[number]->state();
      const std::string prefix = prefix_of_kept(pilot, number);
      numbers.insert(numbers.end(),
                     {static_cast<double>(at.iteration), static_cast<double>(at.samples),
                      at.average_loss, at.average_accuracy.value_or(kNoAccuracy)});
      states[number]->visit_shared(
          net, [&](const std::string& name, const Param& param, const std::vector<float>& values) {
            snapshot.arrays.push_back({prefix + name, param.shape, values});
          });
    }
    if (!states.empty()) snapshot.fields.set(std::string(kKept) + pilot, listed(numbers));
  }
}

Status restore_kept(const Checkpoint& checkpoint, Net& net, TrainingState& state) {
  for (const auto& [key, text] : checkpoint.fields.entries()) {
    if (!key.starts_with(kKept)) continue;
    const std::string pilot = key.substr(kKept.size());
    OMNI_TRY(const std::vector<double> numbers, saved_list<double>(checkpoint, key));
    if (numbers.size() % kNumbersOfKept != 0) return unreadable(checkpoint, key);
    for (std::size_t number = 0; number < numbers.size() / kNumbersOfKept; ++number) {
      const std::span<const double> own =
          std::span(numbers).subspan(number * kNumbersOfKept, kNumbersOfKept);
      const bool sound = own[0] >= 0 && own[0] <= static_cast<double>(state.iteration) &&
                         own[1] >= 0 && own[1] <= static_cast<double>(state.samples) &&
                         std::isfinite(own[2]) &&
                         (own[3] == kNoAccuracy || (own[3] >= 0 && own[3] <= 1));
      if (!sound) return unreadable(checkpoint, key);
      TrainingState at{.seed = state.seed,
                       .iteration = static_cast<std::uint64_t>(own[0]),
                       .samples = static_cast<std::uint64_t>(own[1]),
                       .average_loss = own[2]};
      if (own[3] != kNoAccuracy) at.average_accuracy = own[3];
      OMNI_TRY(auto kept,
               saved_state(checkpoint, net, prefix_of_kept(pilot, number), std::move(at)));
      state.kept[pilot].push_back(std::move(kept));
    }
  }
  return {};
}

}  // namespace omni
