// A pilot steers a training. It decides where the groups come to rest and which settings change
// before they go on, and it judges losses and tests. Groups rest when none of their tasks is under
// way. The trainer knows no pilot by name. Several pilots can steer one training.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "scheduling/groups/compute_groups.hpp"
#include "scheduling/training/step_report.hpp"

namespace omni {

class Trainer;
class TrainingSnapshot;

// Steering has the learning rate and the momentum of the updates after a rest.
struct Steering {
  double share = 1;                                   // factor of the learning rate
  std::optional<double> momentum{}, learning_rate{};  // replace the solver's; none: its own
  // The rate falls in equal steps to almost 0 between the iterations cool_from and cool_until.
  std::uint64_t cool_from = UINT64_MAX, cool_until = UINT64_MAX;
};

// An Advice is what a pilot asks for after an update. Later values are stronger, and the strongest
// of all pilots counts.
enum class Advice {
  go_on,
  rest,     // groups finish the mini-batches under way, then rested() of all pilots is called
  end,      // groups finish the mini-batches under way, and the training is complete
  go_back,  // the training has diverged: go_back() of the pilots is called
};

class Pilot {
 public:
  virtual ~Pilot() = default;

  virtual std::string_view name() const = 0;
  // Returns the bytes of the copies of parameters and velocities that the pilot holds while it
  // steers `groups`.
  virtual std::size_t bytes(ComputeGroups& /*groups*/) const { return 0; }
  // Returns the bytes that kept() takes at most.
  virtual std::size_t kept_bytes(ComputeGroups& /*groups*/) const { return 0; }
  virtual Steering steering() const { return {}; }
  // Returns the next iteration after which all groups rest. rested() is then called.
  virtual std::uint64_t next_rest() const { return UINT64_MAX; }

  // judge() is called after every update with a finite loss.
  virtual Advice judge(const StepReport& /*at*/) { return Advice::go_on; }

  // The following functions are called while no task is under way. They may call the functions of
  // Trainer that are for pilots. If one returns an error, the training ends; after
  // ErrorKind::interrupted it is saved first.

  // begin() is called once, before the first mini-batch. `saved` are the numbers() from a
  // checkpoint, or empty. During the call TrainingState::kept has the checkpoint's kept(); later it
  // is empty.
  virtual Status begin(Trainer& /*training*/, std::span<const double> /*saved*/) { return {}; }
  virtual Status rested(Trainer& /*training*/) { return {}; }
  // tested() is called after every test, including the test of the result. It must not change
  // parameters.
  virtual Status tested(Trainer& /*training*/, const EvaluationReport& /*of*/) { return {}; }
  // go_back() is called when the training has diverged, on one pilot after another until one
  // returns true. That pilot has restored earlier parameters, so that the training goes on.
  virtual Result<bool> go_back(Trainer& /*training*/, const Error& /*why*/) { return false; }
  // end() is called once, when the training is complete. If it returns an error, the training has
  // failed.
  virtual Status end(Trainer& /*training*/) { return {}; }

  // Returns the numbers that a checkpoint keeps for the pilot.
  virtual std::vector<double> numbers() const { return {}; }
  // Returns the earlier states of the training that a checkpoint keeps for the pilot. A checkpoint
  // keeps the arrays of a state that all groups share, without replicas. The pointers need only be
  // valid until the training goes on.
  virtual std::vector<std::shared_ptr<const TrainingSnapshot>> kept() const { return {}; }
};

// Combines the steering of all pilots. Their shares of the rate are multiplied. For any other
// setting the last pilot that sets it counts.
Steering combined(std::span<Pilot* const> pilots);

}  // namespace omni
