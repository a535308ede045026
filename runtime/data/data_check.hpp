// check_data() reads a whole data set before a training. It finds samples that cannot be read,
// classes without samples, and samples that are in both sets or in several classes.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/data/dataset.hpp"

namespace omni {

std::set<int> classes_in(const Dataset& data);  // the classes that have samples

// ClassGaps has the classes that have samples only in the test set (`not_trained`), only in the
// training set (`not_tested`), or in neither (`unused`).
struct ClassGaps {
  static constexpr std::size_t kMostUnused = 1000;
  std::vector<int> not_trained = {}, not_tested = {}, unused = {};
  std::size_t all_unused = 0;  // `unused` has only the first kMostUnused of them
};
ClassGaps class_gaps(const std::set<int>& trained, const std::set<int>& tested, int classes);

// Returns "'cat', 'dog' and 3 more". `all` is the number of classes, of which `classes` may have
// only the first.
std::string class_list(const std::vector<int>& classes, const Dataset& data, std::size_t all);

// Returns the warnings about class_gaps() that a training prints. There are none without a test
// set, nor for a ComputedDataset.
std::vector<std::string> class_warnings(const DatasetPair& data);

// Maps each height (or width, or number of channels) to the number of samples that have it.
using Distribution = std::map<int, std::size_t>;
int median(const Distribution& distribution);  // the lower one of two; 0: there is no sample

struct CheckedSet {
  std::size_t samples = 0;
  std::vector<std::size_t> unreadable = {};               // indices, ascending
  std::map<int, std::size_t> classes = {};                // samples by class, unreadable ones, too
  Distribution heights = {}, widths = {}, channels = {};  // of readable samples
  std::size_t smaller = 0;  // readable samples with less height or width than the net's input
};

struct DataCheck {
  struct Twins {
    std::size_t test, train;
    auto operator<=>(const Twins&) const = default;
  };
  CheckedSet train = {};
  std::optional<CheckedSet> test = {};
  // Has each test sample with the values of a training sample, and the first such training sample.
  std::vector<Twins> in_both = {};
  // A Contradiction is a training sample whose class differs from that of `first`, the first
  // training sample with the same values.
  struct Contradiction {
    std::size_t sample, first;
    auto operator<=>(const Contradiction&) const = default;
  };
  std::vector<Contradiction> contradictions = {};
};

struct CheckOptions {
  Extent net_input = {};  // 0x0: unknown
  int threads = 1;
  // One thread calls `progress` repeatedly with how many samples are done, and how many of them
  // could not be read.
  std::function<void(std::size_t done, std::size_t unreadable)> progress = [](std::size_t,
                                                                              std::size_t) {};
};

// Takes memory for a checksum of each sample, and for one image per thread. Throws as
// run_together() does.
Result<DataCheck> check_data(const DatasetPair& data, const CheckOptions& options);

}  // namespace omni
