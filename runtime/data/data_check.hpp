// What a data set would make a training stumble over, found by reading all of it: samples that
// cannot be read, classes without samples, samples that are in both sets or in several classes.
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

std::set<int> classes_in(const Dataset& data);  // those with samples

// Which classes lack samples; of those without any, the first kMostUnused.
struct ClassGaps {
  static constexpr std::size_t kMostUnused = 1000;
  std::vector<int> not_trained = {}, not_tested = {}, unused = {};
  std::size_t all_unused = 0;
};
ClassGaps class_gaps(const std::set<int>& trained, const std::set<int>& tested, int classes);

// "'cat', 'dog' and 3 more"
std::string class_list(const std::vector<int>& classes, const Dataset& data, std::size_t all);

// What is said of gaps before a training. Nothing of computed samples.
std::vector<std::string> class_warnings(const DatasetPair& data);

// How many samples have which height, width or number of channels.
using Distribution = std::map<int, std::size_t>;
int median(const Distribution& distribution);  // the lower one; requires a sample

struct CheckedSet {
  std::size_t samples = 0;
  std::vector<std::size_t> unreadable = {};               // in ascending order, as of the others
  std::map<int, std::size_t> classes = {};                // all samples
  Distribution heights = {}, widths = {}, channels = {};  // of what can be read
  std::size_t smaller = 0;                                // than the net's input in height or width
};

struct DataCheck {
  struct Twins {
    std::size_t test, train;
    auto operator<=>(const Twins&) const = default;
  };
  CheckedSet train = {};
  std::optional<CheckedSet> test = {};
  // Test samples that are training samples, too, value by value; each with the first such.
  std::vector<Twins> in_both = {};
  // Training samples that are such of another class, too; each with the first of its values.
  struct Contradiction {
    std::size_t sample, first;
    auto operator<=>(const Contradiction&) const = default;
  };
  std::vector<Contradiction> contradictions = {};
};

struct CheckOptions {
  Extent net_input = {};  // of 0x0: unknown
  int threads = 1;
  // Called by one thread, now and then, with the samples that were read and could not be.
  std::function<void(std::size_t done, std::size_t unreadable)> progress = [](std::size_t,
                                                                              std::size_t) {};
};

// Holds a checksum of each sample, and an image for each thread. Throws as run_together()
// does.
Result<DataCheck> check_data(const DatasetPair& data, const CheckOptions& options);

}  // namespace omni
