// The Darknet cfg grammar: sections, key=value, comments; nothing about what the words mean.
#pragma once

#include <filesystem>
#include <string_view>

#include "layers/net_spec.hpp"

namespace omni {

Result<NetSpec> read_darknet_cfg(const std::filesystem::path& path);
Result<NetSpec> parse_darknet_cfg(std::string_view text, std::string_view file_name);

}  // namespace omni
