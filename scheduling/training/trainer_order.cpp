// The order of a clock or of turns: who is next, and updates told in that order.
#include <fmt/format.h>

#include <set>

#include "scheduling/training/trainer.hpp"

namespace omni {
namespace {

// Every group that is under way by the clock, or has finished by it, has samples, for whole passes;
// no other has.
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

// Of another strategy or number of groups, or without a clock before: all begin now.
void Trainer::take_arrivals() {
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

// By the clock, a mini-batch is submitted when it is done: nobody changes the group's replica
// before.
void Trainer::begin_on_clock() {
  for (int group = 0; group < groups_.count(); ++group) {
    std::uint64_t& samples = arrivals_.samples[group];
    if (samples != 0 || !strategy_->may_begin(group)) continue;
    samples = strategy_->next_batch(group);
    options_.clock->begin(group, samples, strategy_->sends(group));
  }
}

int Trainer::next_in_order(std::uint64_t turn) {
  if (options_.clock == nullptr) return static_cast<int>(turn % runs_.size());
  if (arrivals_.finished < 0) arrivals_.finished = options_.clock->next();
  return arrivals_.finished;
}

Status Trainer::run_in_order(std::uint64_t limit) {
  const auto most = static_cast<std::uint64_t>(groups_.count()) + 1;
  std::uint64_t turn = begun_;
  std::set<int> cannot_begin;  // too few samples are left for what they take at once
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
    OMNI_TRY(const GroupEvent event, next_event());
    outcomes_[event.group].push_back(event.outcome);
    OMNI_CHECK(finish_in_order());
  }
}

// The sizes of all groups' passes divide each other, so this is a fault of what was restored.
Error Trainer::nobody_can_begin(std::uint64_t limit) const {
  return {ErrorKind::usage, "",
          fmt::format("{} samples are left before sample {}: fewer than any group takes at once",
                      limit - cursor_, limit),
          "start without --resume, or with the mini-batches of before"};
}

// Updates are told in the order in which they were submitted, whichever task ends first.
Status Trainer::finish_in_order() {
  while (!order_.empty()) {
    std::deque<GroupOutcome>& done = outcomes_[order_.front()];
    if (done.empty()) return {};
    OMNI_CHECK(finish_one({GroupEvent::Kind::reported, order_.front(), done.front()}));
    done.pop_front();
    order_.pop_front();
  }
  return {};
}

}  // namespace omni
