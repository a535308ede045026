// The machine and the command line of this process, and any command line as a shell would take it
// again.
#pragma once

#include <string>
#include <vector>

namespace omni {

std::string own_host();  // by name; "": unknown
std::vector<std::string> own_words();
std::string for_shell(const std::vector<std::string>& words);

}  // namespace omni
