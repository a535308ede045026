// Darknet's rule: the class of an image is the label that its path contains.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

class LabelFinder {
 public:
  // `labels` without repetition, none empty.
  explicit LabelFinder(const std::vector<std::string>& labels);

  // The label that is the name of a folder in the path, or else the only one found anywhere in it
  // ("n01440764" in val_0001_n01440764.JPEG). Several are an error, about `where`: in Darknet such
  // an image would be of several classes.
  Result<int> find(std::string_view path, const std::string& where) const;

 private:
  struct Hash {
    using is_transparent = void;  // parts of a path are looked up without a copy
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  std::unordered_map<std::string, int, Hash, std::equal_to<>> numbers_;
  std::vector<std::size_t> lengths_;  // of the labels, each once
};

}  // namespace omni
