// Trainer runs a training from a state to its end. It does updates, evaluations and checkpoints,
// and pilots steer it. All computation is in tasks: the trainer submits them and reads losses.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "scheduling/training/evaluator.hpp"
#include "scheduling/training/stopwatch.hpp"
#include "scheduling/training/training_loop.hpp"

namespace omni {

// MakeClock makes a virtual clock for this number of groups.
using MakeClock = std::function<std::unique_ptr<VirtualClock>(int groups)>;

struct TrainerOptions {
  // `iterations` is the length of the training in mini-batches of the net's size. If groups take
  // other sizes, the training ends after the same number of samples.
  std::uint64_t iterations = 0;  // 0: no end
  SolverOptions solver{};
  std::uint64_t schedule = 0;          // length that the learning rate follows; 0: max_batches
  std::uint64_t evaluate_every = 0;    // iterations; 0: only at the end
  std::uint64_t checkpoint_every = 0;  // iterations; 0: never
  std::uint64_t snapshot_every = 0;    // iterations; 0: never
  bool traced = true;                  // tasks belong to iterations of the trace
  MakeStrategy strategy = async();
  std::vector<DataFeed*> feeds{};  // by group, if passes differ in size; empty: `train`
  MakeClock make_clock{};          // decides the order of groups; none: real time does
  // Sets the number of groups in use. Pilots call it. On several ranks it is collective.
  std::function<Status(int groups)> use_groups{};
};

// TrainerEvents are callbacks of a training. Each of them may be empty.
struct TrainerEvents {
  std::function<void(const StepReport&)> on_iteration{};  // called after every update
  // Returns whether on_step is called for this iteration. If is_reported is empty, on_step is
  // called for every iteration.
  std::function<bool(std::uint64_t iteration)> is_reported{};
  std::function<void(const StepReport&)> on_step{};  // the last iteration always calls it
  std::function<void(const EvaluationReport&)> on_evaluation{};
  // save_checkpoint is called when all updates up to state.iteration are done.
  std::function<Status(const TrainingState&)> save_checkpoint{};
  // Writes files for other programs in the middle of the training. A failure is only a warning.
  std::function<Status(const TrainingState&)> save_snapshot{};
  // Marks the checkpoint that was saved last as the best so far, so that it is kept.
  std::function<Status()> keep_best{};
  std::function<void(const std::string&)> say{}, warn{};  // messages of pilots to the user
  // Adds a pilot's line to the metrics file; the first key of the line is the iteration.
  std::function<void(const nlohmann::ordered_json&)> record{};
};

class Trainer {
 public:
  // Returns the number of mini-batches that the feed `train` must have room for.
  static int slots(const ComputeGroups& groups);
  static int slots(int groups, int subdivisions);
  // Returns the number of mini-batches for which the feed needs room, if the number of passes
  // differs between updates.
  static int slots_of_passes(int groups) { return groups * kUnderWay * (GroupRun::kHeld + 1); }

  // `test` may be null; then nothing is evaluated. Pilots are called in the order of `pilots`.
  Trainer(ComputeGroups& groups, DataFeed& train, DataFeed* test, TrainingState state,
          TrainerOptions options, TrainerEvents events, std::vector<Pilot*> pilots = {});

  // Trains to the end. After a stop request it finishes the iterations under way, saves, and
  // returns ErrorKind::interrupted. It also finishes them when the training diverges. Afterwards
  // the caller evaluates the result with evaluate_now(). That does nothing if a pilot ended the
  // training after an evaluation and the parameters are still the same.
  Status run();
  Status evaluate_now();

  const TrainingState& state() const { return state_; }
  double seconds() const { return seconds_before_ + training_time_.seconds(); }
  // Returns the simulated seconds of all virtual clocks of the training together; nothing if it has
  // no virtual clock.
  std::optional<double> simulated_seconds() const;

