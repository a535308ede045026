#include "apps/omni-run/training/training_report.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "runtime/communicator/ranks.hpp"

namespace omni {

TrainingReport::TrainingReport(const TrainArguments& arguments, CommonLine* common,
                               const std::string& name)
    : progress_(arguments.common.quiet, common, name),
      in_ensemble_(common != nullptr),
      caffe_log_(arguments.logs_as_caffe ? std::optional(CaffeLog(arguments.display))
                                         : std::nullopt),
      display_(arguments.display) {}

Status TrainingReport::open_metrics(const std::filesystem::path& file,
                                    std::optional<std::uint64_t> resumed,
                                    std::optional<std::uint64_t> job_from) {
  OMNI_TRY(metrics_, MetricsLog::open(file, resumed));
  return job_from ? metrics_->job(*job_from) : Status();
}

void TrainingReport::begin_caffe_log(const TrainableNet& net) {
  if (caffe_log_) caffe_log_->begin(net.name, net.solver.policy, net.averaged_losses);
}

void TrainingReport::iteration(const StepReport& report) {
  caffe_log_ ? caffe_log_->iteration(report) : progress_.iteration(report);
}

bool TrainingReport::is_reported(std::uint64_t iteration) const {
  return caffe_log_ ? caffe_log_->is_reported(iteration) : iteration % display_ == 0;
}

void TrainingReport::step(const StepReport& report, const SharedStream* stream) {
  caffe_log_ ? caffe_log_->step(report) : progress_.step(report);
  StepReport with = report;
  if (stream != nullptr) with.figures.push_back({"stream_fill", stream->fill()});
  if (in_ensemble_ && ranks::place_in_job().size > 1)
    with.figures.push_back({"ranks", static_cast<double>(ranks::size())});
  record(&MetricsLog::step, with);
}

void TrainingReport::evaluation(const EvaluationReport& report, int classes) {
  caffe_log_ ? caffe_log_->evaluation(report, classes) : progress_.evaluation(report, classes);
  record(&MetricsLog::evaluation, report);
}

void TrainingReport::saved(const std::string& file) {
  finish_line();
  std::error_code ignored;
  if (!caffe_log_)
    log::info("saved {} ({} bytes)", file, std::filesystem::file_size(file, ignored));
}

void TrainingReport::saved_snapshot(const std::string& file, const std::string& snapshot) {
  if (caffe_log_) return caffe_log_->snapshot(file, snapshot);
  if (!snapshot.empty()) say("saved " + snapshot);
}

void TrainingReport::end_caffe_log() const {
  if (caffe_log_) caffe_log_->end();
}

void TrainingReport::say(const std::string& text) {
  finish_line();
  log::info("{}", text);
}

void TrainingReport::warn(const std::string& text) {
  finish_line();
  log::warn("{}", text);
}

}  // namespace omni
