// A learnable set of vectors that needs no file: every vector is a pure function of (seed, split,
// index). A class is two clouds about a centre of its own, on either side of it, among noise.
// A linear model tells the centres apart, which is a part of the truth; a net can learn the clouds.
#pragma once

#include "runtime/data/dataset.hpp"
#include "runtime/rng.hpp"

namespace omni {

struct VectorOptions {
  std::size_t size = 50'000;
  int features = 54, classes = 2;
  std::uint64_t seed = 0;  // draws other vectors of the same classes
  bool training = true;    // the two splits share no vector
};

class SyntheticVectors : public Dataset {
 public:
  explicit SyntheticVectors(const VectorOptions& options)
      : options_(options), philox_(options.seed, RandomStream::synthetic) {}

  std::size_t size() const override { return options_.size; }
  Extent extent() const override { return {1, 1, options_.features}; }
  bool holds_vectors() const override { return true; }
  int classes() const override { return options_.classes; }
  int label(std::size_t index) const override {
    return static_cast<int>(index % static_cast<std::size_t>(options_.classes));
  }
  Status read(std::size_t index, LeastSize least, Image& vector) const override;
  std::string description() const override;

 private:
  VectorOptions options_;
  Philox philox_;
};

}  // namespace omni
