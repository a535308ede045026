// From what the user typed after --net to a built net.
#pragma once

#include <memory>

#include "apps/omni-run/arguments.hpp"
#include "layers/net.hpp"

namespace omni {

Result<NetSpec> read_net(const NetArguments& arguments);  // with the command line's overrides
Result<std::unique_ptr<Net>> build_net(const NetSpec& spec, const NetArguments& arguments,
                                       bool training);
Result<std::unique_ptr<Net>> open_net(const NetArguments& arguments, bool training);

}  // namespace omni
