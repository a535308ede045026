// JSON as a tree with line numbers, which the JSON library does not keep: for files that people
// write, whose errors name the line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

struct JsonNode {
  enum class Type { object, array, text, number, other };
  Type type = Type::other;
  int line = 1;       // of the key; without a key, of the value
  std::string key{};  // in an object
  std::string text{};
  double number = 0;
  std::vector<JsonNode> children{};

  const JsonNode* find(std::string_view name) const;  // null: there is none
};

// Refuses invalid JSON, a key that appears twice, and excessive depth or length.
Result<JsonNode> parse_json(std::string_view text, const std::string& where);

}  // namespace omni
