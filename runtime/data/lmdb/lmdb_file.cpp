#include "runtime/data/lmdb/lmdb_file.hpp"

#include <fmt/format.h>
#include <lmdb.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include "runtime/shown_name.hpp"

namespace omni {
namespace {

// The following functions handle accesses to mapped pages that do not exist.

thread_local sigjmp_buf* way_out = nullptr;  // null: this thread reads no mapped file
struct sigaction before_bus, before_segv;

void leave(int signal, siginfo_t* info, void* context) {
  if (way_out != nullptr) siglongjmp(*std::exchange(way_out, nullptr), 1);
  // No read of a mapped file caused the signal. It has the effect that it had without this handler.
  const struct sigaction& before = signal == SIGBUS ? before_bus : before_segv;
  if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(signal, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
    return before.sa_handler(signal);
  sigaction(signal, &before, nullptr);  // the access repeats, and ends the process
}

void watch_signals() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = leave;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &before_bus);
    sigaction(SIGSEGV, &action, &before_segv);
  });
}

// The library would end the process when it finds something wrong. This function leaves it instead.
void leave_library(MDB_env*, const char*) {
  if (way_out != nullptr) siglongjmp(*std::exchange(way_out, nullptr), 1);
}

// Returns false if the work met a page that is not there. The work is plain code of C: nothing is
// unwound.
template <class Work>
bool guarded(Work& work) {
  sigjmp_buf out;
  if (sigsetjmp(out, 1) != 0) return false;
  way_out = &out;
  work();
  way_out = nullptr;
  return true;
}

std::filesystem::path data_file(const std::filesystem::path& folder) { return folder / "data.mdb"; }

}  // namespace

// The library refuses nothing, but two environments of one file in a process would harm each other.
struct LmdbFile::Environment {
  MDB_env* env = nullptr;
  MDB_dbi database = 0;
  ~Environment() {
    if (env != nullptr) mdb_env_close(env);
  }
};

Error LmdbFile::damaged(std::string what) const {
  return {ErrorKind::data, folder_.string(), std::move(what),
          "data.mdb is damaged or cut off: copy it again, or make it anew"};
}

bool LmdbFile::is(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(data_file(folder), ignored);
}

Result<LmdbFile> LmdbFile::open(const std::filesystem::path& folder) {
  watch_signals();
  LmdbFile file(folder, std::make_shared<Environment>(), 0);
  struct stat status {};
  if (stat(data_file(folder).c_str(), &status) != 0)
    return Error{ErrorKind::usage, folder.string(), "has no data.mdb", "an LMDB is a folder"};
  const auto size = static_cast<std::uint64_t>(status.st_size);
  MDB_env*& env = file.environment_->env;
  MDB_stat counts{};
  MDB_envinfo info{};
  const char* step = "cannot be read";
  int code = 0;
  MDB_txn* transaction = nullptr;
  const auto open = [&] {
    const auto next = [&](const char* name, int result) {
      step = name;
      code = result;
      return code == 0;
    };
    constexpr unsigned kFlags = MDB_RDONLY | MDB_NOLOCK | MDB_NORDAHEAD | MDB_NOTLS;
    if (!next("cannot be read", mdb_env_create(&env))) return;
    mdb_env_set_assert(env, leave_library);
    // Else as much address space is taken as the writer reserved.
    if (!next("cannot be mapped", mdb_env_set_mapsize(env, size))) return;
    if (!next("is no LMDB", mdb_env_open(env, folder.c_str(), kFlags, 0))) return;
    if (!next("is no LMDB", mdb_env_info(env, &info))) return;
    if (!next("cannot be read", mdb_txn_begin(env, nullptr, MDB_RDONLY, &transaction))) return;
    if (next("has no database",
             mdb_dbi_open(transaction, nullptr, 0, &file.environment_->database)))
      next("has no database", mdb_stat(transaction, file.environment_->database, &counts));
  };
  const bool whole = guarded(open);
  if (transaction != nullptr) mdb_txn_commit(transaction);  // which keeps the database open
  if (!whole) return file.damaged("its first pages cannot be read");
  if (code != 0)
    return Error{ErrorKind::data, folder.string(),
                 fmt::format("{}: {}", step, one_line(mdb_strerror(code))),
                 "is data.mdb complete, and written on a machine of this kind?"};
  const std::uint64_t pages = info.me_last_pgno + 1;
  if (counts.ms_psize == 0 || pages > size / counts.ms_psize)
    return file.damaged(fmt::format("has {} pages of {} bytes, but the file has only {} bytes",
                                    pages, counts.ms_psize, size));
  if (counts.ms_entries > size / 8)
    return file.damaged(fmt::format("claims {} entries in {} bytes", counts.ms_entries, size));
  file.entries_ = counts.ms_entries;
  return file;
}

Status LmdbFile::for_each(Use use, void* context, std::uint64_t most) const {
  std::uint64_t left = std::min(entries_, most);
  const bool all = left == entries_;
  int code = 0;
  MDB_txn* transaction = nullptr;
  MDB_cursor* cursor = nullptr;
  const auto visit = [&] {
    code = mdb_txn_begin(environment_->env, nullptr, MDB_RDONLY, &transaction);
    if (code == 0) code = mdb_cursor_open(transaction, environment_->database, &cursor);
    MDB_val key, value;
    while (code == 0 && (code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
      if (left == 0) break;
      --left;
      use(context, {static_cast<const char*>(key.mv_data), key.mv_size},
          {static_cast<const char*>(value.mv_data), value.mv_size});
    }
  };
  const bool whole = guarded(visit);
  if (cursor != nullptr) mdb_cursor_close(cursor);  // which reads no page
  if (transaction != nullptr) mdb_txn_abort(transaction);
  if (!whole) return damaged("a page cannot be read");
  if (!all && left == 0) return {};
  if (code != MDB_NOTFOUND || left != 0)
    return damaged(code == 0 || code == MDB_NOTFOUND
                       ? fmt::format("claims {} entries, but has {}", entries_,
                                     code == 0 ? "more" : std::to_string(entries_ - left))
                       : one_line(mdb_strerror(code)));
  return {};
}

Status LmdbFile::read(std::string_view key, std::uint64_t most, std::string& value) const {
  int code = 0;
  std::uint64_t size = 0;
  MDB_txn* transaction = nullptr;
  MDB_val name{key.size(), const_cast<char*>(key.data())}, found{};
  const auto get = [&] {
    code = mdb_txn_begin(environment_->env, nullptr, MDB_RDONLY, &transaction);
    if (code == 0) code = mdb_get(transaction, environment_->database, &name, &found);
    size = found.mv_size;
  };
  bool whole = guarded(get);
  if (whole && code == 0 && size <= most) {
    value.resize(size);
    const auto copy = [&] { std::memcpy(value.data(), found.mv_data, size); };
    whole = guarded(copy);
  }
  if (transaction != nullptr) mdb_txn_abort(transaction);
  if (!whole) return damaged(fmt::format("{}: its pages cannot be read", shown_name(key)));
  if (code != 0) return damaged(fmt::format("{}: {}", shown_name(key), mdb_strerror(code)));
  if (size > most)
    return damaged(
        fmt::format("{} has {} bytes, at most {} are read", shown_name(key), size, most));
  return {};
}

}  // namespace omni
