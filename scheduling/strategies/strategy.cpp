#include "scheduling/strategies/strategy.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/tasks/host_access.hpp"
#include "runtime/tasks/recorder.hpp"
#include "scheduling/groups/rank_sums.hpp"

namespace omni {

Strategy::Strategy(ComputeGroups& groups, const SolverOptions& solver)
    : groups_(groups), solver_(solver) {
  for (int group = 0; group < groups.count(); ++group) params_.push_back(groups.params(group));
}

ExchangeArgs Strategy::step(const GroupUpdate& update, std::size_t number) {
  const Param& param = *params(update.batch.group)[number];
  return {.learning_rate = update.rule.learning_rate * param.rate,
          .momentum = static_cast<float>(update.rule.momentum.explicit_part),
          .decay = solver_.decay * param.decay,
          .gradient_scale = 1.0f / static_cast<float>(update.batch.count),
          .rule = solver_.rule,
          .by_sign = solver_.decay_by_sign,
          .square_memory = solver_.square_memory,
          .epsilon = solver_.epsilon,
          .number = update.batch.number + 1,
          .clears = !param.overwrites_diff,
          .report = update.report};
}

ExchangeTensors Strategy::stepped(const GroupUpdate& update, std::size_t number) {
  const Param& param = *params(update.batch.group)[number];
  return {*param.master, *param.diff, *param.velocity, param.replica, param.mean_square};
}

void Strategy::contribute(float weight, int group, std::size_t number, TaskTag tag) const {
  const Param& param = *params(group)[number];
  const auto contribute_part = [&](const TensorPart& part, const Tensor* exact) {
    const Tensor& model = exact != nullptr ? *exact : *param.replica;
    submit_contribute(weight, part.of(model), part, part.of(*param.change), tag);
  };
  if (groups_.sums != nullptr)
    groups_.sums->for_each_contributed(number, contribute_part);
  else
    for (std::size_t part = 0; part < param.master->parts(); ++part)
      contribute_part({*param.master, part}, nullptr);
}

void Strategy::publish(int group, std::size_t number, TaskTag tag, float keeps) const {
  const Param& param = *params(group)[number];
  submit_publish(*param.master, *param.replica, tag, keeps);
  if (groups_.sums != nullptr) groups_.sums->publish_exact(number, keeps, tag);
}

void Strategy::move_centre(const MoveCentreArgs& move, std::size_t number, TaskTag tag) const {
  const Param& param = *params(0)[number];
  const auto move_part = [&](const Tensor& centre, std::optional<TensorPart> part) {
    submit_move_centre(move, centre, *param.change, *param.centre_velocity, tag, part);
  };
  groups_.sums != nullptr ? groups_.sums->meet(number, move_part, tag)
                          : move_part(*param.master, {});
}

void Strategy::clear_contributions() const {
  for (const Param* param : params(0))
    if (param->change != nullptr)
      std::ranges::fill(HostAccess(*param->change, HostAccess::Mode::write).f32(), 0.0f);
}

void Strategy::record_meeting(double number) const {
  if (!recording::on()) return;
  recording::write(
      trace::Meeting{.number = std::llround(number), .groups = count(), .at = recording::now()});
}

}  // namespace omni
