// A learnable set of vectors that needs no file. A class is two clouds about a centre of its own,
// on either side of it, among noise. A linear model tells the centres apart, which is a part of the
// truth; a net can learn the clouds.
#pragma once

#include "runtime/data/synthetic.hpp"

namespace omni {

class SyntheticVectors : public ComputedDataset {
 public:
  using ComputedDataset::ComputedDataset;
  bool holds_vectors() const override { return true; }
  Status read(std::size_t index, LeastSize least, Image& vector) const override;
  std::string description() const override;
};

}  // namespace omni
