// An UpdateRatio is the number of updates that several groups need to reach the same loss, relative
// to one group. It is measured for one net and its data, and stored beside the performance models.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/checksum.hpp"
#include "runtime/result.hpp"

namespace omni {

struct UpdateRatio {
  int groups = 1;
  double ratio = 1, error = 0;  // an infinite ratio: the loss was not reached
};

// UpdateRatios are the stored ratios of a net, its data and its mini-batch size. `key` identifies
// these three.
class UpdateRatios {
 public:
  UpdateRatios(const std::filesystem::path& models, const std::string& key)
      : path_(models / "updates" / (checksum_of(key) + ".json")) {}

  // Returns the stored ratios; an empty list if none are stored or the file has another format.
  std::vector<UpdateRatio> read() const;
  Status write(const std::vector<UpdateRatio>& counts) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Returns the first iteration after which the mean of the last `window` losses is at most `target`.
// Returns nothing if there is no such iteration.
std::optional<std::size_t> first_below(std::span<const double> losses, std::size_t window,
                                       double target);

// Compares the losses of one group, `one`, and of several groups, which started from the same
// parameters on the same mini-batches. It compares how many updates each needs to reach the final
// mean loss of one group. The error is the change of the ratio by one standard error of that mean.
UpdateRatio ratio_of_updates(int groups, std::span<const double> one,
                             std::span<const double> several, std::size_t window);

}  // namespace omni
