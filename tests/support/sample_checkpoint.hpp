// A SampleCheckpoint is small, and all its values follow from its step. So a mixture of two
// checkpoints is noticed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scheduling/checkpoint/checkpoint_folder.hpp"

namespace omni::test {

class SampleCheckpoint {
 public:
  explicit SampleCheckpoint(std::uint64_t step, std::size_t values = 64) {
    for (std::size_t i = 0; i < values; ++i)
      values_.push_back(static_cast<float>(step) + static_cast<float>(i) / 1024);
    snapshot_ = {.step = step,
                 .cfg_hash = "00c0ffee",
                 .arrays = {array("param/conv1/weights", values / 2, 0),
                            array("velocity/conv1/weights", values / 2, values / 2)},
                 .fields = {}};
    snapshot_.fields.set("images_seen", step * 32);
  }
  SampleCheckpoint(const SampleCheckpoint&) = delete;
  SampleCheckpoint& operator=(const SampleCheckpoint&) = delete;

  Snapshot& snapshot() { return snapshot_; }
  std::vector<float>& values() { return values_; }

 private:
  NamedArray array(std::string name, std::size_t count, std::size_t offset) const {
    return {std::move(name), {static_cast<std::int64_t>(count)}, {values_.data() + offset, count}};
  }
  std::vector<float> values_;
  Snapshot snapshot_;
};

// Returns "" if the checkpoint is exactly the sample of its step, or what differs.
inline std::string difference_from_sample(const Checkpoint& checkpoint) {
  const auto images = checkpoint.fields.number<std::uint64_t>("images_seen");
  if (!images || *images != checkpoint.step * 32) return "images_seen is of another step";
  if (checkpoint.cfg_hash != "00c0ffee") return "cfg_hash differs";
  if (checkpoint.arrays.arrays().size() != 2) return "not two arrays";
  std::size_t position = 0;
  for (const NamedArray& array : checkpoint.arrays.arrays()) {
    for (const float value : array.values) {
      if (value != static_cast<float>(checkpoint.step) + static_cast<float>(position++) / 1024)
        return array.name + " holds values of another step";
    }
  }
  return "";
}

}  // namespace omni::test
