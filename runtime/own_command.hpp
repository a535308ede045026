// Host name and command line of this process, and the quoting of any command line for a shell.
#pragma once

#include <string>
#include <vector>

namespace omni {

std::string own_host();  // by name; "": unknown
std::vector<std::string> own_words();
std::string for_shell(const std::vector<std::string>& words);

}  // namespace omni