  // Pilots may call the functions below while no task is under way.
  ComputeGroups& groups() { return groups_; }
  DataFeed* test() { return test_; }  // null: there is no test set
  // Evaluates the model that the groups train, without a report.
  Result<Tally> evaluate(DataFeed& test, const UseOutputs& use = {});
  DataFeed& feed() { return options_.feeds.empty() ? train_ : *options_.feeds.front(); }
  const TrainerOptions& options() const { return options_; }
  const SolverOptions& solver() const { return solver_; }  // without the pilots' Steering
  TrainingState& state() { return state_; }
  Status use_groups(int count) {
    return groups_.count() != count ? options_.use_groups(count) : Status();
  }
  void say(const std::string& text) const {
    if (events_.say) events_.say(text);
  }
  void warn(const std::string& text) const;  // without a callback it writes to the log
  void record(const nlohmann::ordered_json& line) const {
    if (events_.record) events_.record(line);
  }
  Status keep_as_best();             // saves a checkpoint first
  Status save_changed();             // a pilot has changed the parameters
  void end_here() { ends_ = true; }  // the training is complete
  // A pilot calls this when it has changed the parameters of a complete training.
  void changed_result() {
    state_.saved_at.reset();
    evaluated_ = false;
  }
  void add_seconds(double seconds) { seconds_before_ += seconds; }

 private:
  std::uint64_t samples_of(std::uint64_t iterations) const {
    return iterations * groups_.net().options().batch;
  }
  std::uint64_t last() const;       // the sample to train up to; UINT64_MAX: no end
  std::uint64_t next_stop() const;  // the sample before which all groups come to rest
  bool finished() const { return state_.samples >= last(); }
  bool rest_is_due() const;
  bool must_stop() const;  // true: a rank was asked to stop, or a pilot ended the training
  Status train();          // returns when the training is complete or must stop
  void start_loop();
  void end_loop();  // saves its state in state_, from which the next loop goes on
  Advice judge(const FinishedUpdate& finished);
  void report(const FinishedUpdate& finished);
  std::uint64_t pilots_rest() const;  // the sample of the earliest Pilot::next_rest()
  // Ends the training loop and calls the function `what` for each pilot.
  Status ask_pilots(const std::function<Status(Pilot&)>& what);
  Status catch_up(std::uint64_t before);
  Status go_back(Error error);
  void note();
  Status save();
  void save_in_passing();  // a failure is only a warning
  void save_snapshot_in_passing();
  Status evaluate_in_passing();  // a stop request is no error
  Status begin_pilots();
  double epochs_of(std::uint64_t samples) const {
    return static_cast<double>(samples) / static_cast<double>(train_.dataset().size());
  }

  ComputeGroups& groups_;
  DataFeed& train_;
  DataFeed* test_;
  TrainingState state_;
  TrainerOptions options_;
  TrainerEvents events_;
  std::vector<Pilot*> pilots_;
  SolverOptions solver_;
  std::unique_ptr<VirtualClock> clock_;  // used by loop_
  std::optional<TrainingLoop> loop_;  // none: no task is under way, and pilots may change settings
  std::size_t begun_ = 0;             // the first so many pilots have begun
  bool ends_ = false;                 // a pilot said that the training is complete
  bool pilot_asked_ = false;          // a pilot advised Advice::rest
  bool some_rank_stops_ = false;
  bool evaluated_ = false;      // the present parameters are evaluated
  bool merged_at_end_ = false;  // the result was merged after the last checkpoint
  std::uint64_t started_at_;    // iteration
  StepReport report_;
  std::optional<EvaluationReport> evaluation_;  // the last one
  Stopwatch training_time_{false};
  double seconds_before_;  // of earlier processes, and seconds that pilots added
  double reported_seconds_ = 0;
  std::uint64_t unreported_updates_ = 0, unreported_samples_ = 0;
  std::int64_t unreported_staleness_ = 0;
};

}  // namespace omni
