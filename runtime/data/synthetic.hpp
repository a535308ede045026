// A learnable image set that needs no download: every image is a pure function of (seed, split,
// index). A class has a texture (a grating with its own orientation, frequency and colour) and a
// soft spot at its own place; phase, contrast, brightness, position and noise vary from image to
// image. Nets with global pooling can use the texture, linear models the spot; single pixels carry
// little information.
#pragma once

#include "runtime/data/dataset.hpp"
#include "runtime/rng.hpp"

namespace omni {

struct SyntheticOptions {
  std::size_t size = 50'000;
  Extent extent{32, 32, 3};
  int classes = 10;
  std::uint64_t seed = 0;  // draws other images of the same classes
  bool training = true;    // the two splits share no image
};

class SyntheticDataset : public Dataset {
 public:
  explicit SyntheticDataset(const SyntheticOptions& options);

  std::size_t size() const override { return options_.size; }
  Extent extent() const override { return options_.extent; }
  int classes() const override { return options_.classes; }
  int label(std::size_t index) const override;
  Status read(std::size_t index, LeastSize least, Image& image) const override;
  std::string description() const override;

 private:
  SyntheticOptions options_;
  Philox philox_;
};

}  // namespace omni
