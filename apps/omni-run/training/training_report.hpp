// TrainingReport tells how a training goes: on the terminal or to Caffe's scripts, and in the file
// of --metrics.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "apps/omni-run/caffe_log.hpp"
#include "apps/omni-run/progress.hpp"
#include "apps/omni-run/training_arguments.hpp"
#include "runtime/data/feed/shared_stream.hpp"
#include "runtime/log.hpp"
#include "scheduling/training/metrics_log.hpp"

namespace omni {

class TrainingReport {
 public:
  // `common` and `name` are those of Progress.
  TrainingReport(const TrainArguments& arguments, CommonLine* common, const std::string& name);

  // From now on metrics are written. MetricsLog::open() explains `resumed`. `job_from` is the
  // iteration after which a Slurm job continues; none: there is no such job.
  Status open_metrics(const std::filesystem::path& file, std::optional<std::uint64_t> resumed,
                      std::optional<std::uint64_t> job_from);
  bool has_metrics() const { return metrics_.has_value(); }
  // Returns true if the metrics have an evaluation of this iteration.
  bool has_evaluation(std::uint64_t iteration) const {
    return metrics_ && metrics_->has_evaluation(iteration);
  }
  // Calls one of MetricsLog's functions to write `facts`. A failure is only a warning, so that it
  // does not end the training.
  void record(auto write, const auto&... facts) {
    if (!metrics_) return;
    if (Status written = (*metrics_.*write)(facts...); !written) {
      log::warn("{}; no more metrics", written.error().message());
      metrics_.reset();
    }
  }

  void begin_caffe_log(const TrainableNet& net);  // prints nothing without --log caffe
  void end_caffe_log() const;
  void iteration(const StepReport& report);
  bool is_reported(std::uint64_t iteration) const;
  // `stream` is where the training reads its samples; null: it prepares them itself.
  void step(const StepReport& report, const SharedStream* stream);
  void evaluation(const EvaluationReport& report, int classes);
  void saved(const std::string& file);  // a file of parameters
  // `snapshot` is the .solverstate beside a file of parameters; "": there is none.
  void saved_snapshot(const std::string& file, const std::string& snapshot);
  void say(const std::string& text);
  void warn(const std::string& text);
  void finish_line() { progress_.finish_line(); }  // so that other output starts on its own line

 private:
  Progress progress_;
  bool in_ensemble_;
  std::optional<CaffeLog> caffe_log_;  // --log caffe
  std::uint64_t display_;
  std::optional<MetricsLog> metrics_;
};

}  // namespace omni
