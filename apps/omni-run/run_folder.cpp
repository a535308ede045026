#include "apps/omni-run/run_folder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "apps/version.hpp"
#include "runtime/log.hpp"
#include "runtime/own_command.hpp"
#include "scheduling/checkpoint_folder.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

Result<bool> holds_checkpoints(const fs::path& folder) {
  if (!fs::exists(folder)) return false;
  OMNI_TRY(const auto found, list_checkpoints(folder));
  return !found.empty();
}

// The folder itself, or the one in which it and those above it would be made.
fs::path nearest_folder(fs::path path) {
  std::error_code ignored;
  path = fs::absolute(path);
  while (!fs::exists(path, ignored) && path.has_relative_path()) path = path.parent_path();
  return path;
}

}  // namespace

fs::path RunFolder::place(const std::string& out, const std::string& net) {
  return out.empty() ? fs::path("omni-runs") / net : fs::path(out);
}

Result<RunFolder> RunFolder::prepare(fs::path path, bool wanted, bool continuing, int keep) {
  if (!continuing) {
    OMNI_TRY(bool used, holds_checkpoints(path));
    if (used && wanted)
      return Error{ErrorKind::usage, path.string(), "holds checkpoints of another run",
                   "--resume auto goes on with that one; else name another --out, that of the "
                   "checkpoint for example"};
    // Nobody asked for checkpoints: should an interruption need one, it must not displace others.
    const fs::path wished = path;
    for (int number = 2; used; ++number) {
      path = fmt::format("{}-{}", wished.string(), number);
      OMNI_TRY(used, holds_checkpoints(path));
    }
  }
  RunFolder folder(std::move(path), keep);
  if (wanted) {
    OMNI_CHECK(folder.open());
  } else if (access(nearest_folder(folder.path_).c_str(), W_OK) != 0) {
    log::warn("{} cannot be made: a stop would lose the run (name a writable folder with --out)",
              folder.path_.string());
  }
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
           CheckpointStore::open(path_,
                                 {.keep = keep_, .program = std::string("omnivore ") + kVersion}));
  store_.emplace(std::move(store));
  return {};
}

Result<fs::path> RunFolder::save(ComputeGroups& groups, const TrainingState& state,
                                 const RunIdentity& identity) {
  if (!store_) OMNI_CHECK(open());
  return save_training(*store_, groups, state, identity);
}

std::string RunFolder::resume_command() const {
  std::vector<std::string> words;
  bool value_follows = false;
  for (const std::string& word : own_words()) {
    const bool value = std::exchange(value_follows, word == "--out" || word == "--resume");
    if (value || value_follows || word.starts_with("--out=") || word.starts_with("--resume="))
      continue;
    words.push_back(word);
  }
  words.insert(words.end(), {"--out", path_.string(), "--resume", "auto"});
  return for_shell(words);
}

}  // namespace omni
