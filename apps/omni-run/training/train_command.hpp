// TrainCommand runs a training from its command line to its end.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "apps/omni-run/training/damage_report.hpp"
#include "apps/omni-run/training/parameter_output.hpp"
#include "apps/omni-run/training/run_folder.hpp"
#include "apps/omni-run/training/time_limit.hpp"
#include "apps/omni-run/training/train_inputs.hpp"
#include "apps/omni-run/training/training_report.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/tasks/recorder.hpp"

namespace omni {

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
  Status check_test_images();
  Status join_stream();
  Status train();
  // The training becomes so short that it has about twice as many samples. prepare_samples() then
  // prepares these in place of train(), and returns how many of the second half were ready in a
  // second.
  void shorten(std::uint64_t half);
  Result<double> prepare_samples();

  // The following functions tell what the training has done.
  const std::optional<EvaluationReport>& last_evaluation() const { return last_; }
  const TrainableNet& spec() const { return inputs_.spec; }
  // Returns the test set; null: there is none.
  DataFeed* test() { return training_ ? training_->test() : nullptr; }
  // Returns the stream of its training samples; null if the training prepares them itself.
  SharedStream* stream() { return inputs_.shape.images_per_pass.empty() ? stream_ : nullptr; }
  std::uint64_t last_sample() const {  // the end of those that it reads
    return planned() == 0 ? UINT64_MAX : planned() * groups().net().options().batch;
  }
  // Returns true if nothing is left to train.
  bool is_finished() const { return planned() != 0 && start_.samples >= last_sample(); }
  std::uint64_t planned() const { return inputs_.iterations; }        // 0: no end
  std::uint64_t trained_samples() const { return trained_samples_; }  // from any thread
  const TrainingState& state() const { return trained_ ? training_->trainer().state() : start_; }

 private:
  // The following functions are in train_command.cpp.
  Status prepare_folder();
  Status start();
  Status settle_groups();
  void make_training();
  Status make_clock();
  bool warn_of_idle(VirtualClock clock);

  // The following functions are in train_loop.cpp.
  Status open_metrics();
  Status ended(Status status);
  TrainerOptions lengths();
  TrainerEvents events();
  Status save(const TrainingState& state);
  void print_summary() const;

  ComputeGroups& groups() { return training_ ? training_->groups() : *inputs_.groups; }
  const ComputeGroups& groups() const { return training_ ? training_->groups() : *inputs_.groups; }
  Net& net() { return groups().net(); }

  TrainInputs inputs_;
  SharedTrainings* shared_;
  SharedStream* stream_ = nullptr;
  std::optional<RunFolder> folder_;
  TimeLimit time_limit_;
  std::optional<Session> own_session_;
  const Session* session_ = nullptr;                // null: it has not begun
  std::optional<ranks::IdleWorkers> idle_workers_;  // none: there is one rank
  GroupPlan group_plan_;
  MakeClock make_clock_;  // null: real time
  std::optional<Training> training_;
  TrainingState start_;
  std::unique_ptr<Recorder> recorder_;
  TrainingReport report_;
  std::optional<DamageReport> damage_;               // none: the data are not opened yet
  std::optional<ParameterOutput> parameter_output_;  // none: there is no training yet
  std::optional<EvaluationReport> last_;             // the last evaluation
  std::atomic<std::uint64_t> trained_samples_ = 0;
  bool saved_ = false;    // this process has saved a checkpoint
  bool trained_ = false;  // Training::run() was called
};

}  // namespace omni
