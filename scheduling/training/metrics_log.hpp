// MetricsLog writes the metrics file, which has one JSON object per line. Each line is flushed as
// it is written.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "runtime/data/damaged_images.hpp"
#include "runtime/files.hpp"
#include "scheduling/forecast/group_plan.hpp"
#include "scheduling/training/step_report.hpp"

namespace omni {

// Parses a line of a metrics file. It returns an object with an iteration, or null for a line that
// a crash cut short. It returns nothing if a metrics file cannot have such a line. `first` means
// that this is the first line of the file.
std::optional<nlohmann::json> metrics_object(const LineSource::Line& line, bool first);

// Rounds to the digits of a float, as more digits are not significant. Returns null if the value is
// not finite.
nlohmann::json metrics_number(double value);

class MetricsLog {
 public:
  // Refuses the files that open() would refuse, and changes no file.
  static Status check(const std::filesystem::path& path, bool resumes);

  // Opens the metrics file. Refuses a file that is not empty, unless it holds metrics and the run
  // resumes. Deletes lines of iterations that will be done again, so that no iteration appears
  // twice. New lines are appended. If the run resumes at iteration 0, the old file is renamed
  // instead.
  static Result<MetricsLog> open(const std::filesystem::path& path,
                                 std::optional<std::uint64_t> resumed_iteration);

  // Writes a line, whose first key must be the iteration.
  // Writes how ranks share mini-batches and groups, and on which nodes they are.
  Status rank_shares(std::uint64_t iteration, const std::string& shares, const std::string& nodes);
  Status record(const nlohmann::ordered_json& line);
  // Writes a line that says which Slurm job continues after `iteration`.
  Status job(std::uint64_t iteration);
  Status step(const StepReport& report);
  // Writes an evaluation, unless the last one in the file is of the same iteration, as after a
  // resume.
  Status evaluation(const EvaluationReport& report);
  bool has_evaluation(std::uint64_t iteration) const {
    return iteration > 0 && tested_ == iteration;
  }
  // Writes a row of the plan from which --groups auto chose the number of groups.
  Status planned(const GroupPlan::Row& row, bool chosen, std::uint64_t iteration);
  // Writes which image cannot be read. `training` says whether it is in the training set or in the
  // test set.
  Status damaged(const DamagedImage& image, bool training, std::uint64_t iteration);

  const std::filesystem::path& path() const { return path_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, Close>;
  MetricsLog(std::filesystem::path path, File file, std::uint64_t tested)
      : path_(std::move(path)), file_(std::move(file)), tested_(tested) {}

  std::filesystem::path path_;
  File file_;
  std::uint64_t tested_;  // iteration of the last evaluation; 0: none
};

}  // namespace omni
