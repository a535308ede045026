// The training loop, with a bounded number of mini-batches in flight. It submits tasks and reads
// losses; everything that computes is a task. A strategy says what groups do with their
// mini-batches. Groups finish in turn, in the order of a virtual clock, or as they arrive.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "scheduling/strategies/async.hpp"
#include "scheduling/training/group_run.hpp"
#include "scheduling/training/step_report.hpp"
#include "scheduling/training/stopwatch.hpp"
#include "scheduling/training/training_state.hpp"

namespace omni {

class HealthCheck;

struct TrainerOptions {
  // Length of the training in mini-batches of the net's size. If groups take other sizes, it ends
  // after the same number of samples.
  std::uint64_t iterations = 0;  // 0: no end
  std::uint64_t schedule = 0;    // length that the learning rate follows; 0: the net's max_batches
  std::uint64_t until = 0;       // run() returns there; 0: at the end
  bool trial = false;            // its iterations may be done again: traces do not name them
  double seconds_before = 0;     // of training, by other trainers and processes
  // Between these two iterations the rate falls in equal steps, to almost 0.
  std::uint64_t cool_from = UINT64_MAX, cool_until = UINT64_MAX;
  std::uint64_t evaluate_every = 0;    // iterations; 0: only at the end
  std::uint64_t checkpoint_every = 0;  // iterations; 0: never
  MakeStrategy strategy = async();
  std::vector<DataFeed*> feeds{};  // by group, where they take mini-batches of other sizes
  VirtualClock* clock = nullptr;   // decides the order of groups; null: real time does
  HealthCheck* health = nullptr;   // watches over what is no trial; may end the training
};

// Callbacks of the training loop. Each may be empty.
struct TrainerEvents {
  std::function<void(const StepReport&)> on_iteration{};  // every one
  // Called after every update; true: the training ends as diverged.
  std::function<bool(double loss)> is_lost{};
  std::function<bool()> is_enough{};  // true: the training ends as if it was asked to stop
  std::function<bool(std::uint64_t iteration)> is_reported{};  // by on_step; empty: each one is
  std::function<void(const StepReport&)> on_step{};            // the last one, too
  std::function<void(const EvaluationReport&)> on_evaluation{};
  // All updates up to state.iteration are done.
  std::function<Status(const TrainingState&)> save_checkpoint{};
};

class Trainer {
 public:
  // Mini-batches that `train` must have room for.
  static int slots(const ComputeGroups& groups);
  static int slots(int groups, int subdivisions);
  static int slots_of_passes(int groups) {  // where updates take varying numbers of passes
    return groups * kUnderWay * (GroupRun::kHeld + 1);
  }

  // `test` may be null: no evaluation.
  Trainer(ComputeGroups& groups, DataFeed& train, DataFeed* test, TrainingState state,
          TrainerOptions options, TrainerEvents events);

  // Trains to the end. A stop request, or a failure of the health check, finishes the iterations
  // under way, saves, and returns ErrorKind::interrupted. Those under way are finished, too, when
  // the training diverges. The evaluation of the result is the caller's: evaluate_now().
  Status run();
  Status evaluate_now();

  const TrainingState& state() const { return state_; }
  double seconds() const { return options_.seconds_before + training_time_.seconds(); }

 private:
  std::uint64_t samples_of(std::uint64_t iterations) const {
    return iterations * net_options_.batch;
  }
  std::uint64_t last() const;       // the sample to train up to; UINT64_MAX: no end
  std::uint64_t next_stop() const;  // the sample before which all groups come to rest
  Status train_until(std::uint64_t sample);
  Status run_in_order(std::uint64_t limit);
  Status run_freely(std::uint64_t limit);
  bool may_begin(std::uint64_t limit) const {
    return cursor_ < limit && !divergence_ && !inspects_ && !must_stop();
  }
  void agree(GroupOutcome& outcome);  // of a group over several ranks: what came out of all
  bool begin(int group, std::uint64_t limit, bool announce);  // false: too few samples are left
  int next_in_order(std::uint64_t turn);
  void begin_on_clock();
  Result<GroupEvent> next_event();
  UpdateRule update_rule(const GroupRun& run) const;
  Status finish_in_order();
  Status finish_one(const GroupEvent& event);  // the group's oldest mini-batch
  void report(const FinishedUpdate& finished);
  Status rest();  // waits for everything submitted
  Status inspect();
  bool is_sick() const;
  bool must_stop() const;  // as asked, of any rank, or of itself
  Status save();
  Status evaluate_in_passing();  // a stop is no error yet
  void note_strategy();          // in the state, as the seconds
  void take_arrivals();
  void release_feeds() {
    for (TrainingFeed& feed : feeds_) feed.release_from(cursor_);
  }
  double epochs_of(std::uint64_t samples) const {
    return static_cast<double>(samples) / static_cast<double>(feeds_.front().images());
  }
  Error diverged(std::uint64_t iteration);
  Error nobody_can_begin(std::uint64_t limit) const;
  GroupRun& run_of(int group) { return *runs_[group]; }

  ComputeGroups& groups_;
  const NetOptions& net_options_;
  SolverOptions solver_;  // the net's, with the tuning
  DataFeed* test_;
  TrainingState state_;
  TrainerOptions options_;
  TrainerEvents events_;
  std::unique_ptr<Strategy> strategy_;
  std::uint64_t begun_;   // mini-batches; state_.iteration are finished
  std::uint64_t cursor_;  // samples in them

  bool shares_layers_;              // parameters that groups do not have copies of
  std::deque<TrainingFeed> feeds_;  // one for each DataFeed
  EventQueue queue_;
  std::optional<RankEvents> reports_;               // of groups on several ranks
  std::vector<std::unique_ptr<GroupRun>> runs_;     // by group
  ArrivalState arrivals_;                           // its clock is options_.clock's
  std::deque<int> order_;                           // groups of the updates under way, as submitted
  std::vector<std::deque<GroupOutcome>> outcomes_;  // by group, of those that are done
  std::uint64_t started_at_;                        // iteration
  StepReport report_;
  std::optional<Error> divergence_;
  HealthCheck* health_;    // null: no health checks
  bool inspects_ = false;  // as soon as all groups are at rest
  bool some_rank_stops_ = false;
  Stopwatch training_time_{false};
  double reported_seconds_ = 0;
  std::uint64_t unreported_updates_ = 0, unreported_samples_ = 0;
  std::int64_t unreported_staleness_ = 0;
};

// One training by several Trainers, each of which goes on where the last one stopped. Between them
// the number of groups, the learning rate or the parameters may change.
class PiecewiseTraining {
 public:
  Status evaluate_now() { return trainer_->evaluate_now(); }
  const TrainingState& state() const { return trainer_->state(); }
  double seconds() const { return trainer_->seconds(); }

 protected:
  PiecewiseTraining(ComputeGroups& groups, DataFeed& train, DataFeed* test, TrainerOptions options,
                    TrainerEvents events)
      : groups_(groups),
        train_(train),
        test_(test),
        options_(std::move(options)),
        events_(std::move(events)) {}

  // The next piece, up to an iteration; 0: to the end.
  void begin(TrainingState state, std::uint64_t until) {
    options_.until = until;
    if (trainer_) options_.seconds_before = trainer_->seconds();
    trainer_.emplace(groups_, train_, test_, std::move(state), options_, events_);
  }

  ComputeGroups& groups_;
  DataFeed& train_;
  DataFeed* test_;
  TrainerOptions options_;
  TrainerEvents events_;
  std::optional<Trainer> trainer_;
};

}  // namespace omni
