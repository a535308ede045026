// Which of a library's algorithms was the fastest for a shape, kept in a file beside StarPU's
// performance models, so that a kind of device measures a shape once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

// May be used by several threads at once.
class ChoiceTable {
 public:
  using Numbers = std::vector<std::uint64_t>;  // an algorithm, as its library says it

  struct Library {
    std::string name;  // in lower case part of the file's name
    std::size_t version = 0;
    std::size_t numbers = 0;  // per algorithm; 0: they differ
  };

  // Reads the file in `folder`. One that cannot be used is reported, and written anew.
  ChoiceTable(const std::filesystem::path& folder, std::string device, Library library);

  // Of the model folder, for all workers of this process.
  static ChoiceTable& shared(const std::string& device, const Library& library);

  // What is known to be the fastest for `key`, if it `works`; else what `measure` finds, which is
  // remembered. Only one thread measures at a time, the others then know.
  std::optional<Numbers> choose(const std::string& key,
                                const std::function<bool(const Numbers&)>& works,
                                const std::function<std::optional<Numbers>()>& measure);

  const std::filesystem::path& path() const { return path_; }

 private:
  Status read();
  Status write() const;

  std::filesystem::path path_;
  std::string device_;
  Library library_;
  std::mutex mutex_;
  std::map<std::string, Numbers> choices_;
  bool told_ = false;  // that the file cannot be written
};

}  // namespace omni
