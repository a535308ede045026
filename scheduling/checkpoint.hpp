// What a checkpoint holds: everything that decides the future of a training.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "layers/formats/safetensors.hpp"
#include "runtime/number_in.hpp"
#include "runtime/result.hpp"

namespace omni {

// Numbers and texts by name (iteration, images seen, seed, ...). Kept as text: any tool can read
// them in the metadata of the file. Real numbers come back bit for bit.
class CheckpointFields {
 public:
  CheckpointFields() = default;
  CheckpointFields(Metadata entries, std::string where)
      : entries_(std::move(entries)), where_(std::move(where)) {}

  template <class T>
  requires(!std::same_as<T, bool>) void set(std::string_view key, const T& value) {
    entries_.insert_or_assign(std::string(key), fmt::format("{}", value));
  }
  // A missing key or another kind of value is ErrorKind::data.
  Result<std::string> text(std::string_view key) const {
    const auto place = entries_.find(key);
    if (place == entries_.end()) return refuse(key, "is missing in the checkpoint");
    return place->second;
  }
  template <class T>
  Result<T> number(std::string_view key) const {
    OMNI_TRY(const std::string written, text(key));
    const auto value = number_in<T>(written);
    if (!value) return refuse(key, "is not a number that fits");
    return *value;
  }
  template <class T>
  Result<T> number(std::string_view key, T least, T most) const {
    OMNI_TRY(const T value, number<T>(key));
    if (value >= least && value <= most) return value;
    return refuse(key, "is not a number that fits");  // nor is NaN
  }
  const Metadata& entries() const { return entries_; }

 private:
  Error refuse(std::string_view key, std::string_view what) const {
    return {ErrorKind::data, where_, fmt::format("the value '{}' {}", key, what),
            "the checkpoint is of another kind of run"};
  }
  Metadata entries_;
  std::string where_;
};

// To be saved. The arrays are looked at during save() only.
struct Snapshot {
  std::uint64_t step = 0;
  std::string cfg_hash;
  std::vector<NamedArray> arrays;  // "param/...", "velocity/...", "mean_square/..."
  CheckpointFields fields;
};

// A checkpoint in memory, as loaded; it owns all of its arrays.
struct Checkpoint {
  std::filesystem::path path;
  std::uint64_t step = 0;
  std::string cfg_hash;
  CheckpointFields fields;
  Safetensors arrays;
};

}  // namespace omni
