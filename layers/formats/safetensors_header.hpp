// The JSON header of a safetensors file, as data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "layers/formats/safetensors.hpp"

namespace omni {

struct SafetensorsEntry {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes, from the end of the header
};

struct SafetensorsHeader {
  Metadata metadata;
  std::vector<SafetensorsEntry> entries;  // sorted by place
};

// Accepts the format's grammar and nothing else, without recursion; then checks that the entries
// are float arrays that cover `data_size` bytes one after the other.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view text, std::uint64_t data_size,
                                                   const std::string& where);

}  // namespace omni
