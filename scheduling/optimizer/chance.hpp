// The loss of a net that has learnt nothing but how often each class comes.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "layers/net.hpp"
#include "runtime/data/dataset.hpp"

namespace omni {

// Other losses than softmax's have no such level: infinity.
inline double loss_at_chance(const Net& net, const Dataset& data) {
  if (net.layers().back()->type() != "softmax") return std::numeric_limits<double>::infinity();
  constexpr std::size_t kLooked = 10'000;
  const std::size_t every = std::max<std::size_t>(1, data.size() / kLooked);
  std::vector<double> counts(static_cast<std::size_t>(std::max(data.classes(), net.classes())));
  double all = 0;
  for (std::size_t i = 0; i < data.size(); i += every, ++all)
    ++counts[static_cast<std::size_t>(data.label(i))];
  double entropy = 0;
  for (const double count : counts)
    if (count > 0) entropy -= count / all * std::log(count / all);
  // Data of one class: nothing can be learnt.
  return entropy > 0 ? entropy : std::log(net.classes());
}

}  // namespace omni
