#include "scheduling/cold_start.hpp"

namespace omni {

ColdStartedTraining::ColdStartedTraining(ComputeGroups& groups, DataFeed& train, DataFeed* test,
                                         TrainingState state, TrainerOptions options,
                                         TrainerEvents events, bool guarded, std::uint64_t cold,
                                         Workers workers, std::function<void()> regroup)
    : groups_(groups),
      train_(train),
      test_(test),
      options_(options),
      events_(std::move(events)),
      guarded_(guarded),
      cold_(groups.count() > 1 ? cold : 0),
      regroup_(std::move(regroup)) {
  if (state.iteration < cold_) groups_.use(1, workers);
  begin(state, state.iteration < cold_ ? cold_ : 0);
}

void ColdStartedTraining::begin(const TrainingState& state, std::uint64_t until) {
  options_.until = until;
  trainer_.emplace(groups_, train_, test_, state, options_, events_, guarded_);
}

Status ColdStartedTraining::run() {
  const bool cold = options_.until != 0;
  OMNI_CHECK(trainer_->run());
  if (!cold || trainer_->state().iteration == options_.iterations) return {};
  regroup_();
  options_.seconds_before = trainer_->seconds();
  begin(TrainingState(trainer_->state()), 0);
  return trainer_->run();
}

Status ColdStartedTraining::evaluate_now() { return trainer_->evaluate_now(); }

}  // namespace omni
