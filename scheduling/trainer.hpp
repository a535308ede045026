// The training loop: mini-batches in, updates out, a bounded number of them in flight. It submits
// and reads back losses; everything that computes is a task. Compute groups take mini-batches in
// turn, or whichever is free.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "scheduling/evaluator.hpp"
#include "scheduling/groups/group_run.hpp"
#include "scheduling/optimizer/refused_rate.hpp"
#include "scheduling/optimizer/trial_budget.hpp"
#include "scheduling/stopwatch.hpp"

namespace omni {

// What a search found, in place of what the net says, and when the next one is due.
struct Tuning {
  double momentum = 0, learning_rate = 0;
  std::uint64_t epoch = 0;        // iterations from one search to the next; 0: in the cold start
  std::uint64_t next_search = 0;  // iteration
  TrialBudget budget{};
  std::vector<RefusedRate> refused{};
};

// Where a run stands. Saved in checkpoints; all randomness and the data order follow from it.
struct TrainingState {
  std::uint64_t seed = 0;
  std::uint64_t iteration = 0;  // updates done
  double average_loss = 0;      // Darknet's: 0.9 old + 0.1 new, the first loss to start with
  std::optional<Tuning> tuning{};
};

struct StepReport {
  std::uint64_t iteration = 0, iterations = 0;  // of how many; 0: no end
  std::uint64_t began = 0;  // of those before it; groups finish in another order
  double epoch = 0;
  std::uint64_t images = 0;
  double loss = 0, average_loss = 0, accuracy = 0;
  float learning_rate = 0;
  Momentum momentum;
  int group = 0;
  std::int64_t staleness = 0, fc_staleness = 0;  // of this update
  double mean_staleness = 0;                     // of the updates since the last report
  double images_per_second = 0;                  // since the last report
  double seconds = 0;  // of training in this run; evaluation and saving left out
  double seconds_per_iteration = 0;
};

struct EvaluationReport {
  StepReport at;
  Tally tally;
};

// How several groups share the master copies.
enum class Asynchrony {
  reproducible,  // in turn: every gradient is exactly groups - 1 updates old
  free,          // as they arrive
};

struct TrainerOptions {
  std::uint64_t iterations = 0;        // 0: no end
  std::uint64_t until = 0;             // run() returns there; 0: at the end
  bool trial = false;                  // its iterations may be done again: traces do not name them
  double seconds_before = 0;           // of training in this run, by other trainers
  std::uint64_t display = 1;           // report every so many iterations
  std::uint64_t evaluate_every = 0;    // iterations; 0: only at the end
  std::uint64_t checkpoint_every = 0;  // iterations; 0: never
  Asynchrony asynchrony = Asynchrony::free;
  Compensation compensation = Compensation::off;
};

// How the loop talks to whoever runs it. Every function may be empty.
struct TrainerEvents {
  std::function<void(const StepReport&)> on_iteration;  // every one
  std::function<void(const StepReport&)> on_step;       // every `display` iterations, and the last
  std::function<void(const EvaluationReport&)> on_evaluation;
  std::function<Status(const TrainingState&)>
      save_checkpoint;  // all updates up to state.iteration done
};

class Trainer {
 public:
  // Mini-batches that `train` must have room for.
  static int slots(const ComputeGroups& groups);
  static int slots(int groups, int subdivisions);

  // `test` may be null: no evaluation.
  Trainer(ComputeGroups& groups, DataFeed& train, DataFeed* test, TrainingState state,
          TrainerOptions options, TrainerEvents events);

  // Trains to the end. A stop request finishes the iterations under way, saves, and returns
  // ErrorKind::interrupted. Those under way are finished, too, when the training diverges. The
  // evaluation of the result is the caller's: evaluate_now().
  Status run();
  Status evaluate_now();

  const TrainingState& state() const { return state_; }
  double seconds() const { return options_.seconds_before + training_time_.seconds(); }

 private:
  std::uint64_t last() const;       // the iteration to train up to; UINT64_MAX: no end
  std::uint64_t next_stop() const;  // the iteration before which all groups come to rest
  Status train_until(std::uint64_t iteration);
  Status take_turns(std::uint64_t limit);
  Status run_freely(std::uint64_t limit);
  bool may_begin(std::uint64_t limit) const;
  Result<GroupEvent> next_event();
  UpdateRule update_rule(const GroupRun& run) const;
  Status finish_one(int group);  // the oldest iteration of the group whose update is done
  Status rest();                 // waits for everything submitted
  Status save();
  std::uint64_t batches(std::uint64_t iterations) const;
  std::uint64_t images_after(std::uint64_t iterations) const;
  double epochs_after(std::uint64_t iterations) const;
  Error diverged(std::uint64_t iteration);

  ComputeGroups& groups_;
  const NetOptions& net_options_;
  SolverOptions solver_;  // the net's, with the tuning
  DataFeed* test_;
  TrainingState state_;
  TrainerOptions options_;
  TrainerEvents events_;
  bool in_turn_;  // groups begin iterations in turn; else when they are free
  Momentum momentum_;

  TrainingFeed feed_;
  EventQueue queue_;
  std::vector<std::unique_ptr<GroupRun>> runs_;  // by group
  std::uint64_t begun_;                          // iterations; state_.iteration are finished
  std::uint64_t started_at_, saved_at_;          // iteration
  StepReport report_;
  std::optional<Error> divergence_;
  Stopwatch training_time_;
  double reported_seconds_ = 0;
  std::uint64_t unreported_updates_ = 0;
  std::int64_t unreported_staleness_ = 0;
};

}  // namespace omni
