// SavedNumbers reads the numbers of a pilot from a checkpoint, one after another. It reads an
// impossible number as 0, and status() then returns an error.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/result.hpp"
#include "scheduling/pilots/loss_watch.hpp"

namespace omni {

class SavedNumbers {
 public:
  // No training has larger values than these bounds, and their sums and products do not overflow.
  static constexpr double kMostIterations = 1e12, kLargest = 1e30;

  explicit SavedNumbers(std::span<const double> numbers) : left_(numbers) {}

  double between(double low, double high) {
    const double number = left_.empty() ? NAN : left_.front();
    if (!left_.empty()) left_ = left_.subspan(1);
    if (number >= low && number <= high) return number;
    sound_ = false;
    return 0;
  }
  std::uint64_t count() { return static_cast<std::uint64_t>(between(0, kMostIterations)); }

  // Reads the watch that append() wrote.
  LossWatch::State watch() {
    LossWatch::State state;
    state.lowest = between(-kLargestLoss, INFINITY);  // infinite: there was no loss yet
    for (std::uint64_t* each : {&state.above, &state.risen, &state.since}) *each = count();
    for (auto* each : {&state.first, &state.recent}) *each = losses_of(count());
    return state;
  }
  std::optional<LossMean> mean() {
    const double losses = static_cast<double>(count()), mean = between(-kLargestLoss, kLargestLoss),
                 squares = between(0, kLargestLoss);
    return losses > 0 ? std::optional(LossMean{losses, mean, squares}) : std::nullopt;
  }

  // Reads the losses that append_losses() wrote. They must be the last numbers.
  LossWatch::State losses() {
    LossWatch::State state;
    state.lowest = between(-kLargest, kLargest);
    if (state.lowest == kLargest) state.lowest = INFINITY;
    state.above = count();
    while (!left_.empty()) state.recent.push_back(between(-kLargest, kLargest));
    return state;
  }

  Status status(std::string_view pilot) const {
    return sound_ && left_.empty() ? Status() : impossible(pilot);
  }
  static Error impossible(std::string_view pilot) {
    return {ErrorKind::data, "--resume",
            fmt::format("the checkpoint has impossible numbers of the pilot '{}'", pilot),
            "use another checkpoint"};
  }

 private:
  static constexpr double kLargestLoss = std::numeric_limits<double>::max();

  std::vector<double> losses_of(std::uint64_t count) {
    std::vector<double> losses;
    sound_ = sound_ && count <= left_.size();
    while (sound_ && losses.size() < count) losses.push_back(between(-kLargestLoss, kLargestLoss));
    return losses;
  }

  std::span<const double> left_;
  bool sound_ = true;
};

inline void append(std::vector<double>& numbers, const LossWatch::State& watch) {
  for (const double each : {watch.lowest, static_cast<double>(watch.above),
                            static_cast<double>(watch.risen), static_cast<double>(watch.since)})
    numbers.push_back(each);
  for (const auto* each : {&watch.first, &watch.recent}) {
    numbers.push_back(static_cast<double>(each->size()));
    numbers.insert(numbers.end(), each->begin(), each->end());
  }
}

// Writes the parts of a mean. A missing mean is written as a mean of no losses.
inline void append(std::vector<double>& numbers, const std::optional<LossMean>& mean) {
  const LossMean all = mean.value_or(LossMean{});
  numbers.insert(numbers.end(), {all.count, all.mean, all.squares});
}

inline void append_losses(std::vector<double>& numbers, const LossWatch::State& losses) {
  numbers.push_back(std::min(losses.lowest, SavedNumbers::kLargest));
  numbers.push_back(static_cast<double>(losses.above));
  numbers.insert(numbers.end(), losses.recent.begin(), losses.recent.end());
}

}  // namespace omni
