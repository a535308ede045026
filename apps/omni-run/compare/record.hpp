// What `omni-run compare` trains: strategies by name, as sync, async:4, sync@512 (its mini-batch).
// And the folder of a comparison: what was asked, and the trainings that are done. compare.json
// holds both, compare.html shows them.
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
  std::string name;                // as users write it
  std::vector<std::string> words;  // of the training's command line

  std::string file_name() const;  // without : and @
};

// The list of --strategies. Two strategies of one name are refused.
Result<std::vector<NamedStrategy>> parse_strategies(std::string_view list);

class ComparisonRecord {
 public:
  // Makes the folder and holds its lock. Refuses a folder of another comparison; that of the same
  // one may have another target and another number of seeds.
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

// A row per strategy, the best one, and how sure that is.
std::string comparison_table(const perf::Comparison& comparison);

}  // namespace omni
