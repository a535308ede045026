// The first images of a data set, decoded once and held in memory as bytes: whoever times training
// pays for turning bytes into floats, and not for computing or reading the images.
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
      OMNI_CHECK(
          source.read(index, std::span(held.pixels_).subspan(index * held.bytes(), held.bytes())));
    return held;
  }

  std::size_t size() const override { return size_; }
  Extent extent() const override { return source_->extent(); }
  int classes() const override { return source_->classes(); }
  int label(std::size_t index) const override { return source_->label(index); }
  Status read(std::size_t index, std::span<std::uint8_t> pixels) const override {
    OMNI_CHECK(check_read(*this, index, pixels.size()));
    std::copy_n(pixels_.data() + index * bytes(), bytes(), pixels.data());
    return {};
  }
  std::string description() const override { return source_->description() + ", in memory"; }

 private:
  HeldImages(const Dataset& source, std::size_t size)
      : source_(&source), size_(size), pixels_(size * source.extent().count()) {}
  std::size_t bytes() const { return extent().count(); }

  const Dataset* source_;
  std::size_t size_;
  std::vector<std::uint8_t> pixels_;
};

}  // namespace omni
