#include "runtime/data/lmdb/lmdb_writer.hpp"

#include <fmt/format.h>
#include <lmdb.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#include "runtime/shown_name.hpp"

namespace omni {
namespace {

// The library reserves this much address space, as Caffe does. The file is as large as its entries.
constexpr std::size_t kMostBytes = std::size_t{1} << 40;
constexpr std::uint64_t kCommitted = 64 << 20;  // bytes; a transaction holds them in memory

}  // namespace

Result<LmdbWriter> LmdbWriter::create(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::symlink_status(folder, ignored)))
    return Error{ErrorKind::usage, folder.string(), "is there already",
                 "name a new folder, or remove this one"};
  const std::filesystem::path parent = std::filesystem::absolute(folder).parent_path();
  const std::string prefix = folder.filename().string() + ".partial-";
  delete_unlocked_folders(parent, prefix);
  const std::filesystem::path partial = parent / fmt::format("{}{}", prefix, getpid());
  std::error_code failure;
  if (folder.filename().empty() || !std::filesystem::create_directory(partial, failure))
    return Error{ErrorKind::usage, folder.string(),
                 folder.filename().empty() ? "is no name of a folder"
                                           : "cannot be made: " + failure.message(),
                 "name a new folder where you may write"};
  LmdbWriter writer(folder, partial, lock_folder(partial));
  // The library makes its files; it writes no lock beside them that readers would need.
  OMNI_CHECK(writer.check(mdb_env_create(&writer.env_), "cannot be made"));
  OMNI_CHECK(writer.check(mdb_env_set_mapsize(writer.env_, kMostBytes), "cannot be mapped"));
  OMNI_CHECK(writer.check(mdb_env_open(writer.env_, partial.c_str(), MDB_NOTLS | MDB_NOSYNC, 0664),
                          "cannot be made"));
  OMNI_CHECK(writer.begin());
  OMNI_CHECK(
      writer.check(mdb_dbi_open(writer.transaction_, nullptr, 0, &writer.database_), "is damaged"));
  return writer;
}

LmdbWriter::LmdbWriter(LmdbWriter&& other) noexcept
    : folder_(std::move(other.folder_)),
      partial_(std::exchange(other.partial_, "")),
      lock_(std::move(other.lock_)),
      env_(std::exchange(other.env_, nullptr)),
      transaction_(std::exchange(other.transaction_, nullptr)),
      database_(other.database_),
      pending_(other.pending_) {}

LmdbWriter::~LmdbWriter() {
  if (transaction_ != nullptr) mdb_txn_abort(transaction_);
  if (env_ != nullptr) mdb_env_close(env_);
  std::error_code ignored;
  if (!partial_.empty()) std::filesystem::remove_all(partial_, ignored);
}

Status LmdbWriter::check(int code, const char* what) const {
  if (code == 0) return {};
  return Error{ErrorKind::failed, folder_.string(),
               fmt::format("{}: {}", what, one_line(mdb_strerror(code))),
               "is there room on the disk?"};
}

Status LmdbWriter::begin() {
  return check(mdb_txn_begin(env_, nullptr, 0, &transaction_), "cannot be written");
}

Status LmdbWriter::put(std::string_view key, std::string_view value) {
  MDB_val name{key.size(), const_cast<char*>(key.data())},
      bytes{value.size(), const_cast<char*>(value.data())};
  OMNI_CHECK(
      check(mdb_put(transaction_, database_, &name, &bytes, MDB_APPEND), "cannot be written"));
  pending_ += value.size();
  if (pending_ < kCommitted) return {};
  pending_ = 0;
  OMNI_CHECK(check(mdb_txn_commit(std::exchange(transaction_, nullptr)), "cannot be written"));
  return begin();
}

Status LmdbWriter::finish() {
  OMNI_CHECK(check(mdb_txn_commit(std::exchange(transaction_, nullptr)), "cannot be written"));
  OMNI_CHECK(check(mdb_env_sync(env_, 1), "cannot be written"));
  mdb_env_close(std::exchange(env_, nullptr));
  OMNI_CHECK(rename_durably(partial_, folder_));
  partial_.clear();
  return {};
}

}  // namespace omni
