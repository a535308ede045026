// This header describes the command that started this process: its words, host and environment. It
// also quotes command lines for a shell.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace omni {

std::string own_host();                             // the host's name; "": unknown
inline std::string environment(const char* name) {  // "": not set
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}
std::vector<std::string> own_words();
// Returns `words` without these options and their values. A value is the next word, or follows '='.
std::vector<std::string> words_without(const std::vector<std::string>& options,
                                       const std::vector<std::string>& words);
// Quotes a command line for a shell. Control characters are escaped as bash, zsh and ksh read them:
// $'a\x0ab'.
std::string for_shell(const std::vector<std::string>& words);
std::vector<std::string> from_shell(std::string_view line);  // the inverse of for_shell()
// Returns the value of an option: the next word, or what follows '='. If the option is there
// several times, the last value counts; nullopt: it is not there.
std::optional<std::string> value_of(std::string_view option, const std::vector<std::string>& words);

}  // namespace omni
