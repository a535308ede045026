// A save writes all files into a hidden folder and flushes each, the manifest last. Then it flushes
// and renames the folder, and flushes the folder's parent. Only after that it deletes old
// checkpoints.
#include "scheduling/checkpoint/checkpoint_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <system_error>
#include <utility>

#include "runtime/checksum.hpp"
#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "runtime/shown_name.hpp"
#include "scheduling/checkpoint/checkpoint_folder.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

// Only the process that holds the lock of the directory writes these names. If a run is killed, the
// next save or mark_best() replaces what it left.
constexpr std::string_view kUnfinished = ".unfinished", kDoomed = ".doomed", kBest = "best",
                           kNextBest = ".best";

Status remove_folder(const fs::path& folder) {
  std::error_code code;
  fs::remove_all(folder, code);
  if (code)
    return Error{ErrorKind::failed, folder.string(), "cannot remove: " + code.message(), ""};
  return {};
}

Status make_folder(const fs::path& folder) {
  std::error_code code;
  if (!fs::create_directory(folder, code))
    return Error{ErrorKind::failed, folder.string(),
                 "cannot create the folder: " + (code ? code.message() : "it exists"),
                 "check permissions and free space"};
  return {};
}

}  // namespace

Status check_finite(const NamedArray& array, std::ptrdiff_t at) {
  const auto bad =
      std::ranges::find_if_not(array.values, [](float value) { return std::isfinite(value); });
  if (bad == array.values.end()) return {};
  return Error{ErrorKind::diverged, shown_name(array.name),
               fmt::format("value {} is {}, a checkpoint of it would be useless",
                           at + (bad - array.values.begin()), *bad),
               "go back to an earlier checkpoint with a lower learning rate"};
}

Result<CheckpointStore> CheckpointStore::open(const fs::path& directory, Options options) {
  std::error_code code;
  if (!fs::is_directory(directory, code))
    return Error{ErrorKind::usage, directory.string(), "not a directory for checkpoints",
                 "create it, or choose another one"};
  if (options.keep < 2)
    return Error{ErrorKind::usage, directory.string(),
                 fmt::format("keeping {} checkpoints is not safe", options.keep),
                 "keep at least 2: the newest may turn out to be damaged"};
  OMNI_TRY(RunLock lock, RunLock::acquire(directory));
  CheckpointStore store(directory, std::move(options), std::move(lock));
  if (Status status = store.try_writing(); !status) {
    status.error().kind = ErrorKind::usage;
    return std::move(status.error());
  }
  return store;
}

Status CheckpointStore::try_writing() const {
  OMNI_CHECK(next_checkpoint_number(directory_));
  const fs::path folder = directory_ / kUnfinished;
  OMNI_CHECK(remove_folder(folder));
  OMNI_CHECK(make_folder(folder));
  Status written = omni::try_writing(folder / "probe", options_.bytes);
  if (written) written = write_file_atomically(folder / "probe", "x");
  OMNI_CHECK(remove_folder(folder));
  return written;
}

Result<fs::path> CheckpointStore::save(const Snapshot& snapshot) {
  for (const NamedArray& array : snapshot.arrays) OMNI_CHECK(check_finite(array));
  const fs::path unfinished = directory_ / kUnfinished;
  OMNI_CHECK(remove_folder(unfinished));
  OMNI_CHECK(remove_folder(directory_ / kDoomed));
  OMNI_TRY(const std::uint64_t number, next_checkpoint_number(directory_));
  const fs::path folder = directory_ / checkpoint_folder_name(number, snapshot.step);

  OMNI_CHECK(make_folder(unfinished));
  Status saved = write_checkpoint(unfinished, snapshot);
  if (saved) saved = rename_durably(unfinished, folder);
  if (!saved) {
    // The failure of the removal is ignored: it would hide the first error, and the next save
    // deletes the folder.
    (void)remove_folder(unfinished);
    return std::move(saved.error());
  }
  verified_.insert(folder);
  if (Status pruned = prune(); !pruned)
    log::warn("the checkpoint is saved, but an old one could not be removed: {}",
              pruned.error().message());
  return folder;
}

Status CheckpointStore::mark_best() {
  OMNI_TRY(const auto folders, list_checkpoints(directory_));
  if (folders.empty()) return {};
  const fs::path next = directory_ / kNextBest;
  std::error_code code;
  fs::remove(next, code);
  fs::create_symlink(folders.front().path.filename(), next, code);
  if (code)
    return Error{ErrorKind::failed, next.string(), "cannot make the link: " + code.message(),
                 "does the file system have symbolic links?"};
  OMNI_CHECK(rename_durably(next, directory_ / kBest));
  return prune();
}

