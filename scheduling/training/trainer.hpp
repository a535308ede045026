// A training from a state to its end: updates, evaluations, checkpoints, and pilots that steer it.
// Everything that computes is a task; the training submits them and reads losses.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "scheduling/training/stopwatch.hpp"
#include "scheduling/training/training_loop.hpp"

namespace omni {

// Makes a virtual clock for so many groups.
using MakeClock = std::function<std::unique_ptr<VirtualClock>(int groups)>;

struct TrainerOptions {
  // Length of the training in mini-batches of the net's size. If groups take other sizes, it ends
  // after the same number of samples.
  std::uint64_t iterations = 0;  // 0: no end
  SolverOptions solver{};
  std::uint64_t schedule = 0;          // length that the learning rate follows; 0: max_batches
  std::uint64_t evaluate_every = 0;    // iterations; 0: only at the end
  std::uint64_t checkpoint_every = 0;  // iterations; 0: never
  bool traced = true;                  // tasks belong to iterations of the trace
  MakeStrategy strategy = async();
  std::vector<DataFeed*> feeds{};  // by group, where they take mini-batches of other sizes
  MakeClock make_clock{};          // decides the order of groups; none: real time does
  // Puts so many groups to work, for pilots that change their number.
  std::function<void(int groups)> use_groups{};
};

// Callbacks of a training. Each may be empty.
struct TrainerEvents {
  std::function<void(const StepReport&)> on_iteration{};       // every one
  std::function<bool(std::uint64_t iteration)> is_reported{};  // by on_step; empty: each one is
  std::function<void(const StepReport&)> on_step{};            // the last one, too
  std::function<void(const EvaluationReport&)> on_evaluation{};
  // All updates up to state.iteration are done.
  std::function<Status(const TrainingState&)> save_checkpoint{};
  // The checkpoint that was saved last stays, as the best so far.
  std::function<Status()> keep_best{};
  // What pilots tell people, and what they add to the metrics: a line with the iteration first.
  std::function<void(const std::string&)> say{}, warn{};
  std::function<void(const nlohmann::ordered_json&)> record{};
};

class Trainer {
 public:
  // Mini-batches that `train` must have room for.
  static int slots(const ComputeGroups& groups);
  static int slots(int groups, int subdivisions);
  static int slots_of_passes(int groups) {  // where updates take varying numbers of passes
    return groups * kUnderWay * (GroupRun::kHeld + 1);
  }

  // `test` may be null: no evaluation. Pilots are asked in their order.
  Trainer(ComputeGroups& groups, DataFeed& train, DataFeed* test, TrainingState state,
          TrainerOptions options, TrainerEvents events, std::vector<Pilot*> pilots = {});

  // Trains to the end. A stop request finishes the iterations under way, saves, and returns
  // ErrorKind::interrupted. Those under way are finished, too, when the training diverges. The
  // evaluation of the result is the caller's: evaluate_now().
  Status run();
  Status evaluate_now();

  const TrainingState& state() const { return state_; }
  double seconds() const { return seconds_before_ + training_time_.seconds(); }
  // By all virtual clocks of the training; none: it has none.
  std::optional<double> simulated_seconds() const;

  // For pilots, while no task is under way.
  ComputeGroups& groups() { return groups_; }
  DataFeed& feed() { return options_.feeds.empty() ? train_ : *options_.feeds.front(); }
  const TrainerOptions& options() const { return options_; }
  const SolverOptions& solver() const { return solver_; }  // without steering
  TrainingState& state() { return state_; }
  void use_groups(int count) {
    if (groups_.count() != count) options_.use_groups(count);
  }
  void say(const std::string& text) const {
    if (events_.say) events_.say(text);
  }
  void warn(const std::string& text) const;  // without a callback into the log
  void record(const nlohmann::ordered_json& line) const {
    if (events_.record) events_.record(line);
  }
  Status keep_as_best();             // saves a checkpoint of now
  void end_here() { ends_ = true; }  // the training is complete
  void add_seconds(double seconds) { seconds_before_ += seconds; }

 private:
  std::uint64_t samples_of(std::uint64_t iterations) const {
    return iterations * groups_.net().options().batch;
  }
  std::uint64_t last() const;       // the sample to train up to; UINT64_MAX: no end
  std::uint64_t next_stop() const;  // the sample before which all groups come to rest
  bool finished() const { return state_.samples >= last(); }
  bool must_stop() const;  // as asked, of any rank, or because of advice
  Status train();          // until the training is complete, or has to stop
  void start_loop();
  void end_loop();  // what is made next goes on from state_
  Advice judge(const FinishedUpdate& finished);
  void report(const FinishedUpdate& finished);
  std::uint64_t pilots_rest() const;  // the sample before which the first of them wants it
  Status ask_pilots(const std::function<Status(Pilot&)>& what);
  Status catch_up(std::uint64_t before);
  Status go_back(Error error);
  void note();
  Status save();
  void save_in_passing();        // a failure is a warning
  Status evaluate_in_passing();  // a stop is no error yet
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
  std::unique_ptr<VirtualClock> clock_;  // of loop_
  std::optional<TrainingLoop> loop_;     // none: nothing is under way, and pilots may change things
  bool piloted_ = false;                 // pilots have begun
  bool ends_ = false;                    // a pilot said that the training is complete
  bool pilot_asked_ = false;             // to be asked as soon as groups rest
  bool some_rank_stops_ = false;
  std::uint64_t started_at_;  // iteration
  StepReport report_;
  Stopwatch training_time_{false};
  double seconds_before_;  // by other processes, and what pilots add
  double reported_seconds_ = 0;
  std::uint64_t unreported_updates_ = 0, unreported_samples_ = 0;
  std::int64_t unreported_staleness_ = 0;
};

}  // namespace omni
