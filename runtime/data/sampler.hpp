// Which image is training sample number t, counted over the whole run. An epoch visits every image
// exactly once, in an order that is a pure function of (seed, epoch): where a run was interrupted,
// how it was cut into batches and which thread asks make no difference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/rng.hpp"

namespace omni {

// The order is computed per index by a small cipher instead of being stored: no permutation to
// build at an epoch's start, none to keep or to share between threads.
class Sampler {
 public:
  // Samples `size` images (1 to 2^62). Not shuffled: in the order of the dataset, every epoch (test
  // splits).
  Sampler(std::size_t size, std::uint64_t seed, bool shuffled);

  std::size_t size() const { return size_; }
  std::uint64_t epoch(std::uint64_t sample) const { return sample / size_; }
  std::size_t index(std::uint64_t sample) const;
  // The images of samples first, first + 1, ...; may cross epochs.
  void indices(std::uint64_t first, std::span<std::size_t> out) const;

 private:
  std::uint64_t permuted(std::uint64_t epoch, std::uint64_t position) const;

  std::uint64_t size_;
  std::uint64_t rows_, columns_;  // rows * columns >= size, both near its square root
  Philox philox_;
  bool shuffled_;
};

}  // namespace omni
