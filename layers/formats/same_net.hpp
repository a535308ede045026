// This header compares two nets that should be the same net in two file formats, and copies
// parameters from one to the other.
#pragma once

#include <string>

#include "layers/net.hpp"
#include "layers/net_description.hpp"
#include "runtime/result.hpp"

namespace omni {

// A Form is a net with its description, as one file has it. `file` names it in errors.
struct Form {
  Net& net;
  const TrainableNet& described;
  std::string file;
};

// MayLose says what a conversion may lose. `training` is what tests do not use: initial values,
// factors of the rate and of the decay, names, the count of averaged mini-batches, augmentation.
enum class MayLose { nothing, training };

// Refuses a net that computes something else than `from`. Unless it may lose that, it also refuses
// a net that is trained otherwise, and names the differences.
Status check_same_net(const Form& from, const Form& to, MayLose may_lose);

// Copies the parameters in the order of layers. If only one of the nets takes the blue channel
// first, the input channels of the first weights after the image are reversed. Refuses nets that
// compute different things, values that would be lost, and layers that mix such colours.
Status copy_parameters(const Form& from, const Form& to, MayLose may_lose);

}  // namespace omni
