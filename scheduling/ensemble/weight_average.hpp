// These functions average the parameters and the running statistics of nets with the same
// description. The average is a good net only where the parameters are near each other.
#pragma once

#include <cstddef>
#include <vector>

#include "layers/net.hpp"
#include "runtime/tasks/host_access.hpp"

namespace omni {

class WeightAverage {
 public:
  void add(Net& net) {
    std::size_t at = 0;
    for (const Param* param : net.params()) {
      const HostAccess values(*param->master, HostAccess::Mode::read);
      sums_.resize(std::max(sums_.size(), at + values.f32().size()));
      for (const float value : values.f32()) sums_[at++] += value;
    }
    ++nets_;
  }
  // Writes the average to the parameters of a net with the same description.
  void put_into(Net& net) const {
    std::size_t at = 0;
    for (const Param* param : net.params()) {
      const HostAccess values(*param->master, HostAccess::Mode::write);
      for (float& value : values.f32()) value = sums_[at++] / static_cast<float>(nets_);
    }
  }
  static std::size_t bytes(Net& net) {
    std::size_t values = 0;
    for (const Param* param : net.params()) values += param->master->count();
    return values * sizeof(float);
  }

 private:
  std::vector<float> sums_;
  int nets_ = 0;
};

}  // namespace omni
