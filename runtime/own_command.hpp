// Host name, environment and command line of this process, and the quoting of any command line for
// a shell.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace omni {

std::string own_host();                             // by name; "": unknown
inline std::string environment(const char* name) {  // "": not set
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}
std::vector<std::string> own_words();
// Without these options and their values, whether a value follows as a word or after a '='.
std::vector<std::string> words_without(const std::vector<std::string>& options,
                                       const std::vector<std::string>& words);
// Control characters are escaped as bash, zsh and ksh read them: $'a\x0ab'.
std::string for_shell(const std::vector<std::string>& words);
std::vector<std::string> from_shell(std::string_view line);  // what for_shell() wrote
// What follows an option where it stands last, as a word or after a '='; nothing: it is not there.
std::optional<std::string> value_of(std::string_view option, const std::vector<std::string>& words);

}  // namespace omni
