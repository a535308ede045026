// The neutral net description: the statements of a Darknet cfg (later a Caffe prototxt) with their
// lines, before they are checked.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

inline constexpr int kCommandLine = 0;  // the "line" of options that no file holds

struct Option {
  std::string key, value;
  int line = kCommandLine;
};

// One [section]: a layer, or the [net] header.
struct Section {
  std::string type;  // as written, lower case: "convolutional", "conv", ...
  std::string file;
  int line = 0;
  std::vector<Option> options;

  const Option* find(std::string_view key) const {  // the last one wins, as in Darknet
    const auto last = std::find_if(options.rbegin(), options.rend(),
                                   [&](const Option& option) { return option.key == key; });
    return last == options.rend() ? nullptr : &*last;
  }
  std::string where() const { return fmt::format("{}:{}", file, line); }
  std::string where(const Option& option) const {
    return option.line == kCommandLine ? "command line" : fmt::format("{}:{}", file, option.line);
  }
};

struct NetSpec {
  std::string name;  // file name without folder and extension
  Section net;       // [net] / [network]
  std::vector<Section> layers;
};

}  // namespace omni
