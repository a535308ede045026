// This header opens the data set that a user names with --data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/augment.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/extent.hpp"
#include "runtime/result.hpp"
#include "runtime/tasks/slices.hpp"

namespace omni {

// A LabelLimit says which labels a loss takes: those from 0 to classes - 1, and `ignored`.
struct LabelLimit {
  int classes = 0;  // 0: unknown
  int ignored = kNoLabel;
  std::string where{};  // of an auxiliary loss in the net's file; "": it is the net's own

  bool operator==(const LabelLimit& other) const {
    return classes == other.classes && ignored == other.ignored;
  }
};

struct DatasetRequest {
  // The source is one of the names "fashion-mnist", "cifar10", "synthetic[:IMAGES[:CLASSES]]" and
  // "synthetic-vectors[:VECTORS[:FEATURES[:CLASSES]]]". Or it is a path: a folder of IDX files,
  // CIFAR-10 files or images, or a Darknet .data file. Two lists, LIBSVM files or LMDBs are given
  // as "train.txt,val.txt". $OMNIVORE_DATA is the first place to look for the first two names. A
  // name means the data set even if a folder has that name: write ./cifar10 for the folder.
  // For a net with several inputs, it is such a source for each: lines of NAME=SOURCE. One of
  // synthetic samples may stand for all.
  std::string source;
  Extent net_input;       // of the net, and of synthetic images; c 0: unknown
  bool flat = false;      // see AugmentOptions
  InputParts parts = {};  // likewise
  int classes = 0;        // outputs of the net; data with more classes are refused; 0: unknown
  std::vector<LabelLimit> losses{};  // of the net, which decide instead; none: not known
  std::uint64_t seed = 0;
  bool test = true;  // false: only training data are opened, and DatasetPair::test is null
  bool scale_features = false;  // as LibsvmRequest::scale
  double hold_out = 0;          // > 0: this share of the training samples becomes the test set
  double damaged = 0;           // share of the image files that may be missing
  // True: opening accepts what check_data() shall find: files that are missing or of unknown kinds,
  // and class folders that are empty or not in train/.
  bool for_check = false;
};

Result<DatasetPair> open_dataset(const DatasetRequest& request);

// Returns the source of each input, of a request's source for a net with several inputs.
Result<std::vector<std::string>> sources_of_inputs(const std::string& source,
                                                   const std::vector<InputPart>& parts);

}  // namespace omni
