// An LmdbWriter makes a new LMDB. The folder gets its name when the LMDB is complete; before, the
// files lie beside it, and the destructor removes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "runtime/files.hpp"
#include "runtime/result.hpp"

struct MDB_env;
struct MDB_txn;

namespace omni {

class LmdbWriter {
 public:
  static constexpr std::size_t kLongestKey = 511;  // bytes; the library takes no longer ones

  // Refuses a folder that is there already.
  static Result<LmdbWriter> create(const std::filesystem::path& folder);
  LmdbWriter(LmdbWriter&& other) noexcept;
  LmdbWriter& operator=(LmdbWriter&&) = delete;
  ~LmdbWriter();

  // Keys come in ascending order.
  Status put(std::string_view key, std::string_view value);
  Status finish();

 private:
  LmdbWriter(std::filesystem::path folder, std::filesystem::path partial, int lock)
      : folder_(std::move(folder)), partial_(std::move(partial)), lock_(lock) {}
  Status check(int code, const char* what) const;
  Status begin();
  std::filesystem::path folder_, partial_;
  Descriptor lock_;
  MDB_env* env_ = nullptr;
  MDB_txn* transaction_ = nullptr;
  unsigned database_ = 0;
  std::uint64_t pending_ = 0;  // bytes since the last commit
};

}  // namespace omni
