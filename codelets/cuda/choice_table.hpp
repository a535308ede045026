// A ChoiceTable has a library's fastest algorithm for each shape. It is stored in a file beside
// StarPU's performance models. So a shape is measured only once on a kind of GPU. The program comes
// with such files of some GPUs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

// Several threads may use a ChoiceTable at once.
class ChoiceTable {
 public:
  using Numbers = std::vector<std::uint64_t>;  // by which the library knows an algorithm

  struct Library {
    std::string name;  // in lower case it is a part of the file's name
    std::size_t version = 0;
    std::size_t numbers = 0;  // per algorithm; 0: algorithms have different numbers of them
  };

  // Trials tells what a choice is worth. Other work on the GPU has disturbed trials, so their
  // result is not kept. If only some algorithms were tried, the choice is kept as unfinished.
  enum class Trials { disturbed, unfinished, finished };
  struct Choice {
    Numbers numbers;
    Trials trials = Trials::finished;
    std::size_t tried = 0;  // unfinished: so many of the library's first algorithms were tried
  };

  // Reads this device's table from `folder`, and what it lacks or has not finished from `shipped`.
  // Warns if the file in `folder` cannot be used; the next measured choice then replaces it.
  ChoiceTable(const std::filesystem::path& folder, std::string device, Library library,
              const std::filesystem::path& shipped = {});

  // Returns the table in the folder of performance models, which all workers of this process share.
  static ChoiceTable& shared(const std::string& device, const Library& library);

  // Returns the algorithm that is stored as the fastest for `key`, if `works` accepts it. Otherwise
  // returns the result of `measure`, and stores it if it was not disturbed. Only one thread
  // measures at a time. Threads that wait for the same key get its result.
  std::optional<Choice> choose(const std::string& key,
                               const std::function<bool(const Numbers&)>& works,
                               const std::function<std::optional<Choice>()>& measure);
  // Stores a choice that later trials have made. Choices that other processes have stored in the
  // meantime remain. An unfinished choice never replaces a finished one in the file.
  void keep(const std::string& key, Choice choice);

  const std::filesystem::path& path() const { return path_; }

 private:
  using Choices = std::map<std::string, Choice>;

  Result<Choices> read(const std::filesystem::path& path) const;
  void write();
  Status write(const Choices& choices) const;

  std::filesystem::path path_;
  std::string device_;
  Library library_;
  std::mutex mutex_;
  Choices choices_;
  std::set<std::string> own_;  // keys whose choices were measured here
  std::mutex writing_;         // is locked before mutex_, and while the file is written
  bool warned_ = false;        // true: it has warned that the file cannot be written
};

}  // namespace omni
