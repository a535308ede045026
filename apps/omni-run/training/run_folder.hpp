// Where a run keeps its checkpoints, and where it starts from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "layers/net.hpp"
#include "scheduling/checkpoint_store.hpp"
#include "scheduling/trainer.hpp"
#include "scheduling/training_checkpoint.hpp"

namespace omni {

class RunFolder {
 public:
  // Refuses a place where no checkpoint of `bytes` can be saved. `wanted`: checkpoints were asked
  // for, so this is the folder; otherwise one is made only if the run is interrupted, and another
  // where this one is in use then. Checkpoints that are in it already belong to this run only when
  // it is `continuing`.
  static Result<RunFolder> prepare(std::filesystem::path path, bool wanted, bool continuing,
                                   int keep, std::uint64_t bytes);
  static std::filesystem::path place(const std::string& out, const std::string& net);

  // As save_training().
  Result<std::filesystem::path> save(ComputeGroups& groups, const ArraysElsewhere& elsewhere,
                                     const TrainingState& state, const RunIdentity& identity);
  // This process's command line, going on from the newest checkpoint.
  std::string resume_command() const;

 private:
  RunFolder(std::filesystem::path path, int keep, std::uint64_t bytes)
      : path_(std::move(path)), keep_(keep), bytes_(bytes) {}
  Status open();
  Status open_unused();
  std::filesystem::path path_;
  int keep_;
  std::uint64_t bytes_;
  std::optional<CheckpointStore> store_;
};

}  // namespace omni
