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

// ClassGaps has the classes that lack samples in the training set, in the test set, or in both
// (`unused`).
struct ClassGaps {
  static constexpr std::size_t kMostUnused = 1000;
  std::vector<int> not_trained = {}, not_tested = {}, unused = {};
  std::size_t all_unused = 0;  // `unused` has only the first kMostUnused of them
};
ClassGaps class_gaps(const std::set<int>& trained, const std::set<int>& tested, int classes);

// Names classes as "'cat', 'dog' and 3 more". `all` is how many there are.
std::string class_list(const std::vector<int>& classes, const Dataset& data, std::size_t all);

// Returns the warnings about class_gaps() that a training prints. Computed samples cause none.
std::vector<std::string> class_warnings(const DatasetPair& data);

// Maps each value of a height, a width or a number of channels to the number of samples that have
// it.
using Distribution = std::map<int, std::size_t>;
int median(const Distribution& distribution);  // of two, the lower one; requires a sample

struct CheckedSet {
  std::size_t samples = 0;
  std::vector<std::size_t> unreadable = {};               // indices, ascending
  std::map<int, std::size_t> classes = {};                // samples by class, unreadable ones, too
  Distribution heights = {}, widths = {}, channels = {};  // of readable samples
  std::size_t smaller = 0;  // samples with less height or width than the net's input
};

struct DataCheck {
  struct Twins {
    std::size_t test, train;
    auto operator<=>(const Twins&) const = default;
  };
  CheckedSet train = {};
  std::optional<CheckedSet> test = {};
  // Each test sample here has the values of a training sample; of several such training samples,
  // the first is named.
  std::vector<Twins> in_both = {};
  // A Contradiction is a training sample with the values of an earlier sample (`first`) of another
  // class.
  struct Contradiction {
    std::size_t sample, first;
    auto operator<=>(const Contradiction&) const = default;
  };
  std::vector<Contradiction> contradictions = {};
};

struct CheckOptions {
  Extent net_input = {};  // 0x0: unknown
  int threads = 1;
  // One thread at a time calls `progress` repeatedly. It passes how many samples are done, and how
  // many of them could not be read.
  std::function<void(std::size_t done, std::size_t unreadable)> progress = [](std::size_t,
                                                                              std::size_t) {};
};

// Uses memory for a checksum of each sample, and for an image per thread. Throws as run_together()
// does.
Result<DataCheck> check_data(const DatasetPair& data, const CheckOptions& options);

}  // namespace omni
