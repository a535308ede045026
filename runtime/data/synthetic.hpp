// This header has data sets whose samples are computed, so nobody has to download them. Nets can
// learn them. A sample is a pure function of its index and of the options, but not of their `size`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/data/dataset.hpp"
#include "runtime/rng.hpp"

namespace omni {

struct SyntheticOptions {
  std::size_t size = 50'000;
  Extent extent{32, 32, 3};
  int classes = 10;
  std::uint64_t seed = 0;  // another seed draws other samples of the same classes
  bool training = true;    // training set and test set share no sample
};

class ComputedDataset : public Dataset {
 public:
  explicit ComputedDataset(const SyntheticOptions& options)
      : options_(options), philox_(options.seed, RandomStream::synthetic) {}

  std::size_t size() const override { return options_.size; }
  Extent extent() const override { return options_.extent; }
  int classes() const override { return options_.classes; }
  int label(std::size_t index) const override {
    return static_cast<int>(index % static_cast<std::size_t>(options_.classes));
  }

 protected:
  // Returns the sample's number in the random stream.
  std::uint64_t number(std::size_t index) const {
    return 2 * std::uint64_t{index} + (options_.training ? 0 : 1);
  }
  SyntheticOptions options_;
  Philox philox_;
};

// A class of images has a texture and a soft spot at a place of its own. The texture is a grating
// with the class's orientation, frequency and colour. Phase, contrast, brightness, position and
// noise vary from image to image. Nets with global pooling can use the texture, linear models the
// spot. Single pixels carry little information.
class SyntheticDataset : public ComputedDataset {
 public:
  using ComputedDataset::ComputedDataset;
  Status read(std::size_t index, LeastSize least, Image& image) const override;
  std::string description() const override;
};

// Each class consists of two noisy clusters, one on either side of the class's centre. A linear
// model can only separate the centres, so it classifies only a part of the samples correctly. A net
// can learn the clusters.
class SyntheticVectors : public ComputedDataset {
 public:
  using ComputedDataset::ComputedDataset;
  bool holds_vectors() const override { return true; }
  Status read(std::size_t index, LeastSize least, Image& vector) const override;
  std::string description() const override;
};

}  // namespace omni
