// ParameterOutput writes the parameters of a training for other programs: those of --save-weights
// at the end, and the snapshots of a solver of Caffe, which are in the run folder.
#pragma once

#include <string>

#include "apps/omni-run/training/training_report.hpp"
#include "scheduling/training/training.hpp"

namespace omni {

// Refuses files that could not be written at the end.
Status check_parameter_output(const TrainArguments& arguments, const TrainableNet& spec, Net& net);

class ParameterOutput {
 public:
  ParameterOutput(const TrainArguments& arguments, const TrainableNet& spec, Training& training,
                  TrainingReport& report)
      : arguments_(arguments), spec_(spec), training_(training), report_(report) {}

  // All ranks call the following two functions; the first rank writes.
  Status save_snapshot(const TrainingState& at);
  // Writes what is due at the end of the training. `class_names` are written beside the parameters.
  Status save_at_end(const TrainingState& at, const std::vector<std::string>& class_names);

 private:
  Net& net() { return training_.groups().net(); }
  // Sends the first rank what the solver remembers, of which each rank has a part.
  Status gather();
  // Writes the parameters and, with a solver of Caffe, what it remembers, on this rank.
  Status save(const std::string& file, const TrainingState& at);
  Status write_snapshot(const TrainingState& at);

  const TrainArguments& arguments_;
  const TrainableNet& spec_;
  Training& training_;
  TrainingReport& report_;
};

}  // namespace omni
