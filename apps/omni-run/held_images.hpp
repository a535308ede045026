// The first images of a data set, decoded once and held in memory as bytes. A timed training then
// includes the conversion to floats, but not reading or computing images.
#pragma once

#include <algorithm>
#include <vector>

#include "runtime/data/dataset.hpp"

namespace omni {

class HeldImages : public Dataset {
 public:
  // `source` must outlive it. Holds all of it when that is fewer.
  static Result<HeldImages> hold(const Dataset& source, std::size_t images) {
    HeldImages held(source, std::min(images, source.size()));
    for (std::size_t index = 0; index < held.size(); ++index)
      OMNI_CHECK(source.read(index, {}, held.images_[index]));
    return held;
  }

  std::size_t size() const override { return images_.size(); }
  Extent extent() const override { return source_->extent(); }
  bool holds_vectors() const override { return source_->holds_vectors(); }
  int classes() const override { return source_->classes(); }
  int label(std::size_t index) const override { return source_->label(index); }
  Status read(std::size_t index, LeastSize, Image& image) const override {
    OMNI_CHECK(check_index(*this, index));
    image = images_[index];
    return {};
  }
  std::string description() const override { return source_->description() + ", in memory"; }

 private:
  HeldImages(const Dataset& source, std::size_t size) : source_(&source), images_(size) {}

  const Dataset* source_;
  std::vector<Image> images_;
};

}  // namespace omni
