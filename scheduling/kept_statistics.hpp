// Keeps a net's running statistics while forward passes that are no training change them.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "layers/net.hpp"

namespace omni {

class KeptStatistics {
 public:
  explicit KeptStatistics(Net& net) {
    for (const Param* param : net.params())
      if (param->velocity == nullptr)
        kept_.emplace_back(param->value,
                           HostAccess(*param->value, HostAccess::Mode::read).values());
  }
  ~KeptStatistics() {
    for (const auto& [tensor, values] : kept_)
      std::ranges::copy(values, HostAccess(*tensor, HostAccess::Mode::write).f32().begin());
  }
  KeptStatistics(const KeptStatistics&) = delete;
  KeptStatistics& operator=(const KeptStatistics&) = delete;

 private:
  std::vector<std::pair<const Tensor*, std::vector<float>>> kept_;
};

}  // namespace omni
