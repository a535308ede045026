#include "runtime/data/images/labels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "runtime/shown_name.hpp"

namespace omni {

LabelFinder::LabelFinder(const std::vector<std::string>& labels) {
  std::set<std::size_t> lengths;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    numbers_.emplace(labels[i], static_cast<int>(i));
    lengths.insert(labels[i].size());
  }
  lengths_.assign(lengths.begin(), lengths.end());
}

// Every part of the path that is as long as a label is looked up: with a thousand labels of one
// length that is a thousand times faster than a search for each.
Result<int> LabelFinder::find(std::string_view path, const std::string& where) const {
  std::set<int> anywhere, folders;
  for (const std::size_t length : lengths_)
    for (std::size_t at = 0; at + length <= path.size(); ++at) {
      const auto found = numbers_.find(path.substr(at, length));
      if (found == numbers_.end()) continue;
      anywhere.insert(found->second);
      const bool begins = at == 0 || path[at - 1] == '/';
      const bool ends = at + length < path.size() && path[at + length] == '/';
      if (begins && ends) folders.insert(found->second);
    }
  const std::set<int>& candidates = folders.empty() ? anywhere : folders;
  if (candidates.size() == 1) return *candidates.begin();

  const auto name = [this](int number) {
    const auto is_it = [number](const auto& each) { return each.second == number; };
    return shown_name(std::ranges::find_if(numbers_, is_it)->first);
  };
  if (candidates.empty())
    return Error{ErrorKind::data, where, fmt::format("no label is part of {}", shown_name(path)),
                 "the class is the label in the path: check labels= of the .data file"};
  return Error{ErrorKind::data, where,
               fmt::format("{} and {} are both part of {}", name(*candidates.begin()),
                           name(*candidates.rbegin()), shown_name(path)),
               "put each class into a folder of its name, or give lists of 'path label' lines"};
}

}  // namespace omni
