#include "scheduling/pilots/guarded_training.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/log.hpp"
#include "scheduling/pilots/health/inspection.hpp"

namespace omni {
namespace {

// Losses that are judged together: of many samples, and of every group.
constexpr std::uint64_t kSamples = 1024, kLosses = 16;
// Iterations from one snapshot to the next: of windows, and of the iterations done.
constexpr std::uint64_t kWindows = 2, kPart = 8, kTrial = 4;
constexpr int kMostAtFirst = 8;
constexpr std::uint64_t kProbes = 16;  // mini-batches that tell how good the result is
// A training that does not become good with it is given up.
constexpr double kSmallestShare = 1e-4;

std::size_t window_of(const ComputeGroups& groups) {
  const std::uint64_t batch = groups.net().options().batch;
  return std::max({kLosses, kSamples / batch, static_cast<std::uint64_t>(groups.count())});
}

}  // namespace

double GuardedTraining::first_share(int groups) { return 1.0 / std::min(groups, kMostAtFirst); }

GuardedTraining::GuardedTraining(ComputeGroups& groups, DataFeed& train, DataFeed* test,
                                 TrainingState state, TrainerOptions options, TrainerEvents events,
                                 bool guarded, ColdStart cold)
    : PiecewiseTraining(groups, train, test, std::move(options), std::move(events)),
      guarded_(guarded && groups.count() > 1),
      cold_(groups.count() > 1 ? std::move(cold) : ColdStart()),
      until_(options_.until),
      end_(until_ != 0                ? until_
           : options_.iterations != 0 ? options_.iterations
                                      : UINT64_MAX),
      window_(window_of(groups)),
      watch_(window_, std::log(groups.net().classes())),
      sure_{{}, watch_},
      latest_(sure_) {
  if (state.iteration < cold_.iterations) {
    cold_.use_groups(false);
    state.guard.reset();
    begin(std::move(state), std::min(cold_.iterations, end_));
  } else {
    begin_all(std::move(state));
  }
}

void GuardedTraining::begin_all(TrainingState state) {
  cold_.iterations = 0;
  if (!guarded_) {
    state.guard.reset();
    return begin(std::move(state), until_);
  }
  if (state.guard)
    watch_.restore(state.guard->losses);
  else
    state.guard = GuardState{.share = first_share(groups_.count())};
  keep(state);
  sure_ = latest_;
  events_.is_lost = [this](double loss) { return is_lost(loss); };
  if (events_.save_checkpoint)
    events_.save_checkpoint = [this, save = events_.save_checkpoint](TrainingState at) {
      at.guard->losses = watch_.state();
      return save(at);
    };
  const std::uint64_t next = state.guard->next;
  begin_guarded(std::move(state), next);
}

std::uint64_t GuardedTraining::stretch(std::uint64_t iteration) const {
  return std::max<std::uint64_t>(kWindows * window_, iteration / kPart);
}

void GuardedTraining::begin_guarded(TrainingState state, std::uint64_t until) {
  state.guard->next = until > state.iteration ? until : state.iteration + stretch(state.iteration);
  until = std::min(state.guard->next, end_);
  begin(std::move(state), until);
}

Status GuardedTraining::run() {
  if (cold_.iterations > 0) {
    OMNI_CHECK(trainer_->run());
    if (state().iteration >= end_) return {};
    cold_.use_groups(true);
    begin_all(state());
  }
  if (!guarded_) return trainer_->run();
  while (true) {
    Status trained = trainer_->run();
    if (!trained) {
      const Error& error = trained.error();
      if (error.kind != ErrorKind::diverged || state().guard->share < kSmallestShare)
        return trained;
      go_back(error.what);
    } else if (state().iteration < end_) {
      go_on();
    }
    if (state().iteration >= end_) return finish();
  }
}

void GuardedTraining::keep(const TrainingState& state) {
  watch_.expect_falling();
  latest_.snapshot.take(groups_, state, false);
  latest_.watch = watch_;
  latest_.level.reset();
  returned_ = false;
}

bool GuardedTraining::is_lost(double loss) {
  watch_.note(loss);
  const bool known = latest_.level.has_value();
  if (!known) latest_.level = watch_.first();
  return watch_.lost() || (!known && is_worse());
}

void GuardedTraining::go_on() {
  TrainingState state = this->state();
  if (watch_.good()) {
    std::swap(sure_, latest_);
    keep(state);
    // Not at the end, when nothing would show what comes of it.
    const bool lasts = state.iteration + kTrial * stretch(state.iteration) < end_;
    GuardState& guard = *state.guard;
    if (guard.wait > 0) --guard.wait;
    if (guard.share < 1 && guard.wait == 0 && lasts) {
      guard.share = std::min(1.0, 2 * guard.share);
      guard.wait = guard.patience;
    }
  } else if (state.guard->share > kSmallestShare) {
    halve(state);
  }
  begin_guarded(std::move(state));
}

// The next doubling waits twice as long as the last.
void GuardedTraining::halve(TrainingState& state) {
  state.guard->share /= 2;
  state.guard->patience *= 2;
  state.guard->wait = state.guard->patience;
}

void GuardedTraining::go_back(const std::string& why) {
  TrainingState state = this->state();
  if (returned_ || !latest_.level || is_worse()) {
    // Its level was measured at a higher rate: it may not be compared with itself.
    sure_.level.reset();
    latest_ = sure_;
  }
  returned_ = true;
  latest_.snapshot.restore(groups_);
  latest_.level.reset();
  watch_ = latest_.watch;
  watch_.forget_recent();
  state.average_loss = latest_.snapshot.state().average_loss;
  state.average_accuracy = latest_.snapshot.state().average_accuracy;
  halve(state);
  log::warn("{}: back to the parameters of iteration {}, with {:.2g} of the learning rate", why,
            latest_.snapshot.state().iteration, state.guard->share);
  begin_guarded(std::move(state));
}

Result<LossMean> GuardedTraining::level_now() {
  const std::uint64_t batch = groups_.net().options().batch;
  OMNI_TRY(const Probe now,
           probe(groups_.net(), train_, state().seed, (state().samples / batch + 1) * batch,
                 std::min<std::uint64_t>(window_, kProbes)));
  return mean_of(now.losses);
}

// The end may come in the middle of a rise, and the last losses tell of older parameters. Then the
// best of the parameters at hand are the result. Over several ranks no rank has them all: there the
// losses are believed.
Status GuardedTraining::finish() {
  bool rises = !watch_.ends_well();
  const TrainingSnapshot* best = &latest_.snapshot;
  TrainingSnapshot end;
  if (!groups_.on_several_ranks()) {
    OMNI_TRY(LossMean lowest, level_now());
    rises = rises || watch_.surely_above(lowest, watch_.recent());
    if (rises) end.take(groups_, state(), false);
    best = &end;
    for (const Kept* kept : {&latest_, &sure_}) {
      if (!rises) break;
      kept->snapshot.restore(groups_);
      OMNI_TRY(const LossMean level, level_now());
      if (!watch_.surely_above(lowest, level)) continue;
      best = &kept->snapshot;
      lowest = level;
    }
  }
  if (rises) best->restore(groups_);
  rises = rises && best != &end;
  if (rises)
    log::warn("the loss rises at the end: the parameters are those of iteration {}",
              best->state().iteration);
  // The last Trainer has saved, unless it was left for earlier parameters.
  const bool saves = options_.checkpoint_every != 0 && events_.save_checkpoint &&
                     (rises || state().saved_at != state().iteration);
  return saves ? events_.save_checkpoint(state()) : Status();
}

}  // namespace omni
