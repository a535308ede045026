#include "apps/run_folder.hpp"

#include <fmt/format.h>

#include "scheduling/training_checkpoint.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

Result<bool> holds_checkpoints(const fs::path& folder) {
  OMNI_TRY(const auto latest, load_latest_checkpoint(folder));
  return latest.has_value();
}

}  // namespace

Result<RunFolder> RunFolder::prepare(const std::string& out, const std::string& net, bool wanted,
                                     bool resuming, int keep) {
  fs::path path = out.empty() ? fs::path("omni-runs") / net : fs::path(out);
  if (!resuming) {
    OMNI_TRY(bool used, holds_checkpoints(path));
    if (used && wanted)
      return Error{ErrorKind::usage, path.string(), "holds checkpoints of an earlier run",
                   "go on with --resume auto, or start afresh with another --out"};
    // Nobody asked for checkpoints: should an interruption need one, it must not displace others.
    for (int number = 2; used; ++number) {
      path = fs::path("omni-runs") / fmt::format("{}-{}", net, number);
      OMNI_TRY(used, holds_checkpoints(path));
    }
  }
  RunFolder folder(std::move(path), keep);
  if (wanted) OMNI_CHECK(folder.open());
  return folder;
}

Status RunFolder::open() {
  std::error_code failure;
  fs::create_directories(path_, failure);
  if (failure)
    return Error{ErrorKind::usage, path_.string(),
                 "cannot make the run folder: " + failure.message(),
                 "name a writable one with --out"};
  OMNI_TRY(CheckpointStore store,
           CheckpointStore::open(path_, {.keep = keep_, .program = "omnivore " OMNI_VERSION}));
  store_.emplace(std::move(store));
  return {};
}

Result<fs::path> RunFolder::save(Net& net, const TrainingState& state, const std::string& hash) {
  if (!store_) OMNI_CHECK(open());
  return save_training(*store_, net, state, hash);
}

}  // namespace omni
