// TrainCommand runs a training from its command line to its end, in steps.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "apps/omni-run/caffe_log.hpp"
#include "apps/omni-run/progress.hpp"
#include "apps/omni-run/training/group_options.hpp"
#include "apps/omni-run/training/job_check.hpp"
#include "apps/omni-run/training/run_folder.hpp"
#include "apps/omni-run/training/time_limit.hpp"
#include "apps/omni-run/training_arguments.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/data/damaged_images.hpp"
#include "runtime/data/feed/data_feed.hpp"
#include "runtime/log.hpp"
#include "runtime/tasks/recorder.hpp"
#include "scheduling/forecast/group_plan.hpp"
#include "scheduling/forecast/virtual_clock.hpp"
#include "scheduling/training/metrics_log.hpp"
#include "scheduling/training/training.hpp"

namespace omni {

class SharedTrainings;

class TrainCommand {
 public:
  // `shared` is set if the training is one of several in this process; this one is called `name`.
  // It is null if the training is alone. `make_pilot` is PilotOptions::make_another.
  explicit TrainCommand(TrainArguments arguments, SharedTrainings* shared = nullptr,
                        const std::string& name = "",
                        std::function<std::unique_ptr<Pilot>()> make_pilot = {});
  Status run();
  // The two halves of run(): all before the first mini-batch; all from there on. In between, when
  // all are prepared, trainings that share samples check the test images and join the stream.
  Status prepare();
  Status check_test_images() { return check_images(); }
  Status join_stream();
  Status train();
  Status check_for_job(const ExpectedJob& job);  // job_check.cpp

  // The following functions tell what the training has done.
  const std::optional<EvaluationReport>& last_evaluation() const { return last_; }
  const TrainableNet& spec() const { return spec_; }
  // Returns the test set; null: there is none.
  DataFeed* test() { return training_ ? training_->test() : nullptr; }
  // Returns the stream of its training samples; null if the training prepares them itself.
  SharedStream* stream() { return shape_.images_per_pass.empty() ? stream_ : nullptr; }
  std::uint64_t last_sample() const {  // the end of those that it reads
    return iterations_ == 0 ? UINT64_MAX : iterations_ * groups().net().options().batch;
  }
  // Returns true if nothing is left to train.
  bool is_finished() const {
    return iterations_ != 0 && start_.samples >= iterations_ * groups().net().options().batch;
  }
  std::uint64_t planned() const { return iterations_; }  // 0: no end
  const TrainingState& state() const { return trained_ ? training_->trainer().state() : start_; }

 private:
  // The following functions are in setup_steps.cpp. Errors that can be found early are found before
  // any change.
  Status open_nets();
  Status open_groups_again();  // after the number of groups or their shape has changed
  Status check();
  Status try_places();
  Status find_origin();
  Status prepare_folder();
  Status start();
  Status settle_groups();
  void make_training();
  Status make_clock();
  bool warn_of_idle(VirtualClock clock);
  Result<TrainingState> starting_point();
  void align(TrainingState& state) const;

  // The following functions are in rank_steps.cpp.
  Status compare_ranks();
  Status compare_parameters(std::string_view option);
  Status save(const TrainingState& state);

  // The following functions are in loop_steps.cpp.
  Status open_metrics();
  Status ended(Status status);
  PilotOptions pilot_options();
  std::uint64_t checkpoint_bytes();  // rough size of a checkpoint
  TrainerOptions lengths();
  TrainerEvents events();

  // These are in snapshot_steps.cpp.
  Status check_snapshots();
  std::string snapshot_name(std::uint64_t iteration) const;  // of the .caffemodel
  // Writes the parameters and, with a solver of Caffe, what it remembers, on this rank.
  Status save_parameters(const std::string& file, const TrainingState& at);
  Status save_snapshot(const TrainingState& at);  // all ranks call it
  Status gather_for_snapshot();
  // Calls one of MetricsLog's functions to write `facts`. A failure is only a warning, so that it
  // does not end the training.
  void record(auto write, const auto&... facts) {
    if (!metrics_) return;
    if (Status written = (*metrics_.*write)(facts...); !written) {
      log::warn("{}; no more metrics", written.error().message());
      metrics_.reset();
    }
  }
  void print_summary() const;

  // The following functions are in data_steps.cpp.
  Status open_images();
  Status stage();
  std::vector<DamagedImages*> damaged_sets() const;  // the sets in which damaged images are skipped
  Status check_images();
  void name_damaged(std::uint64_t iteration);
  void share_damaged(std::uint64_t iteration);
  void count_damaged() const;

  ComputeGroups& groups() { return training_ ? training_->groups() : *groups_; }
  const ComputeGroups& groups() const { return training_ ? training_->groups() : *groups_; }
  Net& net() { return groups().net(); }

  TrainArguments arguments_;
  SharedTrainings* shared_;
  SharedStream* stream_ = nullptr;
  std::function<std::unique_ptr<Pilot>()> make_pilot_;
  TrainableNet spec_;
  StrategyChoice strategy_;
  GroupsPlan shape_;
  Asynchrony asynchrony_ = Asynchrony::free;
  std::optional<Machine> machine_;
  std::optional<ComputeGroups> groups_;   // none: training_ has them
  std::optional<Checkpoint> checkpoint_;  // the training resumes from it; none: it starts afresh
  bool goes_on_ = false;                  // the training resumes in the checkpoint's run folder
  std::uint64_t seed_ = 0;
  std::optional<std::uint64_t> data_seed_;  // none: seed_
  std::shared_ptr<DatasetPair> data_;
  std::optional<RunFolder> folder_;
  TimeLimit time_limit_;
  std::optional<Session> own_session_;
  const Session* session_ = nullptr;                // null: it has not begun
  std::optional<ranks::IdleWorkers> idle_workers_;  // none: there is one rank
  std::uint64_t iterations_ = 0;
  GroupPlan group_plan_;
  MakeClock make_clock_;  // null: real time
  std::optional<Training> training_;
  RunIdentity identity_;
  TrainingState start_;
  std::unique_ptr<Recorder> recorder_;
  std::optional<MetricsLog> metrics_;
  std::vector<std::pair<DamagedImage, bool>> unrecorded_;  // true: it is of the training set
  std::optional<CaffeLog> caffe_log_;                      // --log caffe
  Progress progress_;
  std::optional<EvaluationReport> last_;  // the last evaluation
  bool saved_ = false;                    // this process has saved a checkpoint
  bool trained_ = false;                  // Training::run() was called
};

}  // namespace omni
