// Some of a tensor's values, evenly spread, for the host.
#pragma once

#include <cstdint>
#include <span>

#include "codelets/elementwise/exchange.hpp"

namespace omni {

struct SampleArgs {
  std::int64_t count = 0;  // of the sample
  std::int64_t apart = 1;
  float* to = nullptr;
  UpdateReport* report = nullptr;  // counts this task, too
};

// As many values of the first part as fit; how many there are: sample_size(). By any CPU, which
// fetches the part from a GPU.
void submit_sample(const Tensor& tensor, std::span<float> to, UpdateReport& report,
                   TaskTag tag = {});
std::size_t sample_size(const Tensor& tensor, std::size_t most);

}  // namespace omni
