// Reads machine files. docs/user/virtual-clock.md describes their format.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/result.hpp"
#include "scheduling/forecast/machine/machine.hpp"

namespace omni {

// Parses the text of a machine file. Errors name `where` and the line.
Result<Machine> parse_machine(std::string_view text, const std::string& where);
Result<Machine> read_machine_file(const std::filesystem::path& path);

}  // namespace omni
