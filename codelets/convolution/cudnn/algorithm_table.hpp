// The table of cuDNN's algorithms.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "codelets/cuda/choice_table.hpp"

namespace omni {

// cuDNN's own numbers.
struct AlgorithmChoice {
  int algorithm = 0;
  int math = 0;  // how it multiplies
};

class AlgorithmTable {
 public:
  static AlgorithmTable shared(const std::string& device, std::size_t version) {
    return AlgorithmTable(ChoiceTable::shared(device, {"cuDNN", version, 2}));
  }

  std::optional<AlgorithmChoice> choose(
      const std::string& key, const std::function<bool(const AlgorithmChoice&)>& works,
      const std::function<std::optional<AlgorithmChoice>()>& measure) {
    const auto choice = [](const ChoiceTable::Numbers& numbers) {
      return AlgorithmChoice{static_cast<int>(numbers[0]), static_cast<int>(numbers[1])};
    };
    const auto found = table_.choose(
        key, [&](const auto& numbers) { return works(choice(numbers)); },
        [&]() -> std::optional<ChoiceTable::Numbers> {
          if (const auto measured = measure())
            return ChoiceTable::Numbers{static_cast<std::uint64_t>(measured->algorithm),
                                        static_cast<std::uint64_t>(measured->math)};
          return std::nullopt;
        });
    if (!found) return std::nullopt;
    return choice(*found);
  }

 private:
  explicit AlgorithmTable(ChoiceTable& table) : table_(table) {}
  ChoiceTable& table_;
};

}  // namespace omni
