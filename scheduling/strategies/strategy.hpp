// A Strategy defines how the groups of a training combine their updates. It decides the size of
// each group's next mini-batch and which parameters a group's step changes. It also decides when
// and how groups meet. In a meeting the models of all groups are averaged. The trainer knows no
// strategy by name.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codelets/elementwise/exchange.hpp"
#include "codelets/elementwise/meeting.hpp"
#include "layers/solver_options.hpp"
#include "runtime/tasks/submission.hpp"
#include "scheduling/groups/compute_groups.hpp"
#include "scheduling/groups/momentum.hpp"
#include "scheduling/strategies/sends.hpp"

namespace omni {

// A MiniBatch is a range of the training's samples, which one group computes.
struct MiniBatch {
  int group = 0;
  std::uint64_t number = 0;  // counted over all groups, from 0
  std::uint64_t first = 0, count = 0;

  std::uint64_t end() const { return first + count; }
};

struct UpdateRule {
  float learning_rate = 0;
  Momentum momentum;
};

// A GroupUpdate is a mini-batch, and the rule by which its gradients update parameters.
struct GroupUpdate {
  MiniBatch batch;
  UpdateRule rule;
  UpdateReport* report = nullptr;
};

// A StrategyState is what a checkpoint keeps of a strategy besides tensors.
struct StrategyState {
  std::string name;
  std::vector<double> numbers;
};

// A StrategyFigure is a number that a strategy adds to the metrics.
struct StrategyFigure {
  const char* name;
  double value;
};

class Strategy {
 public:
  Strategy(ComputeGroups& groups, const SolverOptions& solver);
  virtual ~Strategy() = default;
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;

  virtual std::string name() const = 0;
  const SolverOptions& solver() const { return solver_; }
  // True: groups begin in turn, or in the order of a virtual clock, and updates happen in that
  // order. False: each group begins when it is free, and updates happen as gradients arrive.
  virtual bool in_order() const { return true; }

  // Returns the size of the group's next mini-batch in samples. It is called before that mini-batch
  // begins.
  virtual std::uint64_t next_batch(int group) { return groups_.net(group).options().batch; }
  // Returns false if the group has to wait for a meeting.
  virtual bool may_begin(int /*group*/) const { return true; }
  // Returns what the group sends at the end of its next mini-batch.
  virtual Sends sends(int /*group*/) const { return Sends::update; }
  virtual UpdateRule rule(const MiniBatch& batch, float learning_rate) const = 0;

  // begin() is called before the first task of the mini-batch that reads merged parameters is
  // submitted.
  virtual void begin(const GroupUpdate& /*update*/) {}
  // step() returns the arguments of the step that applies a complete gradient. stepped() returns
  // the tensors of that step. `param` is the parameter's number in the net.
  virtual ExchangeArgs step(const GroupUpdate& update, std::size_t param);
  virtual ExchangeTensors stepped(const GroupUpdate& update, std::size_t param);
  // submit_behind() is called when the steps of `params` have been submitted. It may submit further
  // tasks on these parameters.
  virtual void submit_behind(const GroupUpdate& /*update*/,
                             std::span<const std::size_t> /*params*/) {}
  // end() is called when all tasks of a mini-batch are submitted; where groups on several ranks
  // update as they arrive, only when its update is done. It may submit a meeting of all groups.
  virtual void end(const GroupUpdate& /*update*/) {}

  // Returns the first sample number after `samples` at which all groups stop for meet_at_rest().
  // UINT64_MAX means never.
  virtual std::uint64_t next_rest(std::uint64_t /*samples*/) const { return UINT64_MAX; }
  virtual void meet_at_rest() {}
  // conclude() is called after the last checkpoint. It merges the groups' changes since the last
  // meeting into the model that is tested. Returns true if it changes that model.
  virtual bool conclude() { return false; }

  StrategyState state() const { return {name(), numbers()}; }
  // Restores the state, unless it is of another strategy, or of other groups or meetings.
  void restore(const StrategyState& state) {
    if (state.name != name()) return;
    const bool fits = state.numbers.size() == numbers().size();
    fits ? take(state.numbers) : begin_anew(state.numbers);
  }
  virtual std::vector<StrategyFigure> figures(int /*group*/) const { return {}; }

 protected:
  virtual std::vector<double> numbers() const { return {}; }
  virtual void take(std::span<const double> /*as many as numbers() gives*/) {}
  // begin_anew() is called instead if the saved numbers are not as many. No task is under way.
  virtual void begin_anew(std::span<const double> /*saved*/) {}

  int count() const { return groups_.count(); }
  // Returns the solver's momentum, for the steps of a group that has its own model.
  Momentum own_momentum() const {
    const auto tuned = static_cast<double>(solver_.momentum);
    return {tuned, tuned, 0};
  }
  // Submits tasks that add weight * (the group's replica - the master copy) to the contributions to
  // the next meeting.
  void contribute(float weight, int group, std::size_t param, TaskTag tag = {}) const;
  // Submits tasks that set the group's replica to keeps * replica + (1 - keeps) * master copy.
  void publish(int group, std::size_t param, TaskTag tag = {}, float keeps = 0) const;
  // Submits tasks that move the parameter's master copy by the contributions of all groups.
  void move_centre(const MoveCentreArgs& move, std::size_t param, TaskTag tag = {}) const;
  // Drops contributions of groups that will contribute to the next meeting again.
  void clear_contributions() const;
  // Records a meeting in the trace. `number` counts meetings from 0.
  void record_meeting(double number) const;
  const std::vector<Param*>& params(int group) const { return params_[group]; }

  ComputeGroups& groups_;
  const SolverOptions solver_;

 private:
  std::vector<std::vector<Param*>> params_;  // by group
};

// Updates have a higher priority than forward and backward tasks, as the next mini-batch waits for
// them.
inline constexpr int kUpdatePriority = 1 << 20;

using MakeStrategy =
    std::function<std::unique_ptr<Strategy>(ComputeGroups& groups, const SolverOptions& solver)>;

}  // namespace omni
