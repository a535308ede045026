// A WorkerSet is a set of StarPU's workers, kept as the bit mask that starpu_task::workerids takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace omni {

class WorkerSet {
 public:
  WorkerSet() = default;  // holds all workers
  explicit WorkerSet(const std::vector<int>& workers) {
    for (const int worker : workers) {
      const auto word = static_cast<std::size_t>(worker) / 32;
      if (bits_.size() <= word) bits_.resize(word + 1);
      bits_[word] |= std::uint32_t{1} << (worker % 32);
    }
  }
  bool all() const { return bits_.empty(); }
  bool has(std::size_t worker) const {
    return all() || (worker / 32 < bits_.size() && (bits_[worker / 32] >> worker % 32 & 1u) != 0);
  }
  const std::vector<std::uint32_t>& bits() const { return bits_; }

 private:
  std::vector<std::uint32_t> bits_;
};

}  // namespace omni
