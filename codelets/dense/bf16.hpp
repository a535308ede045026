// What --precision bf16 means for what is multiplied.
#pragma once

#include <span>

#include "runtime/bf16/bf16.hpp"
#include "runtime/tasks/codelet.hpp"

namespace omni {

inline float round_to_bf16(float value) { return Bf16(value); }

inline void round_to_bf16(std::span<float> values) {
  for (float& value : values) value = round_to_bf16(value);
}

// Whether numbers are to be rounded to bf16 before they are multiplied.
inline bool in_bf16() { return implementation_policy().precision == Precision::bf16; }

// Why --precision bf16 makes nothing faster on the cores of this machine; null where it does.
const char* bf16_in_vain();

}  // namespace omni
