// This header makes text that a terminal can show safely, whoever wrote it: names of files, classes
// and nets, and lines of files. Control characters are escaped; letters of all languages stay.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace omni {

// Returns the length in bytes of the UTF-8 sequence that `text`, which is not empty, begins with;
// 0 if its first bytes are no UTF-8.
std::size_t utf8_sequence(std::string_view text);

// Escapes control characters (also C1), for example as "\x1b". Does the same with Unicode's own
// line ends, marks that change the direction of writing, and bytes that are no UTF-8. "\n" and tabs
// stay.
std::string printable(std::string_view text);
// Does what printable() does, and escapes "\n" and tabs, too.
std::string one_line(std::string_view text);

// Quotes a name for a message: on one line, and shortened if it is long.
std::string shown_name(std::string_view name);

}  // namespace omni
