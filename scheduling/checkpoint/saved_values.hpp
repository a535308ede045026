// These functions read lists of numbers from the fields of a checkpoint, and arrays that must fit
// the net.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layers/net.hpp"
#include "scheduling/checkpoint/checkpoint_folder.hpp"

namespace omni {

inline std::string listed(const auto& numbers) {
  return fmt::format("{}", fmt::join(numbers, " "));
}

inline Error unreadable(const Checkpoint& checkpoint, std::string_view field) {
  return {ErrorKind::data, checkpoint.path.string(),
          fmt::format("'{}' is no list of numbers", field), "use another checkpoint"};
}

// Reads a list of numbers from a field that listed() wrote.
template <class Number>
Result<std::vector<Number>> saved_list(const Checkpoint& checkpoint, std::string_view field) {
  OMNI_TRY(const std::string text, checkpoint.fields.text(field));
  std::vector<Number> numbers;
  if (text.empty()) return numbers;
  for (const std::string_view item : split(text, ' ')) {
    const auto number = number_in<Number>(item);
    if (!number) return unreadable(checkpoint, field);
    numbers.push_back(*number);
  }
  return numbers;
}

// Returns the values of an array of the checkpoint, which must have the shape of the parameter.
inline Result<std::span<const float>> saved_values(const Checkpoint& checkpoint,
                                                   const std::string& name, const Param& param) {
  const NamedArray* saved = checkpoint.arrays.find(name);
  if (saved != nullptr && saved->shape == param.shape) return saved->values;
  return Error{ErrorKind::data, checkpoint.path.string(),
               saved == nullptr ? fmt::format("has no array '{}'", name)
                                : fmt::format("'{}' has another shape", name),
               "it belongs to another net"};
}

}  // namespace omni
