// Trained parameters for use without training: a .weights file, or a checkpoint.
#pragma once

#include <string>

#include "layers/net.hpp"

namespace omni {

Status load_parameters(Net& net, const std::string& path);

}  // namespace omni
