// Which of cuDNN's algorithms was the fastest for a convolution, kept in a file beside StarPU's
// performance models, so that a kind of device measures a shape once.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/result.hpp"

namespace omni {

// cuDNN's own numbers.
struct AlgorithmChoice {
  int algorithm = 0;
  int math = 0;  // how it multiplies

  bool operator==(const AlgorithmChoice&) const = default;
};

// May be used by several threads at once.
class AlgorithmTable {
 public:
  // Reads the file in `folder`. One that cannot be used is reported, and written anew.
  AlgorithmTable(const std::filesystem::path& folder, std::string device, std::size_t version);

  // Of the model folder, for all workers of this process.
  static AlgorithmTable& shared(const std::string& device, std::size_t version);

  // What is known to be the fastest for `key`, if it `works`; else what `measure` finds, which is
  // remembered. Only one thread measures at a time, the others then know.
  std::optional<AlgorithmChoice> choose(
      const std::string& key, const std::function<bool(const AlgorithmChoice&)>& works,
      const std::function<std::optional<AlgorithmChoice>()>& measure);

  const std::filesystem::path& path() const { return path_; }

 private:
  Result<void> read();
  Result<void> write() const;

  std::filesystem::path path_;
  std::string device_;
  std::size_t version_;
  std::mutex mutex_;
  std::map<std::string, AlgorithmChoice> choices_;
  bool told_ = false;  // that the file cannot be written
};

}  // namespace omni
