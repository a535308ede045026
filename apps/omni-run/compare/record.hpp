// This header reads the strategies of `omni-run compare`, as sync, async:4, sync@512 (with the
// mini-batch). ComparisonRecord is the folder of a comparison: compare.json has the settings and
// the results of trainings that are done; compare.html shows them.
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "apps/omni-run/command_arguments.hpp"
#include "perf/comparison/comparison.hpp"
#include "runtime/result.hpp"
#include "scheduling/checkpoint/run_lock.hpp"

namespace omni {

struct NamedStrategy {
  std::string name;                // as in "async:4@512"
  std::vector<std::string> words;  // words of the training's command line

  std::string file_name() const;  // the name without : and @
};

// Parses the list of --strategies. Two strategies of the same name are refused.
Result<std::vector<NamedStrategy>> parse_strategies(std::string_view list);

class ComparisonRecord {
 public:
  // Makes the folder and holds its lock. Refuses the folder of a comparison with other settings;
  // only the target and the number of seeds may differ.
  static Result<ComparisonRecord> open(const CompareArguments& arguments,
                                       const std::vector<NamedStrategy>& strategies);

  bool has(const std::string& strategy, int seed) const;
  Status add(perf::Training training);  // writes both files
  Status write() const;

  std::filesystem::path path(const std::string& name) const { return folder_ / name; }
  const std::vector<perf::Training>& trainings() const { return trainings_; }
  std::size_t strategies() const { return strategies_.size(); }
  perf::Comparison comparison() const { return perf::compare(strategies_, trainings_, target_); }
  nlohmann::ordered_json json() const;

 private:
  ComparisonRecord(std::filesystem::path folder, RunLock lock)
      : folder_(std::move(folder)), lock_(std::move(lock)) {}
  Status read();

  std::filesystem::path folder_;
  RunLock lock_;
  nlohmann::ordered_json asked_;
  std::vector<std::string> strategies_;
  double target_ = 0;
  int seeds_ = 0;
  std::vector<perf::Training> trainings_;
};

// Returns a table with a row for each strategy, and lines with the best strategy and how certain
// its lead is.
std::string comparison_table(const perf::Comparison& comparison);

}  // namespace omni
