// A Subset is a data set that consists of some samples of another one. --hold-out makes two subsets
// of a training set, one to train on and one to test on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/data/dataset.hpp"

namespace omni {

class Subset final : public Dataset {
 public:
  // `indices` are those of samples of `of`; there is at least one. `about` is added to the
  // description. `stages` is true for only one subset of `of`: its stage() copies all files of
  // `of`.
  Subset(std::shared_ptr<Dataset> of, std::vector<std::size_t> indices, std::string about,
         bool stages)
      : of_(std::move(of)),
        indices_(std::move(indices)),
        about_(std::move(about)),
        stages_(stages) {}

  std::size_t size() const override { return indices_.size(); }
  Extent extent() const override { return of_->extent(); }
  int classes() const override { return of_->classes(); }
  int label(std::size_t index) const override { return of_->label(indices_[index]); }
  Status read(std::size_t index, LeastSize least, Image& image) const override {
    OMNI_CHECK(check_index(*this, index));
    return of_->read(indices_[index], least, image);
  }
  Status read_part(std::size_t index, std::size_t part, LeastSize least,
                   Image& image) const override {
    OMNI_CHECK(check_index(*this, index));
    return of_->read_part(indices_[index], part, least, image);
  }
  const Dataset& part(std::size_t number) const override { return of_->part(number); }
  std::string description() const override { return of_->description() + "; " + about_; }
  std::vector<std::string> class_names() const override { return of_->class_names(); }
  std::string place_of_label(std::size_t index) const override {
    return of_->place_of_label(indices_[index]);
  }
  std::string name_of(std::size_t index) const override { return of_->name_of(indices_[index]); }
  bool holds_vectors() const override { return of_->holds_vectors(); }
  Status look_for_files(double damaged) const override { return of_->look_for_files(damaged); }
  Status stage(const std::filesystem::path& place, bool skips = false) override {
    return stages_ ? of_->stage(place, skips) : Status();
  }
  void unstage() override { of_->unstage(); }
  std::uint64_t bytes_of(std::size_t index) const override {
    return of_->bytes_of(indices_[index]);
  }
  Result<std::uint64_t> content_checksum(std::size_t index) const override {
    return of_->content_checksum(indices_[index]);
  }

 private:
  std::shared_ptr<Dataset> of_;
  std::vector<std::size_t> indices_;
  std::string about_;
  bool stages_;
};

// Moves a share of the training samples of every class to a new test set, which replaces pair.test.
// Of a class with two samples or more, at least one moves and one stays; a single sample stays.
// Which ones move depends on the share, the seed, and the order and labels of the samples.
Status hold_out(DatasetPair& pair, double share, std::uint64_t seed);

}  // namespace omni