Status CheckpointStore::write_checkpoint(const fs::path& folder, const Snapshot& snapshot) const {
  CheckpointFields fields = snapshot.fields;
  fields.set("step", snapshot.step);
  fields.set("cfg_hash", snapshot.cfg_hash);

  CheckpointManifest manifest{
      .step = snapshot.step, .cfg_hash = snapshot.cfg_hash, .program = options_.program};
  Checksum checksum;
  OMNI_TRY(auto file, AtomicFile::create(folder / kArraysName));
  const auto sink = [&](std::span<const std::byte> bytes) {
    checksum.update(bytes);
    manifest.arrays_bytes += bytes.size();
    return file.write(bytes);
  };
  OMNI_CHECK(write_safetensors(sink, snapshot.arrays, fields.entries()));
  OMNI_CHECK(file.commit());
  manifest.arrays_checksum = checksum.value();
  return write_file_atomically(folder / kManifestName, manifest_text(manifest));
}

Status CheckpointStore::prune() {
  OMNI_TRY(const auto folders, list_checkpoints(directory_));
  std::error_code no_best;
  const fs::path best = fs::read_symlink(directory_ / kBest, no_best);
  int kept = 0;
  for (const CheckpointFolder& folder : folders) {
    const bool known = verified_.contains(folder.path);
    // A damaged checkpoint is not deleted, so that it can be examined. It does not count as one of
    // the kept checkpoints.
    if (!verify_checkpoint(folder.path, !known)) continue;
    verified_.insert(folder.path);
    if (kept++ < options_.keep || folder.path.filename() == best) continue;
    // The folder is renamed before it is deleted, so that a half deleted folder does not have the
    // name of a checkpoint.
    const fs::path doomed = directory_ / kDoomed;
    OMNI_CHECK(rename_durably(folder.path, doomed));
    OMNI_CHECK(remove_folder(doomed));
    verified_.erase(folder.path);
  }
  return {};
}

Result<std::optional<Checkpoint>> load_latest_checkpoint(const fs::path& directory) {
  OMNI_TRY(const auto folders, list_checkpoints(directory));
  std::string newest_problem;
  for (const CheckpointFolder& folder : folders) {
    Result<Checkpoint> checkpoint = read_checkpoint(folder.path);
    if (checkpoint) return std::optional(std::move(*checkpoint));
    // If memory did not suffice for one checkpoint, older ones are not tried, as they need as much.
    if (checkpoint.error().kind == ErrorKind::out_of_memory) return std::move(checkpoint.error());
    const std::string problem = checkpoint.error().message();
    log::warn("checkpoint not used{}: {}",
              &folder == &folders.back() ? "" : ", trying the one before", problem);
    if (newest_problem.empty()) newest_problem = problem;
  }
  if (folders.empty()) return std::optional<Checkpoint>();
  return Error{ErrorKind::data, directory.string(),
               fmt::format("none of the {} checkpoints is usable; the newest: {}", folders.size(),
                           newest_problem),
               "choose another directory to start from the beginning"};
}

Result<Checkpoint> load_checkpoint(const fs::path& path) {
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (!fs::exists(status))
    return Error{ErrorKind::usage, path.string(), "no such checkpoint", "check the path"};
  if (fs::is_directory(status)) {
    // Symbolic links are followed only in a path that the user gave. Links in a directory of
    // checkpoints may be from other users.
    if (fs::exists(path / kManifestName, code))
      return read_checkpoint(fs::is_symlink(path, code) ? fs::canonical(path, code) : path,
                             Links::followed);
    OMNI_TRY(auto latest, load_latest_checkpoint(path));
    if (!latest)
      return Error{ErrorKind::usage, path.string(), "there is no checkpoint in this directory",
                   "check the path"};
    return std::move(*latest);
  }
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const bool is_arrays = path.filename() == kArraysName && fs::exists(folder / kManifestName, code);
  if (is_arrays || path.filename() == kManifestName)
    return read_checkpoint(folder, Links::followed);
  OMNI_TRY(Safetensors arrays, read_safetensors(path));
  log::warn("{}: no manifest beside it; loaded without verification", path.string());
  return checkpoint_of(path, std::move(arrays));
}

}  // namespace omni
