#include "scheduling/training/training_loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "runtime/communicator/ranks.hpp"
#include "runtime/tasks/host_access.hpp"
#include "runtime/tasks/recorder.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "scheduling/training/rate_policy.hpp"

namespace omni {
namespace {

SolverOptions steered(SolverOptions solver, const Steering& by) {
  if (by.learning_rate) solver.learning_rate = static_cast<float>(*by.learning_rate);
  if (by.momentum) solver.momentum = static_cast<float>(*by.momentum);
  return solver;
}

// Returns true if the saved mini-batches fit the clock. Exactly the groups that run or have
// finished on the clock must have samples, and in whole passes.
bool are_sound(const ArrivalState& arrivals, const VirtualClock& clock, const ComputeGroups& of) {
  const std::size_t groups = of.count();
  if (arrivals.samples.size() != groups || arrivals.finished >= of.count()) return false;
  for (std::size_t group = 0; group < groups; ++group) {
    const auto number = static_cast<int>(group);
    const bool busy = clock.under_way(number) || arrivals.finished == number;
    if (busy != (arrivals.samples[group] > 0)) return false;
    if (arrivals.samples[group] % of.images_per_pass(number) != 0) return false;
  }
  return true;
}

}  // namespace

Error stopped_after(std::uint64_t iteration) {
  return {ErrorKind::interrupted, "", fmt::format("stopped after iteration {}", iteration),
          "--resume goes on"};
}

TrainingLoop::TrainingLoop(ComputeGroups& groups, DataFeed& train, TrainingState& state,
                           LoopOptions options)
    : groups_(groups),
      batch_(groups.net().options().batch),
      state_(state),
      options_(std::move(options)),
      begun_(state_.iteration),
      cursor_(state_.samples),
      shares_layers_(groups.count() == 1 || groups.net().has(Net::Phase::merged)),
      outcomes_(groups.count()) {
  options_.solver = steered(std::move(options_.solver), options_.steering);
  strategy_ = options_.strategy(groups, options_.solver);
  strategy_->restore(state_.strategy);
  if (groups.on_several_ranks()) reports_.emplace(queue_);
  // Mini-batches can be decoded in sequence only if those of this rank are known in advance.
  const bool in_sequence = options_.feeds.empty() && (!reports_ || strategy_->in_order());
  const std::uint64_t count = groups.count();
  std::vector<bool> turns;
  for (std::uint64_t turn = begun_; turn < begun_ + count; ++turn)
    turns.insert(turns.end(), groups.net().options().subdivisions,
                 groups.is_here(static_cast<int>(turn % count)));
  std::map<DataFeed*, TrainingFeed*> feed_of;
  for (int group = 0; group < groups.count(); ++group) {
    DataFeed* const data =
        options_.feeds.empty() || !groups.is_here(group) ? &train : options_.feeds[group];
    TrainingFeed*& feed = feed_of[data];
    if (feed == nullptr)
      feed = &feeds_.emplace_back(*data, state_.seed, cursor_, options_.last_sample, in_sequence,
                                  turns);
    runs_.push_back(
        std::make_unique<GroupRun>(groups, group, *feed, queue_, *strategy_, options_.traced));
  }
  if (options_.clock != nullptr) take_arrivals();
}

TrainingLoop::~TrainingLoop() {
  (void)wait_for_tasks();  // they use this object
  for (TrainingFeed& feed : feeds_) feed.release_from(cursor_);
}

void TrainingLoop::note() {
  state_.strategy = strategy_->state();
  if (options_.clock == nullptr) return;
  state_.arrivals = arrivals_;
  state_.arrivals->clock = options_.clock->state();
  state_.arrivals->machine = options_.clock->machine();
}

Result<bool> TrainingLoop::conclude() {
  const bool changed = strategy_->conclude();
  OMNI_CHECK(wait_for_tasks());
  return changed;
}

Status TrainingLoop::train_to(std::uint64_t sample) {
  while (state_.samples < sample && !options_.must_stop()) {
    OMNI_CHECK(train_until(sample));
    if (rests_) return {};
  }
  return state_.samples >= sample ? Status() : stopped_after(state_.iteration);
}

Status TrainingLoop::train_until(std::uint64_t sample) {
  rests_ = false;
  const std::uint64_t meets_at = strategy_->next_rest(state_.samples);
  const std::uint64_t limit = std::min(sample, meets_at);
  OMNI_CHECK(strategy_->in_order() ? run_in_order(limit) : run_freely(limit));
  OMNI_CHECK(wait_for_tasks());
  if (groups_.sums != nullptr) OMNI_CHECK(groups_.sums->settle());
  if (divergence_) return *divergence_;
  if (state_.samples != meets_at) return {};
  strategy_->meet_at_rest();
  if (options_.clock != nullptr) {
    options_.clock->give_up();
    options_.clock->meet();
    arrivals_.samples.assign(arrivals_.samples.size(), 0);
    arrivals_.finished = -1;
    begin_on_clock();
  }
  return wait_for_tasks();
}

void TrainingLoop::agree(GroupOutcome& outcome) {
  Tally& tally = outcome.tally;
  if (ranks::several() && !reports_) {
    std::array values{tally.loss, tally.top1, tally.top5, tally.images,
                      stop_requested() ? 1.0 : 0.0};
    ranks::sum(values);
    ranks::sum(tally.auxiliary);
    tally = {values[0], values[1], values[2], values[3], std::move(tally.auxiliary)};
    outcome.stops = values[4] > 0;
  }
  ranks::note_iteration(state_.iteration + 1);
}

bool TrainingLoop::begin(int group, std::uint64_t limit, bool announce) {
  GroupRun& run = run_of(group);
  const bool simulated = options_.clock != nullptr;
  const std::uint64_t wanted = simulated ? arrivals_.samples[group] : strategy_->next_batch(group),
                      pass = groups_.images_per_pass(group);
  const std::uint64_t count = std::min(wanted, limit - cursor_) / pass * pass;
  if (count == 0) return false;
  run.begin({.group = group, .number = begun_++, .first = cursor_, .count = count}, announce,
            simulated ? options_.clock->now() : 0);
  if (reports_) reports_->expect(groups_.ranks_of(group));
  cursor_ += count;
  return true;
}

// When a group's mini-batch arrives at the merged phase, the loop submits the rest of it. It also
// submits the beginning of the group's next mini-batch at once, so that workers do not wait for
// this thread. If groups are on several ranks, a mini-batch begins only after a report, as all
// ranks must begin the same ones.
Status TrainingLoop::run_freely(std::uint64_t limit) {
  const auto begin_next = [&](int group) -> Status {
    GroupRun& run = run_of(group);
    while (run.may_begin() && may_begin(limit) && begin(group, limit, !run.completes_at_begin()))
      if (run.completes_at_begin()) OMNI_CHECK(run.complete(update_rule(run)));
    return {};
  };
  for (int group = 0; group < groups_.count(); ++group) OMNI_CHECK(begin_next(group));
  while (state_.iteration < begun_) {
    OMNI_TRY(const GroupEvent event, next_event());
    if (event.kind == GroupEvent::Kind::arrived) {
      GroupRun& run = run_of(event.group);
      OMNI_CHECK(run.advance(update_rule(run)));
      if (reports_) continue;
    } else {
      OMNI_CHECK(finish_one(event));
    }
    OMNI_CHECK(begin_next(event.group));
  }
  return may_begin(limit) ? nobody_can_begin(limit) : Status();
}

Result<GroupEvent> TrainingLoop::next_event() {
  constexpr std::chrono::milliseconds kPatience{200};
  const recording::WaitScope waiting(false);
  while (true) {
    auto event = queue_.wait(kPatience);
    if (!event) {
      OMNI_CHECK(task_status());
      continue;
    }
    GroupRun& run = run_of(event->group);
    const bool own = event->kind == GroupEvent::Kind::updated;
    if (own) {
      OMNI_TRY(event->outcome, run.read_outcome());
    }
    if (!reports_ || event->kind == GroupEvent::Kind::arrived || (!own && !ranks::first()))
      return *event;
    if (ranks::first()) {
      if (!reports_->complete(*event, groups_.ranks_of(event->group).count)) continue;
      if (!groups_.is_here(event->group)) {
        OMNI_TRY(event->outcome, run.read_outcome(event->outcome));
      }
    }
    reports_->send(*event);
    if (ranks::first()) return *event;
  }
}

UpdateRule TrainingLoop::update_rule(const GroupRun& run) const {
  const Steering& steering = options_.steering;
  const MiniBatch& batch = run.next_to_complete();
  const std::uint64_t iteration = batch.first / batch_ + 1;
  double share = steering.share;
  if (iteration > steering.cool_from && iteration <= steering.cool_until)
    share *= static_cast<double>(steering.cool_until - iteration + 1) /
             static_cast<double>(steering.cool_until - steering.cool_from + 1);
  return strategy_->rule(
      batch, static_cast<float>(share) * learning_rate(options_.solver, state_.seed, iteration));
}

Status TrainingLoop::finish_one(const GroupEvent& event) {
  FinishedUpdate finished = run_of(event.group).collect(event.outcome);
  agree(finished.outcome);
  const double loss = finished.outcome.tally.mean_loss(),
               accuracy = finished.outcome.tally.accuracy();
  const bool first = state_.iteration == 0;
  ++state_.iteration;
  state_.samples += finished.batch.count;
  if (!std::isfinite(loss) && !divergence_) divergence_ = diverged();
  if (divergence_) return {};
  state_.average_loss = first ? loss : 0.9 * state_.average_loss + 0.1 * loss;
  state_.average_accuracy = 0.9 * state_.average_accuracy.value_or(accuracy) + 0.1 * accuracy;
  const Advice advice = options_.judge ? options_.judge(finished) : Advice::go_on;
  rests_ = rests_ || advice != Advice::go_on;
  if (advice == Advice::go_back)
    divergence_ =
        Error{ErrorKind::diverged, "",
              fmt::format("the loss rises, to {:.4g} in iteration {}", loss, state_.iteration),
              "lower the learning rate"};
  return {};
}

// Restores the virtual clock and its mini-batches from the training's state. If that state does not
// fit the strategy, the groups or the clock, the groups begin new mini-batches.
void TrainingLoop::take_arrivals() {
  const std::size_t count = groups_.count();
  arrivals_.samples.resize(count);
  if (state_.arrivals) {
    const VirtualClock::State before = options_.clock->state();
    if (state_.strategy.name == strategy_->name() &&
        options_.clock->restore(state_.arrivals->clock) &&
        are_sound(*state_.arrivals, *options_.clock, groups_))
      arrivals_ = *state_.arrivals;
    else
      options_.clock->restart(before, state_.arrivals->clock);
  }
  begin_on_clock();
}

// Begins a mini-batch on the virtual clock for every idle group that may begin. Its tasks are only
// submitted when the clock finishes it, as nothing changes the group's replica in between.
void TrainingLoop::begin_on_clock() {
  for (int group = 0; group < groups_.count(); ++group) {
    std::uint64_t& samples = arrivals_.samples[group];
    if (samples != 0 || !strategy_->may_begin(group)) continue;
    samples = strategy_->next_batch(group);
    options_.clock->begin(group, samples, strategy_->sends(group));
  }
}

int TrainingLoop::next_in_order(std::uint64_t turn) {
  if (options_.clock == nullptr) return static_cast<int>(turn % runs_.size());
  if (arrivals_.finished < 0) arrivals_.finished = options_.clock->next();
  return arrivals_.finished;
}

Status TrainingLoop::run_in_order(std::uint64_t limit) {
  const auto most = static_cast<std::uint64_t>(groups_.count()) + 1;
  std::uint64_t turn = begun_;
  std::set<int> cannot_begin;  // groups: fewer samples are left than they take in one pass
  while (true) {
    const std::uint64_t under_way = begun_ - state_.iteration;
    if (may_begin(limit) && under_way < most) {
      const int group = next_in_order(turn);
      GroupRun& run = run_of(group);
      if (run.may_begin()) {
        if (begin(group, limit, false)) {
          OMNI_CHECK(run.complete(update_rule(run)));
          order_.push_back(group);
          cannot_begin.clear();
        } else {
          cannot_begin.insert(group);
          if (cannot_begin.size() == runs_.size()) return nobody_can_begin(limit);
        }
        ++turn;
        if (options_.clock != nullptr) {
          arrivals_.samples[group] = 0;
          arrivals_.finished = -1;
          begin_on_clock();
        }
        continue;
      }
    }
    if (under_way == 0) return {};
    OMNI_CHECK(finish_oldest());
  }
}

// Returns the error for a training in which no group can begin. The sizes of the groups' passes
// divide each other, so only a restored state can cause it.
Error TrainingLoop::nobody_can_begin(std::uint64_t limit) const {
  return {ErrorKind::usage, "",
          fmt::format("{} samples are left before sample {}: fewer than any group takes at once",
                      limit - cursor_, limit),
          "start without --resume, or with the mini-batches of before"};
}

// Finishes the update that was submitted first, even if another one is done earlier. So when the
// judge wants a rest, the number of mini-batches under way does not depend on timing.
Status TrainingLoop::finish_oldest() {
  const int group = order_.front();
  std::deque<GroupOutcome>& done = outcomes_[group];
  while (done.empty()) {
    OMNI_TRY(const GroupEvent event, next_event());
    outcomes_[event.group].push_back(event.outcome);
  }
  const GroupOutcome outcome = done.front();
  done.pop_front();
  order_.pop_front();
  return finish_one({GroupEvent::Kind::reported, group, outcome});
}

Error TrainingLoop::diverged() const {
  std::string culprit = "the parameters are still finite";
  // The parameters of groups with models of their own are searched as well, as these become
  // infinite first.
  for (const int group : groups_.here())
    for (const Param* param : groups_.net(group).params()) {
      const HostAccess access(*param->value, HostAccess::Mode::read);
      if (std::ranges::all_of(access.f32(), [](float value) { return std::isfinite(value); }))
        continue;
      culprit = "first in " + param->name;
      break;
    }
  return {
      ErrorKind::diverged, "",
      fmt::format("the loss of iteration {} is not a finite number; {}", state_.iteration, culprit),
      "lower the learning rate, or add burn_in"};
}

}  // namespace omni
