#include "scheduling/training/group_run.hpp"

#include <algorithm>
#include <cassert>
#include <climits>

#include "codelets/elementwise/accumulate.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/tasks/calls/when_ready.hpp"
#include "runtime/tasks/recorder.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "runtime/tasks/tensor.hpp"

namespace omni {

GroupRun::GroupRun(ComputeGroups& groups, int group, TrainingFeed& feed, EventQueue& events,
                   Strategy& strategy, bool traced)
    : groups_(groups),
      net_(groups.net(group)),
      guest_(groups.guest(group)),
      params_(groups.params(group)),
      group_(group),
      feed_(feed),
      events_(events),
      strategy_(strategy),
      traced_(traced),
      sums_(groups.sums),
      across_(groups.on_several_ranks()),
      local_(groups.is_here(group)),
      leaves_(local_ && across_ && (guest_ != nullptr || !ranks::first()) &&
              net_.has(Net::Phase::merged)) {}

// Returns false if every rank has all groups, and in two other cases. This rank computes the merged
// phase, which groups enter as they arrive. Or the mini-batch has several passes, of which one may
// have to wait for an earlier one.
bool GroupRun::completes_at_begin() const {
  return across_ && guest_ == nullptr &&
         !(local_ &&
           ((!leaves_ && net_.has(Net::Phase::merged)) ||
            groups_.images_per_pass(group_) < static_cast<std::uint64_t>(net_.options().batch)));
}

Submission GroupRun::submission(const Update& update, const WorkerSet* workers) const {
  return {.iteration = traced_ ? static_cast<std::int64_t>(update.update.batch.number) : -1,
          .group = group_,
          .workers = workers};
}

void GroupRun::begin(const MiniBatch& batch, bool announced, double simulated) {
  assert(may_begin());
  Update& update = of(begun_++);
  update.update = {.batch = batch, .rule = {}, .report = &update.report};
  update.passes = local_ ? batch.count / feed_.batch() : 1;
  update.submitted = 0;
  update.tallied = 0;
  update.tally = {};
  update.simulated = simulated;
  update.announced = announced;
  if (local_ && traced_) recording::begin_iteration(static_cast<std::int64_t>(batch.number));
  if (begun_ - completed_ == 1) start(update);
}

// Submits the tasks of the mini-batch's first pass up to the merged phase.
void GroupRun::start(Update& update) {
  if (guest_ != nullptr) start_guest(update);
  if (local_) start_local(update);
  if (update.announced) announce((guest_ != nullptr ? *guest_ : net_).replicated_output().value);
}

void GroupRun::start_guest(Update& update) {
  BatchSlot& slot = sums_->slot_of_guest(group_, completed_);
  update.merged = {.training = true,
                   .seed = feed_.seed(),
                   .first_sample = update.update.batch.first,
                   .slot = &slot};
  sums_->cross(group_, slot, true, false);
}

void GroupRun::start_local(Update& update) {
  update.first = next_step(update, 0);
  const SubmissionScope scope(submission(update, &groups_.workers(group_)));
  // The chain of tasks begins behind next_step(): a chain with the tasks that decode ahead would
  // wait for these. With one group and one rank, a mini-batch of one pass can be one chain.
  if (groups_.count() == 1 && sums_ == nullptr && update.passes == 1 && strategy_.in_order())
    chain_.emplace(true, TaskChain::kWholeIteration);
  net_.forward(update.first, Net::Phase::replicated);
  if (leaves_) sums_->cross(group_, *update.first.slot, false, false);
}

void GroupRun::announce(std::span<Tensor* const> when) {
  when_ready(when, [this] { events_.push({GroupEvent::Kind::arrived, group_}); });
}

// Any worker may decode, as images that are decoded ahead may be used by any group.
Step GroupRun::next_step(const Update& update, std::uint64_t pass) {
  const SubmissionScope scope(submission(update));
  return feed_.step(first_of(update, pass), update.update.batch.end());
}

Status GroupRun::complete(const UpdateRule& rule) {
  Update& update = of(completed_);
  update.update.rule = rule;
  while (update.submitted < update.passes) {
    while (update.submitted >= update.tallied + kHeld) OMNI_CHECK(tally_next(update));
    submit_pass(update);
  }
  end_submission();
  return {};
}

void GroupRun::end_submission() {
  chain_.reset();
  if (++completed_ < begun_) start(of(completed_));
}

Result<bool> GroupRun::advance(const UpdateRule& rule) {
  Update& update = of(completed_);
  update.update.rule = rule;
  // At the mini-batch's first event `arrived` no pass is done. At each later event the oldest of
  // the kHeld passes is done.
  if (update.submitted >= update.tallied + kHeld) OMNI_CHECK(tally_next(update));
  while (update.submitted < update.passes && update.submitted < update.tallied + kHeld)
    submit_pass(update);
  if (update.submitted < update.passes) {
    announce(feed_.slot(first_of(update, update.tallied)).metrics);
    return false;
  }
  end_submission();
  return true;
}

// Submits the next pass. start() has already submitted the first pass up to the merged phase.
void GroupRun::submit_pass(Update& update) {
  if (update.submitted++ == 0) begin_updates(update);
  const bool last = update.submitted == update.passes;
  const UpdateOf update_of = [&](const Param& param) {
    const auto found = std::ranges::find(params_, &param);
    return strategy_.step(update.update, found - params_.begin());
  };
  if (guest_ != nullptr) {
    update.merged.update_of = last ? &update_of : nullptr;
    submit_merged(*guest_, update.merged, update);
    sums_->cross(group_, *update.merged.slot, true, true);
  }
  local_ ? submit_local_pass(update, last ? &update_of : nullptr) : serve(update);
  if (last && !counts_when_collected()) strategy_.end(update.update);
}

void GroupRun::submit_local_pass(Update& update, const UpdateOf* update_of) {
  const std::uint64_t pass = update.submitted - 1;
  Step step = pass == 0 ? update.first : next_step(update, pass);
  step.update_of = update_of;
  const Submission own = submission(update, &groups_.workers(group_));
  if (pass > 0) {
    const SubmissionScope scope(own);
    net_.forward(step, Net::Phase::replicated);
  }
  leaves_ ? sums_->cross(group_, *step.slot, false, true) : submit_merged(net_, step, update);
  const SubmissionScope scope(own);
  net_.backward(step, Net::Phase::replicated);
  if (update_of != nullptr) submit_updates(update.update, Net::Phase::replicated);
}

void GroupRun::submit_merged(Net& net, const Step& step, const Update& update) {
  const SubmissionScope scope(submission(update));
  net.forward(step, Net::Phase::merged);
  net.backward(step, Net::Phase::merged);
  if (step.update_of != nullptr) submit_updates(update.update, Net::Phase::merged);
}

// begin_updates() is called before the mini-batch's first task that reads merged parameters is
// submitted.
void GroupRun::begin_updates(Update& update) {
  const SubmissionScope scope(submission(update));
  // This rank never reports the update of a group on other ranks, as those report it themselves.
  int awaited = local_ ? 0 : INT_MAX;
  for (std::size_t i = 0; local_ && i < params_.size(); ++i)
    if (const Param& param = *params_[i];
        param.trainable && (!leaves_ || guest_ != nullptr || !net_.is_merged(param)))
      awaited += sums_ != nullptr ? sums_->counted(i, group_, param) : param.parts_of(0);
  strategy_.begin(update.update);
  UpdateReport& report = update.report;
  report.left = awaited;
  report.staleness = 0;
  report.fc_staleness = 0;
  report.argument = this;
  report.done = [](UpdateReport&, void* argument) {
    const auto& run = *static_cast<GroupRun*>(argument);
    run.events_.push({GroupEvent::Kind::updated, run.group_});
  };
  if (awaited == 0) report.done(report, report.argument);  // this rank updates no parameter
}

void GroupRun::submit_updates(const GroupUpdate& update, Net::Phase phase) {
  // There is no chain if other groups update the same master copies, or if other ranks take part.
  const ChainScope chain(!net_.has_replicas() && sums_ == nullptr);
  const bool merged = phase == Net::Phase::merged;
  const ExchangeOrder order = merged ? ExchangeOrder::submission : exchange_order();
  std::size_t number = 0;  // of params_
  std::vector<Exchange> exchanges;
  std::vector<std::size_t> stepped;
  const auto submit = [&] {
    submit_exchanges(exchanges, order, {.priority = kUpdatePriority});
    exchanges.clear();
    strategy_.submit_behind(update, stepped);
    stepped.clear();
  };
  const TaskTag tag{.priority = kUpdatePriority};
  const auto collect = [&](const Param& param) {
    if (param.partial_diffs.empty()) return;
    if (param.sums.leaves == 0) return submit_collect(param.partial_diffs, *param.diff, tag);
    std::vector<Tensor*> sums{param.diff};
    sums.insert(sums.end(), param.partial_diffs.begin(), param.partial_diffs.end());
    submit_collect_in_pairs(sums, param.sums.own, param.sums.leaves, tag);
  };
  // The norm is of all gradients, so the first step waits for the last gradient.
  const float clip = strategy_.solver().clip_gradients;
  if (clip > 0 && !merged) {
    for (const Param* param : params_)
      if (param->trainable) collect(*param);
    net_.clip_gradients(clip * static_cast<float>(update.batch.count), tag);
  }
  for (const auto& layer : net_.layers()) {
    for (std::size_t left = layer->params().size(); left > 0; --left) {
      const std::size_t i = number++;
      const Param* param = params_[i];
      if (!param->trainable || param->updated_in_backward || net_.is_merged(*param) != merged)
        continue;
      if (!(clip > 0)) collect(*param);
      const Exchange step{strategy_.step(update, i), strategy_.stepped(update, i)};
      const bool taken = sums_ != nullptr && sums_->take(i, group_, *param, step, order, tag);
      if (!taken) exchanges.push_back(step);
      if (!taken || param->change != nullptr) stepped.push_back(i);
    }
    if (TaskChain::open() == nullptr) submit();  // so the layer's steps wait for no other layer
  }
  submit();
}

// Submits the steps that this rank makes for a mini-batch of a group on other ranks.
void GroupRun::serve(Update& update) {
  const SubmissionScope scope(submission(update));
  for (std::size_t i = 0; i < params_.size(); ++i)
    if (params_[i]->trainable)
      sums_->serve(i, group_, strategy_.step(update.update, i), exchange_order(),
                   {.priority = kUpdatePriority});
}

Status GroupRun::tally_next(Update& update) {
  const std::uint64_t first = first_of(update, update.tallied++);
  if (guest_ != nullptr) update.tally.add(*update.merged.slot);
  if (local_ && !leaves_) update.tally.add(feed_.slot(first));
  if (local_) feed_.release(first);
  return task_status();
}

Result<GroupOutcome> GroupRun::read_outcome(const GroupOutcome& reported) {
  Update& update = of(read_++);
  while (update.tallied < update.passes) OMNI_CHECK(tally_next(update));
  GroupOutcome all{update.update.batch.number, update.tally, update.report.staleness,
                   update.report.fc_staleness, reported.stops};
  all.tally.add(reported.tally);
  return all;
}

FinishedUpdate GroupRun::collect(const GroupOutcome& outcome) {
  const Update& update = of(collected_++);
  const bool leads = local_ && (!across_ || groups_.ranks_of(group_).first == ranks::rank());
  if (leads && traced_ && recording::on())
    recording::write(trace::Exchange{static_cast<std::int64_t>(update.update.batch.number), group_,
                                     outcome.staleness, recording::now()});
  if (counts_when_collected()) strategy_.end(update.update);
  return {.batch = update.update.batch,
          .rule = update.update.rule,
          .outcome = outcome,
          .simulated = update.simulated};
}

}  // namespace omni
