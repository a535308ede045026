// A directory of checkpoints, one folder each: save-000007-step-000001200/ with arrays.safetensors
// and a manifest. A folder gets that name when it is complete and on disk, so a crash at any time
// leaves the one before or the new one. The running number orders them: a run that went back to an
// earlier step continues with a higher one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "runtime/result.hpp"
#include "scheduling/checkpoint/checkpoint_folder.hpp"
#include "scheduling/checkpoint/run_lock.hpp"

namespace omni {

// Infinite values, and those that are no numbers, are ErrorKind::diverged. `at`: of the first one.
Status check_finite(const NamedArray& array, std::ptrdiff_t at = 0);

class CheckpointStore {
 public:
  struct Options {
    int keep = 2;             // complete checkpoints that stay; at least 2
    std::string program;      // name and version, for the manifest
    std::uint64_t bytes = 0;  // of a checkpoint, about: open() refuses a disk without room for it
  };

  // Locks the directory and tries a write, so that a run that cannot save never starts
  // (ErrorKind::usage).
  static Result<CheckpointStore> open(const std::filesystem::path& directory, Options options);

  // The folder of the new checkpoint. Values that are not finite are refused. An error leaves the
  // earlier checkpoints as they were. Not for two threads at once.
  Result<std::filesystem::path> save(const Snapshot& snapshot);
  // The newest one stays until another is marked: `best` in the directory is a link to it.
  Status mark_best();

 private:
  CheckpointStore(std::filesystem::path directory, Options options, RunLock lock)
      : directory_(std::move(directory)), options_(std::move(options)), lock_(std::move(lock)) {}
  Status try_writing() const;
  Status write_checkpoint(const std::filesystem::path& folder, const Snapshot& snapshot) const;
  Status prune();

  std::filesystem::path directory_;
  Options options_;
  RunLock lock_;
  std::set<std::filesystem::path> verified_;  // written or checked in full by this process
};

// The newest checkpoint that verifies; older ones are tried with a warning. No checkpoint at all is
// nullopt; checkpoints of which none verifies are an error. Needs no lock and writes nothing.
Result<std::optional<Checkpoint>> load_latest_checkpoint(const std::filesystem::path& directory);

// A directory of checkpoints (the newest), one checkpoint's folder, its manifest or its arrays. A
// .safetensors file without manifest is loaded with a warning.
Result<Checkpoint> load_checkpoint(const std::filesystem::path& path);

}  // namespace omni
