// The metrics file: one JSON object per line, flushed as it is written.
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

// What a line of a metrics file holds: an object with its iteration; null: the beginning of one, as
// a crash leaves it, or after other lines zeros alone. Nothing: no metrics file has such a line.
std::optional<nlohmann::json> metrics_object(const LineSource::Line& line, bool first);

// With the digits of a float, as more would say nothing. null: it is not finite.
nlohmann::json metrics_number(double value);

class MetricsLog {
 public:
  // What open() would refuse is refused. Changes nothing.
  static Status check(const std::filesystem::path& path, bool resumes);

  // A file with something in it is refused, unless it holds metrics and the run resumes: then lines
  // of iterations that will be done again are dropped, so that no iteration appears twice, and
  // others are appended. At iteration 0 the file is renamed instead.
  static Result<MetricsLog> open(const std::filesystem::path& path,
                                 std::optional<std::uint64_t> resumed_iteration);

  // One line, which has the iteration first.
  Status record(const nlohmann::ordered_json& line);
  // The Slurm job that continues after `iteration`.
  Status job(std::uint64_t iteration);
  Status step(const StepReport& report);
  // Once for an iteration: what an earlier start wrote is not written again.
  Status evaluation(const EvaluationReport& report);
  bool has_evaluation(std::uint64_t iteration) const {
    return iteration > 0 && tested_ == iteration;
  }
  // A number of groups that --groups auto had to choose from, before `iteration`.
  Status planned(const GroupPlan::Row& row, bool chosen, std::uint64_t iteration);
  // An image of the training or the test set that cannot be read.
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
