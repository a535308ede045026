// Fragmented is averaging (averaging.hpp) that meets about a fragment of the parameters at a time,
// as Streaming DiLoCo does. So messages are small and even, and travel while the groups compute the
// next mini-batches. Of a group's n-th update since the start:
//   a group contributes fragment f if n = offset(f) + k * every, for k = 0, 1, 2 ...
//   the fragment's part of the average moves when all groups have contributed
//   local SGD: `delay` updates later the group's model becomes
//     keeps * model + (1 - keeps) * average, in this fragment
// With SMA a group pulls a fragment of its model towards the average when it contributes.
#pragma once

#include "scheduling/strategies/averaging.hpp"

namespace omni {

struct FragmentOptions {
  int count = 1;
  int delay = 1;     // mini-batches of a group; below the interval between meetings
  double keeps = 0;  // share of a group's own model
};

// Returns the fragment of each parameter with these numbers of values. Fragments get the parameters
// from the largest to the smallest, each the one with the fewest values so far.
std::vector<int> deal_fragments(std::span<const std::size_t> values, int fragments);

class Fragmented final : public Strategy {
 public:
  Fragmented(ComputeGroups& groups, const SolverOptions& solver, const AveragingOptions& options,
             const FragmentOptions& fragments);

  std::string name() const override { return options_.pulls ? "sma" : "local"; }
  bool may_begin(int group) const override;
  Sends sends(int group) const override;
  UpdateRule rule(const MiniBatch&, float learning_rate) const override {
    return {learning_rate, own_momentum()};
  }
  ExchangeArgs step(const GroupUpdate& update, std::size_t param) override;
  ExchangeTensors stepped(const GroupUpdate& update, std::size_t param) override;
  void submit_behind(const GroupUpdate& update, std::span<const std::size_t> stepped) override;
  void end(const GroupUpdate& update) override;
  bool conclude() override;
  std::vector<StrategyFigure> figures(int) const override { return {{"meetings", meetings_}}; }

 protected:
  std::vector<double> numbers() const override;
  void take(std::span<const double> numbers) override;
  void begin_anew(std::span<const double> saved) override;

 private:
  using Saved = AveragingNumbers;
  struct Progress {
    double since = 0, steps = 0;  // updates since the start of meetings, and in all
  };
  struct Fragment {
    int offset = 0;
    double meetings = 0;
    bool at_start = true;   // the next meeting leaves out the momentum of the average
    bool restarts = false;  // the rate dropped: at the next meeting models become the average
  };
  // Returns the number of meetings about the fragment that are due at a group's n-th update, if one
  // of them is due just then; otherwise 0.
  double due_at(const Fragment& fragment, double n) const;
  double next_of(int group) const { return progress_[group].since + 1; }
  // Returns the number of a group's update at which it contributes to the fragment's next meeting.
  double next_meeting(const Fragment& fragment) const {
    return fragment.offset + fragment.meetings * options_.every;
  }
  Fragment& of(std::size_t param) { return fragments_[fragment_of_[param]]; }
  void meet(Fragment& fragment);
  // Restores what does not depend on the fragments, nor on the interval between meetings.
  void keep(std::span<const double> numbers);

  AveragingOptions options_;
  FragmentOptions parts_;
  std::vector<Fragment> fragments_;
  std::vector<int> fragment_of_;    // by parameter
  std::vector<Progress> progress_;  // by group
  double meetings_ = 0;             // of all fragments
  double rate_ = 0;                 // learning rate of the last mini-batch
};

}  // namespace omni
