// This header writes JSON as text that a terminal can show safely, even if strings in it are no
// UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace omni {

// Escapes in a JSON text what printable() escapes; the result is the same JSON.
std::string printable_json(std::string_view json);

// `indent` is the number of spaces per level, as in dump(); -1 writes everything on one line.
template <class Json>
std::string json_text(const Json& json, int indent = -1) {
  return printable_json(json.dump(indent, ' ', false, Json::error_handler_t::replace));
}

}  // namespace omni
