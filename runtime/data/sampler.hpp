// A Sampler says which image of a data set is sample number t of a training.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/rng.hpp"

namespace omni {

// Samples are counted over the whole run. An epoch visits every image exactly once. Its order is a
// pure function of seed and epoch, so interruptions, mini-batch sizes and threads make no
// difference.
//
// A small cipher computes the index of each sample by itself. So no permutation is built at an
// epoch's start, kept, or shared between threads.
class Sampler {
 public:
  // `size` is the number of images, 1 to 2^62. If not shuffled, as for test sets, every epoch has
  // the order of the data set.
  Sampler(std::size_t size, std::uint64_t seed, bool shuffled)
      : size_(std::max<std::uint64_t>(size, 1)),
        rows_(static_cast<std::uint64_t>(std::ceil(std::sqrt(static_cast<double>(size_))))),
        columns_((size_ + rows_ - 1) / rows_),
        philox_(seed, RandomStream::shuffle),
        shuffled_(shuffled) {}

  std::size_t size() const { return size_; }
  std::uint64_t epoch(std::uint64_t sample) const { return sample / size_; }
  std::size_t index(std::uint64_t sample) const {
    const std::uint64_t position = sample % size_;
    return shuffled_ ? permuted(sample / size_, position) : position;
  }
  // Writes the indices of the samples first, first + 1, ... to `out`. They may be of several
  // epochs.
  void indices(std::uint64_t first, std::span<std::size_t> out) const {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = index(first + i);
  }

 private:
  // Four rounds make a permutation that cannot be told from a random one. The other rounds are for
  // data sets of a handful of images, where each round has little to mix.
  static constexpr unsigned kRounds = 8;

  // permuted() is a Feistel network over the cells of a table of rows x columns. Each round shifts
  // one coordinate by a random function of the other. A round can be undone, so it is a bijection.
  // A result of `size` or more is permuted again until it is smaller, which is a bijection of the
  // numbers below `size`. Fewer cells than there are rows have larger numbers.
  std::uint64_t permuted(std::uint64_t epoch, std::uint64_t position) const {
    do {
      std::uint64_t row = position / columns_, column = position % columns_;
      for (unsigned round = 0; round < kRounds; ++round) {
        std::uint64_t& moved = round % 2 == 0 ? row : column;
        const std::uint64_t fixed = round % 2 == 0 ? column : row;
        const std::uint64_t modulus = round % 2 == 0 ? rows_ : columns_;
        const std::uint32_t drawn = philox_(epoch, std::uint64_t{round} << 56 | fixed)[0];
        moved = (moved + (drawn * modulus >> 32)) % modulus;
      }
      position = row * columns_ + column;
    } while (position >= size_);
    return position;
  }

  std::uint64_t size_;
  std::uint64_t rows_, columns_;  // rows * columns >= size, both near its square root
  Philox philox_;
  bool shuffled_;
};

}  // namespace omni
