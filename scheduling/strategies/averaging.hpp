// Averaging has two strategies in which groups have models of their own. Every few mini-batches all
// groups meet: their models are averaged. Synchronous model averaging (SMA, Crossbow) pulls every
// model towards the average, which moves by the sum of the pulls. Local SGD (and DiLoCo) replaces
// every model by the average, which moves by an outer step. Meetings are tasks, for which the host
// does not wait.
//
// A meeting is about a fragment of the parameters, as in Streaming DiLoCo. With several fragments
// messages are small and even, and travel while the groups compute the next mini-batches. Of a
// group's n-th update since the start:
//   a group contributes fragment f if n = offset(f) + k * every, for k = 0, 1, 2 ...
//   the fragment's part of the average moves when all groups have contributed
//   local SGD: `delay` updates later the group's model becomes
//     keeps * model + (1 - keeps) * average, in this fragment
// With SMA a group pulls a fragment of its model towards the average when it contributes.
// One fragment has all parameters. Then all groups wait for the meeting, and begin with the
// average.
#pragma once

#include "scheduling/strategies/strategy.hpp"

namespace omni {

struct AveragingOptions {
  bool pulls = false;    // true: SMA; false: local SGD
  bool restarts = true;  // if the learning rate drops, all models restart from the average
  int every = 1;         // mini-batches of each group from one meeting to the next
  double pull = 0;       // SMA: alpha
  double rate = 1;       // local SGD: rate of the outer step
  double momentum = 0;   // of the average; with local SGD it is Nesterov's
};

struct FragmentOptions {
  int count = 1;
  // The following two are for several fragments.
  int delay = 1;     // mini-batches of a group; below the interval between meetings
  double keeps = 0;  // share of a group's own model
};

// Returns the fragment of each parameter with these numbers of values. Fragments get the parameters
// from the largest to the smallest, each the one with the fewest values so far.
std::vector<int> deal_fragments(std::span<const std::size_t> values, int fragments);

class Averaging final : public Strategy {
 public:
  Averaging(ComputeGroups& groups, const SolverOptions& solver, const AveragingOptions& options,
            const FragmentOptions& fragments = {});

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
  struct Progress {
    double since = 0, steps = 0;  // updates since the start of meetings, and in all
  };
  struct Fragment {
    int offset = 0;
    double meetings = 0;
    bool at_start = true;   // the next meeting leaves out the momentum of the average
    bool restarts = false;  // the rate dropped: at the next meeting models become the average
  };
  bool meets_together() const { return parts_.count == 1; }
  // Returns the number of meetings about the fragment that are due at a group's n-th update, if one
  // of them is due just then; otherwise 0.
  double due_at(const Fragment& fragment, double n) const;
  double next_of(int group) const { return progress_[group].since + 1; }
  // Returns the number of a group's update at which it contributes to the fragment's next meeting.
  double next_meeting(const Fragment& fragment) const {
    return fragment.offset + fragment.meetings * options_.every;
  }
  Fragment& of(std::size_t param) { return fragments_[fragment_of_[param]]; }
  void contribute(int group, std::size_t param) const;
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

// Returns true if the learning rate falls by more than rounding errors.
bool is_drop(double from, double to);

}  // namespace omni
