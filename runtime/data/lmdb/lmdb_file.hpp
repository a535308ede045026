// An LMDB that is read, and never written. The library maps its file into memory, so that a damaged
// or shortened file would end the process by a signal: here such an access is an error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/extent.hpp"
#include "runtime/result.hpp"

namespace omni {

// Returns the extent of the first entry's image. h and w are 0 if it is an image file.
Result<Extent> first_extent_of_lmdb(const std::filesystem::path& folder);

class LmdbFile {
 public:
  // Returns whether a folder has the file data.mdb.
  static bool is(const std::filesystem::path& folder);
  static Result<LmdbFile> open(const std::filesystem::path& folder);

  std::uint64_t entries() const { return entries_; }
  // Calls use(key, value) for the first `most` entries, in the order of their keys. What is copied
  // of the value is up to `use`, which has to be plain code: it is left for good if the file is
  // damaged.
  using Use = void (*)(void* context, std::string_view key, std::string_view value);
  Status for_each(Use use, void* context, std::uint64_t most = UINT64_MAX) const;
  // Reads a value. Several threads may call it at the same time. Refuses a value of more than
  // `most` bytes.
  Status read(std::string_view key, std::uint64_t most, std::string& value) const;

 private:
  struct Environment;
  LmdbFile(std::filesystem::path folder, std::shared_ptr<Environment> environment,
           std::uint64_t entries)
      : folder_(std::move(folder)), environment_(std::move(environment)), entries_(entries) {}
  Error damaged(std::string what) const;
  std::filesystem::path folder_;
  std::shared_ptr<Environment> environment_;
  std::uint64_t entries_ = 0;
};

}  // namespace omni
