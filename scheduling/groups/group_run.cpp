#include "scheduling/groups/group_run.hpp"

#include <algorithm>
#include <cassert>

#include "codelets/elementwise/accumulate.hpp"
#include "runtime/tasks/recorder.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "runtime/tasks/when_ready.hpp"

namespace omni {
namespace {

// Above forward and backward: the next iteration waits for it.
constexpr int kUpdatePriority = 1 << 20;
constexpr std::size_t kWholeIteration = 4096;  // calls

}  // namespace

GroupRun::GroupRun(ComputeGroups& groups, int group, TrainingFeed& feed, EventQueue& events,
                   bool traced)
    : net_(groups.net(group)),
      params_(net_.params()),
      tickets_(groups.tickets(group)),
      workers_(groups.workers(group)),
      group_(group),
      feed_(feed),
      events_(events),
      traced_(traced),
      subdivisions_(static_cast<std::uint64_t>(net_.options().subdivisions)),
      alone_(groups.count() == 1 && subdivisions_ == 1) {
  if (const auto watched = groups.watched()) watched_ = params_[*watched];
}

Submission GroupRun::submission(const Iteration& iteration, const WorkerSet* workers) const {
  return {.iteration = traced_ ? static_cast<std::int64_t>(iteration.number) : -1,
          .group = group_,
          .workers = workers};
}

void GroupRun::begin(std::uint64_t number, bool announce) {
  assert(may_begin());
  Iteration& iteration = of(begun_++);
  iteration.number = number;
  iteration.tallied = 0;
  iteration.tally = {};
  if (traced_) recording::begin_iteration(static_cast<std::int64_t>(number));
  iteration.first = next_step(iteration, 0);
  const SubmissionScope scope(submission(iteration, &workers_));
  // Without what is decoded ahead, for which it would wait.
  if (alone_) chain_.emplace(true, kWholeIteration);
  net_.forward(iteration.first, Net::Phase::replicated);
  if (announce)
    when_ready(net_.replicated_output(), [this] {
      events_.push({GroupEvent::Kind::arrived, group_});
    });
}

// Decodes ahead, for whichever group: any worker may.
Step GroupRun::next_step(const Iteration& iteration, std::uint64_t subdivision) {
  const SubmissionScope scope(submission(iteration, nullptr));
  return feed_.step(batch(iteration, subdivision));
}

Status GroupRun::complete(const UpdateRule& rule) {
  Iteration& iteration = of(completed_++);
  iteration.rule = rule;
  const Submission own = submission(iteration, &workers_);
  const Submission any = submission(iteration, nullptr);  // whoever is free serves the merged phase
  {
    const SubmissionScope scope(any);
    start_updates(iteration);
  }
  const UpdateOf update_of = [&](const Param& param) {
    const auto found = std::ranges::find(params_, &param);
    return exchange_args(iteration, static_cast<std::size_t>(found - params_.begin()));
  };
  for (std::uint64_t sub = 0; sub < subdivisions_; ++sub) {
    const bool last = sub + 1 == subdivisions_;
    while (sub >= iteration.tallied + kHeld) OMNI_CHECK(tally_next(iteration));
    Step step = sub == 0 ? iteration.first : next_step(iteration, sub);
    if (last) step.update_of = &update_of;
    if (sub > 0) {
      const SubmissionScope scope(own);
      net_.forward(step, Net::Phase::replicated);
    }
    {
      const SubmissionScope scope(any);
      net_.forward(step, Net::Phase::merged);
      net_.backward(step, Net::Phase::merged);
      if (last) submit_updates(iteration, Net::Phase::merged);
    }
    const SubmissionScope scope(own);
    net_.backward(step, Net::Phase::replicated);
    if (last) submit_updates(iteration, Net::Phase::replicated);
  }
  chain_.reset();
  return {};
}

// Before the iteration's first task that reads merged parameters.
void GroupRun::start_updates(Iteration& iteration) {
  int awaited = 0;
  for (std::size_t i = 0; i < params_.size(); ++i) {
    if (!params_[i]->trainable) continue;
    awaited += static_cast<int>(params_[i]->master->parts());
    if (net_.is_merged(*params_[i])) note_read(tickets_[i], *params_[i]->master);
  }
  UpdateReport& report = iteration.report;
  report.left = awaited;
  report.staleness = 0;
  report.fc_staleness = 0;
  report.argument = this;
  report.done = [](UpdateReport&, void* argument) {
    const auto& run = *static_cast<GroupRun*>(argument);
    run.events_.push({GroupEvent::Kind::updated, run.group_});
  };
  if (awaited == 0) report.done(report, report.argument);  // nothing learns
}

ExchangeArgs GroupRun::exchange_args(Iteration& iteration, std::size_t number) {
  const NetOptions& options = net_.options();
  const Param& param = *params_[number];
  const bool merged = net_.is_merged(param);
  // What is merged is never stale and keeps the momentum that was tuned.
  const double momentum =
      merged ? iteration.rule.momentum.tuned : iteration.rule.momentum.explicit_part;
  return {.learning_rate = iteration.rule.learning_rate * param.rate,
          .momentum = static_cast<float>(momentum),
          .decay = param.decays ? options.solver.decay : 0,
          .gradient_scale = 1.0f / static_cast<float>(options.batch),
          .square_memory = options.solver.square_memory,
          .epsilon = options.solver.epsilon,
          .number = iteration.number + 1,
          .clears = !param.written_once,
          .figure = merged               ? Staleness::merged
                    : watched_ == &param ? Staleness::replicated
                                         : Staleness::unwatched,
          .ticket = &tickets_[number],
          .report = &iteration.report};
}

void GroupRun::submit_updates(Iteration& iteration, Net::Phase phase) {
  // Groups meet at the master copies of single parameters.
  const ChainScope chain(!net_.has_replicas());
  const bool merged = phase == Net::Phase::merged;
  std::size_t number = 0;  // of params_
  std::vector<Exchange> exchanges;
  const auto submit = [&] {
    submit_exchanges(exchanges, merged ? ExchangeOrder::submission : iteration.rule.order,
                     {.priority = kUpdatePriority});
    exchanges.clear();
  };
  for (const auto& layer : net_.layers()) {
    for (const Param* param : layer->params()) {
      const std::size_t i = number++;
      if (!param->trainable || param->updated_in_backward || net_.is_merged(*param) != merged)
        continue;
      if (!param->partial_diffs.empty())
        submit_collect(param->partial_diffs, *param->diff, {.priority = kUpdatePriority});
      exchanges.push_back(
          {exchange_args(iteration, i),
           {*param->master, *param->diff, *param->velocity, param->replica, param->mean_square}});
    }
    if (TaskChain::open() == nullptr) submit();  // the layer's, without waiting for others
  }
  submit();
}

Status GroupRun::tally_next(Iteration& iteration) {
  const std::uint64_t number = batch(iteration, iteration.tallied++);
  iteration.tally.add(feed_.slot(number));
  feed_.release(number);
  return task_status();
}

Result<FinishedIteration> GroupRun::collect() {
  Iteration& iteration = of(collected_++);
  while (iteration.tallied < subdivisions_) OMNI_CHECK(tally_next(iteration));
  const std::int64_t staleness = iteration.report.staleness;
  if (traced_ && recording::on())
    recording::write(trace::Exchange{static_cast<std::int64_t>(iteration.number), group_, staleness,
                                     recording::now()});
  return FinishedIteration{iteration.number, iteration.rule, iteration.tally, staleness,
                           iteration.report.fc_staleness};
}

}  // namespace omni
