// RunFolder is the folder in which a run saves its checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "layers/net.hpp"
#include "scheduling/checkpoint/checkpoint_store.hpp"
#include "scheduling/checkpoint/training_checkpoint.hpp"
#include "scheduling/training/training_state.hpp"

namespace omni {

class RunFolder {
 public:
  // Refuses a place where no checkpoint of `bytes` can be saved. `wanted` means that the user asked
  // for checkpoints, so the folder is made now. Otherwise open_unused() makes one if the run is
  // interrupted. A wanted folder that has checkpoints is refused unless the run is `continuing`.
  static Result<RunFolder> prepare(std::filesystem::path path, bool wanted, bool continuing,
                                   int keep, std::uint64_t bytes);
  // Refuses what prepare() would refuse as a wanted folder, without making the folder.
  static Status check(const std::filesystem::path& path, bool continuing, std::uint64_t bytes);
  static std::filesystem::path place(const std::string& out, const std::string& net);

  // Opens a folder if none is open: for an interrupted run whose user did not ask for checkpoints.
  // If the folder is in use or has checkpoints, it tries other names, so that none is deleted.
  Status open_unused();
  CheckpointStore& store() { return *store_; }
  // Returns the command line that resumes this run from the newest checkpoint.
  std::string resume_command() const;

 private:
  RunFolder(std::filesystem::path path, int keep, std::uint64_t bytes)
      : path_(std::move(path)), keep_(keep), bytes_(bytes) {}
  Status open();
  std::filesystem::path path_;
  int keep_;
  std::uint64_t bytes_;
  std::optional<CheckpointStore> store_;
};

}  // namespace omni
