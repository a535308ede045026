// From what the user typed after --net to a built net; the parameters it starts from, its table.
#pragma once

#include <nlohmann/json.hpp>

#include <memory>
#include <string>

#include "apps/omni-run/arguments.hpp"
#include "layers/net.hpp"

namespace omni {

Result<NetSpec> read_net(const NetArguments& arguments);  // with the command line's overrides
Result<std::unique_ptr<Net>> build_net(const NetSpec& spec, const NetArguments& arguments,
                                       bool training);
Result<std::unique_ptr<Net>> open_net(const NetArguments& arguments, bool training);

// Trained parameters to start from, or to use: a .weights file, or a checkpoint. Not finite ones.
Status load_parameters(Net& net, const std::string& path);

// The table shown before training, and its JSON twin.
std::string layer_table(const Net& net);
nlohmann::json layer_table_json(const Net& net);

}  // namespace omni
