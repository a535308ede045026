// This fixture has a folder of sample checkpoints, and loads the checkpoints in it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/log.hpp"
#include "scheduling/checkpoint/checkpoint_store.hpp"
#include "tests/support/sample_checkpoint.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni::test {

inline const CheckpointStore::Options kOptions = {.keep = 2, .program = "omnivore test"};

using Names = std::vector<std::string>;

class CheckpointDirectoryTest : public testing::Test {
 protected:
  CheckpointStore open(CheckpointStore::Options options = kOptions) {
    auto store = CheckpointStore::open(folder_.path(), std::move(options));
    if (!store) throw std::runtime_error(store.error().message());
    return std::move(*store);
  }
  static std::filesystem::path save(CheckpointStore& store, std::uint64_t step) {
    SampleCheckpoint sample(step);
    auto saved = store.save(sample.snapshot());
    if (!saved) throw std::runtime_error(saved.error().message());
    return *saved;
  }
  // Returns the step of the newest checkpoint that loads, 0 if there is none, or -1 on an error,
  // which error_ then holds.
  std::int64_t latest() {
    auto latest = load_latest_checkpoint(folder_.path());
    if (!latest) {
      error_ = latest.error();
      return -1;
    }
    if (!*latest) return 0;
    EXPECT_EQ(difference_from_sample(**latest), "");
    return static_cast<std::int64_t>((*latest)->step);
  }
  Names names() {
    Names names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }
  void damage(const std::filesystem::path& file) { put(file, get(file) + "x"); }

  TemporaryDirectory folder_;
  log::Capture said_;
  Error error_;
};

}  // namespace omni::test
