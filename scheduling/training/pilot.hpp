// A pilot steers a training. It says where the groups come to rest, what changes before they go on,
// and what a loss or a test means. The trainer knows no pilot by name. Several pilots can steer one
// training.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "scheduling/groups/compute_groups.hpp"
#include "scheduling/training/step_report.hpp"

namespace omni {

class Trainer;

// What changes before groups go on.
struct Steering {
  int groups = 0;                                     // in use; 0: as many as before
  double share = 1;                                   // of the learning rate
  std::optional<double> momentum{}, learning_rate{};  // in place of the solver's
  // Between these two iterations the rate falls in equal steps, to almost 0.
  std::uint64_t cool_from = UINT64_MAX, cool_until = UINT64_MAX;
};

// What a loss means for the training. The strongest advice of all pilots counts.
enum class Advice {
  go_on,
  rest,     // groups finish what is under way, then pilots are asked
  end,      // likewise, and the training is complete
  go_back,  // the parameters are spoiled
};

class Pilot {
 public:
  virtual ~Pilot() = default;

  virtual std::string_view name() const = 0;
  // Memory for copies of parameters that it holds while it steers these groups.
  virtual std::size_t bytes(ComputeGroups& /*groups*/) const { return 0; }
  virtual Steering steering() const { return {}; }
  // The next iteration behind which all groups come to rest for rested().
  virtual std::uint64_t next_rest() const { return UINT64_MAX; }

  // Called after every update.
  virtual Advice judge(const StepReport& /*at*/) { return Advice::go_on; }

  // The following are called while no task is under way. They may change what Trainer lets pilots
  // change. An error ends the training; after ErrorKind::interrupted it is saved first.
  // Called once, before the first mini-batch. `saved`: numbers() of a checkpoint, or none.
  virtual Status begin(Trainer& /*training*/, std::span<const double> /*saved*/) { return {}; }
  virtual Status rested(Trainer& /*training*/) { return {}; }
  // Called after every test, also that of the result. Parameters may not change here.
  virtual Status tested(Trainer& /*training*/, const EvaluationReport& /*of*/) { return {}; }
  // Called when the training has diverged. True: earlier parameters are restored, and it goes on.
  virtual Result<bool> go_back(Trainer& /*training*/, const Error& /*why*/) { return false; }
  // Called once, when the training is complete. An error says that it has failed.
  virtual Status end(Trainer& /*training*/) { return {}; }

  // What a checkpoint keeps of the pilot.
  virtual std::vector<double> numbers() const { return {}; }
};

// All of them together: shares multiply, of other settings the last one counts.
Steering combined(std::span<Pilot* const> pilots);

}  // namespace omni
