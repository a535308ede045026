// Where a run keeps its checkpoints, and where it starts from.
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
  // Refuses a place where no checkpoint of `bytes` can be saved. `wanted`: checkpoints were asked
  // for, so this is the folder; otherwise one is made only if the run is interrupted, and another
  // where this one is in use then. Checkpoints that are in it already belong to this run only when
  // it is `continuing`.
  static Result<RunFolder> prepare(std::filesystem::path path, bool wanted, bool continuing,
                                   int keep, std::uint64_t bytes);
  // The same refusals, before the folder is made.
  static Status check(const std::filesystem::path& path, bool continuing, std::uint64_t bytes);
  static std::filesystem::path place(const std::string& out, const std::string& net);

  // Nobody asked for checkpoints: the one that an interruption needs must not displace others, also
  // not of a run that began after this one.
  Status open_unused();
  CheckpointStore& store() { return *store_; }
  // This process's command line, going on from the newest checkpoint.
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
