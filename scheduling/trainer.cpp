#include "scheduling/trainer.hpp"

#include <fmt/format.h>

#include <cmath>

#include "codelets/elementwise/sgd_update.hpp"
#include "runtime/log.hpp"
#include "runtime/signals.hpp"
#include "runtime/tasks/recorder.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "scheduling/rate_policy.hpp"

namespace omni {
namespace {

// Above forward and backward: the next iteration waits for it.
constexpr int kUpdatePriority = 1 << 20;

}  // namespace

Trainer::Trainer(Net& net, DataFeed& train, DataFeed* test, TrainingState state,
                 TrainerOptions options, TrainerEvents events)
    : net_(net),
      train_(train),
      test_(test),
      state_(state),
      options_(options),
      events_(std::move(events)),
      subdivisions_(static_cast<std::uint64_t>(net.options().subdivisions)),
      submitted_(state.iteration * subdivisions_),
      prefetched_(submitted_),
      collected_(submitted_),
      started_at_(state.iteration),
      saved_at_(state.iteration),
      decoded_before_(train.decoded()) {
  report_.iteration = state.iteration;
  report_.images = images_after(state.iteration);
  report_.epoch = epochs_after(state.iteration);
}

Status Trainer::run() {
  training_time_.start();
  const auto finished = [&] {
    return options_.iterations != 0 && submitted_ / subdivisions_ >= options_.iterations;
  };
  while (!finished() && !stop_requested()) {
    OMNI_CHECK(iterate());
    const std::uint64_t done = submitted_ / subdivisions_;
    const auto due = [done](std::uint64_t every) { return every != 0 && done % every == 0; };
    if (due(options_.checkpoint_every)) {
      OMNI_CHECK(drain());
      // A full disk may have room again later; only a last save that fails ends the run.
      if (Status saved = save(); !saved) log::warn("{}; going on", saved.error().message());
      training_time_.start();
    }
    if (due(options_.evaluate_every) && !finished()) {
      Status evaluated = evaluate_now();
      if (!evaluated && evaluated.error().kind != ErrorKind::interrupted) return evaluated;
      training_time_.start();
    }
  }
  OMNI_CHECK(drain());
  if (finished()) return options_.checkpoint_every != 0 ? save() : Status();
  OMNI_CHECK(save());
  return Error{ErrorKind::interrupted, "",
               fmt::format("stopped after iteration {}", state_.iteration), "--resume goes on"};
}

Status Trainer::save() {
  if (!events_.save_checkpoint || saved_at_ == state_.iteration) return {};
  OMNI_CHECK(events_.save_checkpoint(state_));
  saved_at_ = state_.iteration;
  return {};
}

// Submits one iteration; waits only for the loss of an iteration before it.
Status Trainer::iterate() {
  recording::begin_iteration(static_cast<std::int64_t>(submitted_ / subdivisions_));
  for (std::uint64_t sub = 0; sub < subdivisions_; ++sub) {
    if (submitted_ >= collected_ + kComputing) OMNI_CHECK(collect(collected_));
    // A slot is free again once its metrics were collected: never more than kSlots ahead of that.
    while (prefetched_ < collected_ + kSlots && !last_decode_reached())
      train_.submit(prefetched_++);
    if (recording::on()) record_feed();
    const Step step{.training = true,
                    .seed = state_.seed,
                    .first_sample = submitted_ * static_cast<std::uint64_t>(train_.batch()),
                    .slot = &train_.slot(submitted_)};
    net_.forward(step);
    net_.backward(step);
    ++submitted_;
  }
  update(submitted_ / subdivisions_);
  return {};
}

// How far the data are ahead of the mini-batch that is submitted next.
void Trainer::record_feed() {
  const std::uint64_t taken = submitted_ - started_at_ * subdivisions_;
  const std::uint64_t decoded = train_.decoded() - decoded_before_;
  const trace::Nanoseconds at = recording::now();
  recording::write(trace::Counter{"feed.decoded", at,
                                  static_cast<double>(decoded > taken ? decoded - taken : 0)});
  recording::write(
      trace::Counter{"feed.submitted", at, static_cast<double>(prefetched_ - submitted_)});
}

std::uint64_t Trainer::images_after(std::uint64_t iterations) const {
  return iterations * static_cast<std::uint64_t>(net_.options().batch);
}

double Trainer::epochs_after(std::uint64_t iterations) const {
  return static_cast<double>(images_after(iterations)) /
         static_cast<double>(train_.dataset().size());
}

// Decoding past the last mini-batch would be work for nothing.
bool Trainer::last_decode_reached() const {
  return options_.iterations != 0 && prefetched_ >= options_.iterations * subdivisions_;
}

void Trainer::update(std::uint64_t iteration) {
  const NetOptions& options = net_.options();
  const float rate = learning_rate(options.solver, state_.seed, iteration);
  for (const Param* param : net_.params())
    if (param->trainable)
      submit_sgd_update({.learning_rate = rate * param->rate,
                         .momentum = options.solver.momentum,
                         .decay = param->decays ? options.solver.decay : 0,
                         .gradient_scale = 1.0f / static_cast<float>(options.batch)},
                        *param->value, *param->diff, *param->velocity,
                        {.priority = kUpdatePriority});
}

Status Trainer::collect(std::uint64_t number) {
  tally_.add(train_.slot(number));
  OMNI_CHECK(task_status());
  collected_ = number + 1;
  if (collected_ % subdivisions_ != 0) return {};
  Status status = finish_iteration(collected_ / subdivisions_);
  tally_ = {};
  return status;
}

Status Trainer::finish_iteration(std::uint64_t iteration) {
  const double loss = tally_.mean_loss();
  if (!std::isfinite(loss)) return diverged(iteration);
  state_.average_loss = state_.iteration == 0 ? loss : 0.9 * state_.average_loss + 0.1 * loss;
  state_.iteration = iteration;

  report_ = {.iteration = iteration,
             .iterations = options_.iterations,
             .epoch = epochs_after(iteration),
             .images = images_after(iteration),
             .loss = loss,
             .average_loss = state_.average_loss,
             .accuracy = tally_.accuracy(),
             .learning_rate = learning_rate(net_.options().solver, state_.seed, iteration),
             .momentum = net_.options().solver.momentum,
             .images_per_second = report_.images_per_second,
             .seconds = training_time_.seconds(),
             .seconds_per_iteration =
                 training_time_.seconds() / static_cast<double>(iteration - started_at_)};
  unreported_images_ += images_after(1);
  const bool displayed = iteration % options_.display == 0 || iteration == options_.iterations;
  if (displayed || report_.images_per_second == 0)
    report_.images_per_second = static_cast<double>(unreported_images_) /
                                std::fmax(report_.seconds - reported_seconds_, 1e-9);
  if (events_.on_iteration) events_.on_iteration(report_);
  if (!displayed) return {};
  reported_seconds_ = report_.seconds;
  unreported_images_ = 0;
  if (events_.on_step) events_.on_step(report_);
  return {};
}

// Waits until everything submitted is done, metrics included.
Status Trainer::drain() {
  while (collected_ < submitted_) OMNI_CHECK(collect(collected_));
  Status status = wait_for_tasks();
  training_time_.pause();
  return status;
}

Status Trainer::evaluate_now() {
  OMNI_CHECK(drain());
  if (test_ == nullptr) return {};
  recording::begin_iteration(-1);
  Result<Tally> tally = evaluate(net_, *test_, state_.seed);
  if (!tally) {
    if (tally.error().kind == ErrorKind::interrupted) OMNI_CHECK(save());
    return std::move(tally.error());
  }
  if (events_.on_evaluation) events_.on_evaluation({report_, *tally});
  return {};
}

Error Trainer::diverged(std::uint64_t iteration) {
  std::string culprit = "the parameters are still finite";
  for (const Param* param : net_.params()) {
    const HostAccess access(*param->value, HostAccess::Mode::read);
    for (const float value : access.f32())
      if (!std::isfinite(value)) {
        culprit = "first in " + param->name;
        break;
      }
    if (culprit.starts_with("first")) break;
  }
  return {ErrorKind::diverged, "",
          fmt::format("the loss of iteration {} is not a finite number; {}", iteration, culprit),
          "lower the learning rate, or add burn_in"};
}

}  // namespace omni
