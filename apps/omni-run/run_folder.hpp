// Where a run keeps its checkpoints, and where it starts from.
#pragma once

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
  // `wanted`: checkpoints were asked for, so the folder must be
  // writable now; otherwise it is made only if the run is interrupted. Checkpoints that are in it
  // already belong to this run only when it is `continuing`.
  static Result<RunFolder> prepare(std::filesystem::path path, bool wanted, bool continuing,
                                   int keep);
  static std::filesystem::path place(const std::string& out, const std::string& net);

  Result<std::filesystem::path> save(ComputeGroups& groups, const TrainingState& state,
                                     const RunIdentity& identity);
  // This process's command line, going on from the newest checkpoint.
  std::string resume_command() const;

 private:
  RunFolder(std::filesystem::path path, int keep) : path_(std::move(path)), keep_(keep) {}
  Status open();
  std::filesystem::path path_;
  int keep_;
  std::optional<CheckpointStore> store_;
};

}  // namespace omni
