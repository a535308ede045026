#include "apps/omni-run/commands/class_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "runtime/data/images/image_list.hpp"

namespace omni {

Result<std::vector<std::string>> class_names(const std::string& file, const Dataset* data,
                                             const Net& net) {
  const auto outputs = static_cast<std::size_t>(net.classes());
  std::vector<std::string> names;
  if (!file.empty()) {
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored))
      return Error{ErrorKind::usage, "--names " + file, "no such file", "one name per line"};
    OMNI_TRY(names, read_entries(file));
    if (names.size() != outputs)
      return Error{ErrorKind::data, file,
                   fmt::format("has {} names, the net {} outputs", names.size(), outputs),
                   "one name per line, in the order of the classes"};
  } else if (data != nullptr) {
    names = data->class_names();
  }
  while (names.size() < outputs) names.push_back(fmt::format("class {}", names.size()));
  return names;
}

Result<std::vector<std::size_t>> likeliest(std::span<const float> outputs, std::size_t most,
                                           const std::string& where) {
  if (!std::ranges::all_of(outputs, [](float each) { return std::isfinite(each); }))
    return Error{ErrorKind::diverged, where, "the net's output is not a finite number",
                 "are these the weights of this net?"};
  std::vector<std::size_t> order(outputs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto top = static_cast<std::ptrdiff_t>(std::min(most, order.size()));
  std::partial_sort(order.begin(), order.begin() + top, order.end(), [&](auto a, auto b) {
    return outputs[a] != outputs[b] ? outputs[a] > outputs[b] : a < b;
  });
  order.resize(static_cast<std::size_t>(top));
  return order;
}

}  // namespace omni
