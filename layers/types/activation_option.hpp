// The `activation` key, shared by every layer that ends with one.
#pragma once

#include <string_view>

#include "codelets/elementwise/activation_functors.hpp"
#include "layers/options.hpp"

namespace omni {

inline Activation read_activation(OptionReader& options, std::string_view fallback) {
  return static_cast<Activation>(options.choice("activation", fallback, kActivationNames));
}

}  // namespace omni
