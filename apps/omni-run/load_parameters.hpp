// Trained parameters to start from, or to use: a .weights file, or a checkpoint. Not finite ones.
#pragma once

#include <string>

#include "layers/net.hpp"

namespace omni {

Status load_parameters(Net& net, const std::string& path);

}  // namespace omni
