// Updates that several groups need for the same loss, relative to one group: measured, and stored
// beside the performance models, for one net and its data.
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
  double ratio = 1, error = 0;  // infinity: the loss was not reached
};

// For a net, its data and its mini-batch; `key` tells them from others.
class UpdateRatios {
 public:
  UpdateRatios(const std::filesystem::path& models, const std::string& key)
      : path_(models / "updates" / (checksum_of(key) + ".json")) {}

  // None, or in another form: empty.
  std::vector<UpdateRatio> read() const;
  Status write(const std::vector<UpdateRatio>& counts) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The first iteration after which the mean of the last `window` losses is at most `target`; none:
// never.
std::optional<std::size_t> first_below(std::span<const double> losses, std::size_t window,
                                       double target);

// From the losses of one group and of several groups, which started from the same parameters on the
// same mini-batches: updates to the final mean loss of one group. The error is the noise of that
// mean, in updates.
UpdateRatio ratio_of_updates(int groups, std::span<const double> one,
                             std::span<const double> several, std::size_t window);

}  // namespace omni
