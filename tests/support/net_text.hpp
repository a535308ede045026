// These functions return sections of small nets in Darknet's format, which tests concatenate:
// net(6, {8, 8, 1}, kSgd) + convolutional(5, "tanh") + connected(3) + layer("softmax")
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "runtime/extent.hpp"

namespace omni::test {

// Most tests of trainings use these options of stochastic gradient descent.
inline constexpr const char* kSgd = "learning_rate=0.05\nmomentum=0.9\ndecay=0.01\n";

// `options` are further lines of the section, each with its line end, in all functions below.
inline std::string layer(std::string_view type, std::string_view options = "") {
  return fmt::format("[{}]\n{}", type, options);
}

inline std::string net(int batch, Extent input, std::string_view options = "") {
  return layer("net", fmt::format("batch={}\nheight={}\nwidth={}\nchannels={}\n{}", batch, input.h,
                                  input.w, input.c, options));
}

// Returns a convolution with filters of 3x3. Its padding keeps the image's size unless `options`
// say otherwise.
inline std::string convolutional(int filters, std::string_view activation,
                                 std::string_view options = "pad=1\n") {
  return layer("convolutional",
               fmt::format("filters={}\nsize=3\nactivation={}\n{}", filters, activation, options));
}

inline std::string connected(int outputs, std::string_view activation = "linear") {
  return layer("connected", fmt::format("output={}\nactivation={}\n", outputs, activation));
}

}  // namespace omni::test
