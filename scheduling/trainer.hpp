// The training loop: mini-batches in, updates out, a bounded number of them in flight. It submits
// and reads back losses; everything that computes is a task.
#pragma once

#include <cstdint>
#include <functional>

#include "layers/net.hpp"
#include "runtime/data/data_feed.hpp"
#include "scheduling/evaluator.hpp"
#include "scheduling/stopwatch.hpp"

namespace omni {

// Where a run stands. Saved in checkpoints; all randomness and the data order follow from it.
struct TrainingState {
  std::uint64_t seed = 0;
  std::uint64_t iteration = 0;  // updates done
  double average_loss = 0;      // Darknet's: 0.9 old + 0.1 new, the first loss to start with
};

struct StepReport {
  std::uint64_t iteration = 0, iterations = 0;  // of how many; 0: no end
  double epoch = 0;
  std::uint64_t images = 0;
  double loss = 0, average_loss = 0, accuracy = 0;
  float learning_rate = 0, momentum = 0;
  double images_per_second = 0;  // since the last report
  double seconds = 0;            // of training in this run; evaluation and saving left out
  double seconds_per_iteration = 0;
};

struct EvaluationReport {
  StepReport at;
  Tally tally;
};

struct TrainerOptions {
  std::uint64_t iterations = 0;        // 0: no end
  std::uint64_t display = 1;           // report every so many iterations
  std::uint64_t evaluate_every = 0;    // iterations; 0: only at the end
  std::uint64_t checkpoint_every = 0;  // iterations; 0: never
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
  // Mini-batches that compute at once, and decoded ones waiting behind them.
  static constexpr int kComputing = 2;
  static constexpr int kPrefetched = 2;
  static constexpr int kSlots = kComputing + kPrefetched;  // that `train` must offer

  // `test` may be null: no evaluation.
  Trainer(Net& net, DataFeed& train, DataFeed* test, TrainingState state, TrainerOptions options,
          TrainerEvents events);

  // Trains to the end. A stop request finishes the iteration, saves, and returns
  // ErrorKind::interrupted. The evaluation of the result is the caller's: evaluate_now().
  Status run();
  Status evaluate_now();

  const TrainingState& state() const { return state_; }

 private:
  Status iterate();
  void update(std::uint64_t iteration);
  void record_feed();
  Status collect(std::uint64_t number);  // the metrics of one mini-batch
  Status finish_iteration(std::uint64_t iteration);
  Status drain();
  Status save();
  std::uint64_t images_after(std::uint64_t iterations) const;
  double epochs_after(std::uint64_t iterations) const;
  bool last_decode_reached() const;
  Error diverged(std::uint64_t iteration);

  Net& net_;
  DataFeed& train_;
  DataFeed* test_;
  TrainingState state_;
  TrainerOptions options_;
  TrainerEvents events_;

  std::uint64_t subdivisions_;
  std::uint64_t submitted_;              // mini-batches whose work is submitted
  std::uint64_t prefetched_;             // mini-batches whose decode is submitted
  std::uint64_t collected_;              // mini-batches whose metrics were read
  std::uint64_t started_at_, saved_at_;  // iteration
  std::uint64_t decoded_before_;         // mini-batches of `train`, before this trainer
  Tally tally_;                          // of the iteration being collected
  StepReport report_;
  Stopwatch training_time_;
  double reported_seconds_ = 0;
  std::uint64_t unreported_images_ = 0;
};

}  // namespace omni
