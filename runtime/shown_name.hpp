// Untrusted text on its way to a terminal (names of files, classes, nets; lines of files): control
// characters are escaped, letters of all languages stay. And which known name was meant.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace omni {

// Bytes of the UTF-8 sequence that starts `text`, which is not empty; 0 without any.
std::size_t utf8_sequence(std::string_view text);

// "\x1b" for control characters (C1, too), marks that turn the direction of writing, and bytes that
// are no UTF-8. Line ends and tabs stay.
std::string printable(std::string_view text);
// The same, without line ends and tabs.
std::string one_line(std::string_view text);
// The same for a whole JSON text, which stays the same JSON.
std::string printable_json(std::string_view json);

// A name in a message: quoted, on one line, shortened.
std::string shown_name(std::string_view name);

// What a JSON object becomes, be its texts UTF-8 or not. `indent`: as in dump().
template <class Json>
std::string json_text(const Json& json, int indent = -1) {
  return printable_json(json.dump(indent, ' ', false, Json::error_handler_t::replace));
}

std::string lower_case(std::string_view text);  // of ASCII

// "Did you mean": the nearest candidate within a small edit distance, or "".
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace omni
