// A JointReport is what `valid --ensemble` reports: the members, their mean, and what they predict
// jointly.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/omni-run/ensemble/ensemble_folder.hpp"
#include "scheduling/ensemble/joint_prediction.hpp"
#include "scheduling/training/evaluator.hpp"

namespace omni {

struct JointReport {
  struct Member {
    std::string name, net;
    double loss = 0, accuracy = 0, calibration_error = 0;
  };
  // Members' weights are near each other if their average loses at most this much accuracy against
  // the members' mean.
  static constexpr double kMostLost = 0.005;

  std::string ensemble, data;  // the folder, and DatasetPair::name
  std::vector<Member> members{};
  std::vector<EnsembleMember> left_out{};
  JointPrediction::Score joint{};
  std::optional<Tally> averaged_weights{};  // none: the nets differ, or there is only one
  std::size_t damaged = 0;                  // images that could not be read

  Member mean() const;
  bool weights_are_near() const;  // only with averaged_weights
  nlohmann::ordered_json json() const;
  std::string text() const;
};

}  // namespace omni
