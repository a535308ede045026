// Which tasks a task had to wait for. Not recorded but derived: StarPU orders tasks by their
// accesses to data, in submission order.
#pragma once

#include "perf/trace/trace.hpp"

namespace omni::perf {

class Dependencies {
 public:
  explicit Dependencies(const Trace& trace);
  // Indices into Trace::tasks, all smaller than `task`, each once.
  std::span<const std::uint32_t> of(std::size_t task) const {
    return std::span(before_).subspan(first_[task], first_[task + 1] - first_[task]);
  }

 private:
  std::vector<std::size_t> first_;
  std::vector<std::uint32_t> before_;
};

}  // namespace omni::perf
