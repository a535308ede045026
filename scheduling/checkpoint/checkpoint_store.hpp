// A CheckpointStore is a directory of checkpoints. Each checkpoint is a folder such as
// save-000007-step-000001200/, with arrays.safetensors and a manifest. A folder gets that name when
// it is complete and on disk. So after a crash at any time the previous or the new checkpoint is
// complete. The first number orders checkpoints: it grows even if a run goes back to an earlier
// step.
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

// Returns ErrorKind::diverged if a value of the array is infinite or not a number. `at` is the
// index of the array's first value in the message.
Status check_finite(const NamedArray& array, std::ptrdiff_t at = 0);

class CheckpointStore {
 public:
  struct Options {
    int keep = 2;             // number of complete checkpoints that are kept; at least 2
    std::string program;      // name and version, for the manifest
    std::uint64_t bytes = 0;  // rough size of a checkpoint; open() refuses a disk with less room
  };

  // Locks the directory and tries to write a file. If the run could not save there, returns
  // ErrorKind::usage before it starts.
  static Result<CheckpointStore> open(const std::filesystem::path& directory, Options options);

  // Saves a checkpoint and returns its folder. Values that are not finite are refused. After an
  // error the earlier checkpoints are unchanged. Two threads may not call it at once.
  Result<std::filesystem::path> save(const Snapshot& snapshot);
  // Keeps the newest checkpoint until another one is marked. The link `best` in the directory then
  // points to this checkpoint.
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

// Loads the newest checkpoint that can be verified, with a warning for each newer one. Returns
// nullopt if there is no checkpoint, and an error if none can be verified. It needs no lock and
// writes nothing.
Result<std::optional<Checkpoint>> load_latest_checkpoint(const std::filesystem::path& directory);

// Loads a checkpoint. `path` is a directory of checkpoints (the newest is loaded), a checkpoint's
// folder, its manifest or its arrays. A .safetensors file without manifest is loaded with a
// warning.
Result<Checkpoint> load_checkpoint(const std::filesystem::path& path);

}  // namespace omni
