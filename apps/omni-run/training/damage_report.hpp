// DamageReport names and counts the images of a training that cannot be read, over all ranks
// together.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "apps/omni-run/training/training_report.hpp"
#include "runtime/data/damaged_images.hpp"
#include "runtime/data/feed/data_feed.hpp"

namespace omni {

class DamageReport {
 public:
  // `shared` means that several trainings of this process have the same data.
  DamageReport(std::shared_ptr<const DatasetPair> data, TrainingReport& report, bool shared)
      : data_(std::move(data)), report_(report), shared_(shared) {}

  // Reads the training images that an earlier run could not read; others are found when they are
  // decoded. `known` is ascending. The metrics have its images already.
  Status try_known(std::vector<std::uint64_t> known);
  // Reads all test images, so that those that cannot be read are found before the training.
  Status check_test(DataFeed& test, const Slices& slices, std::uint64_t iteration);
  // From now on damaged images are written to the metrics, too, also those that were found before.
  // A training that is finished does not call this function, so that it adds no lines.
  void record_from(std::uint64_t iteration);
  // Writes new damaged images to the log and, after record_from(), to the metrics.
  void name(std::uint64_t iteration);
  // All ranks call this function at the same iteration. It ends the training if all ranks together
  // have too many damaged images.
  void share(std::uint64_t iteration);
  // Warns of each set with damaged images.
  void count() const;

  const DamagedImages* of_training() const { return data_->train->damaged(); }  // null: none
  const DamagedImages* of_test() const { return data_->test ? data_->test->damaged() : nullptr; }

 private:
  std::vector<DamagedImages*> sets() const;  // the sets in which damaged images are skipped

  std::shared_ptr<const DatasetPair> data_;
  TrainingReport& report_;
  bool shared_, records_ = false;
  std::vector<std::uint64_t> known_;
  std::vector<std::pair<DamagedImage, bool>> unrecorded_;  // true: it is of the training set
};

}  // namespace omni
