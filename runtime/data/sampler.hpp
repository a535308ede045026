// Which image is training sample number t, counted over the whole run. An epoch visits every image
// exactly once, in an order that is a pure function of (seed, epoch): where a run was interrupted,
// how it was cut into batches and which thread asks make no difference.
#pragma once

#include <algorithm>
#include <cmath>
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
  // The images of samples first, first + 1, ...; may cross epochs.
  void indices(std::uint64_t first, std::span<std::size_t> out) const {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = index(first + i);
  }

 private:
  // Four rounds already make a permutation that no one tells from a random one; the rest is margin
  // for datasets of a handful of images, where each round has little to mix.
  static constexpr unsigned kRounds = 8;

  // A Feistel network over the cells of a rows x columns table: each round shifts one coordinate by
  // a random function of the other, which can be undone and so is a bijection. Cells beyond `size`
  // are walked over along the cycle they lie on, which keeps the bijection on the rest; there are
  // fewer of them than rows.
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
