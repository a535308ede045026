// The table shown before training, and its JSON twin.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "layers/net.hpp"

namespace omni {

std::string layer_table(const Net& net);
nlohmann::json layer_table_json(const Net& net);

}  // namespace omni
