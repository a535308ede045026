// A net as it is described, and beside it how it is to be trained.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layers/options.hpp"
#include "layers/solver_options.hpp"
#include "runtime/data/augment.hpp"
#include "runtime/extent.hpp"

namespace omni {

inline constexpr int kMostImages = 1 << 20;  // in a batch

// The input, and how a mini-batch is formed.
struct NetOptions {
  Extent input;
  int batch = 1, subdivisions = 1;
  float label_smoothing = 0;

  int micro_batch() const { return batch / subdivisions; }
};

struct NetDescription {
  std::string name;   // file name without folder and extension
  std::string where;  // "lenet.cfg:1"
  NetOptions options;
  std::vector<Section> layers;
};

// What a file says besides.
struct TrainableNet : NetDescription {
  SolverOptions solver;
  AugmentOptions augment;
  std::uint64_t designed_length = 0;  // updates, whatever the command line says; 0: not known
  std::string text;                   // the same for equal descriptions and options
  std::map<std::string, std::string, std::less<>> places;  // of the training's options, by key

  const std::string& place_of(std::string_view key) const {
    const auto place = places.find(key);
    return place == places.end() ? where : place->second;
  }
};

// What takes the place of the file's values.
struct NamedOptions {
  std::optional<int> batch{}, subdivisions{}, burn_in{}, max_batches{};
  std::optional<float> learning_rate{}, momentum{}, decay{};
  std::optional<RatePolicy> policy{};
};

// How a file is read.
struct ReadOptions {
  NamedOptions named{};
  std::vector<std::string> settings{};  // key=value, as if the file ended with them
  int classes = 0;                      // outputs that the last layer gets; 0: the file's
  bool strict = false;                  // unknown keys are errors
  bool endless = false;                 // a schedule that needs a length follows another one
};

}  // namespace omni
