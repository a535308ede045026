#include "apps/omni-run/training/run_folder.hpp"

#include <fmt/format.h>
#include <utility>
#include <vector>

#include "apps/command_line.hpp"
#include "runtime/files.hpp"
#include "runtime/own_command.hpp"
#include "runtime/slurm_job.hpp"
#include "scheduling/checkpoint/checkpoint_folder.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

Status require_unused(const fs::path& path) {
  OMNI_TRY(const auto there, list_checkpoints(path));
  if (there.empty()) return {};
  return Error{ErrorKind::usage, path.string(), "holds checkpoints of another run",
               "--resume auto goes on with that one; else name another --out, that of the "
               "checkpoint for example"};
}

}  // namespace

Status RunFolder::check(const fs::path& path, bool continuing, std::uint64_t bytes) {
  OMNI_CHECK(try_folder(path, bytes, "--out"));
  return continuing ? Status() : require_unused(path);
}

fs::path RunFolder::place(const std::string& out, const std::string& net) {
  if (!out.empty()) return out;
  const std::string task = slurm::array_task();
  return fs::path("omni-runs") / (task.empty() ? net : net + "-task" + task);
}

Result<RunFolder> RunFolder::prepare(fs::path path, bool wanted, bool continuing, int keep,
                                     std::uint64_t bytes) {
  RunFolder folder(std::move(path), keep, bytes);
  if (!wanted) {
    OMNI_CHECK(try_folder(folder.path_, bytes, "--out"));
    return folder;
  }
  if (!continuing) OMNI_CHECK(require_unused(folder.path_));
  OMNI_CHECK(folder.open());
  return folder;
}

Status RunFolder::open() {
  std::error_code failure;
  fs::create_directories(path_, failure);
  if (failure)
    return Error{ErrorKind::usage, path_.string(),
                 "cannot make the run folder: " + failure.message(),
                 "name a writable one with --out"};
  OMNI_TRY(
      CheckpointStore store,
      CheckpointStore::open(
          path_, {.keep = keep_, .program = std::string("omnivore ") + kVersion, .bytes = bytes_}));
  store_.emplace(std::move(store));
  return {};
}

Status RunFolder::open_unused() {
  if (store_) return {};
  const std::string wished = path_.string();
  int refused = 0;  // folders that other runs hold, or that the disk refuses
  for (int number = 2;; ++number) {
    Status opened = open();
    OMNI_TRY(const auto there, list_checkpoints(path_));
    if (opened && there.empty()) return {};
    store_.reset();
    if (!opened && ++refused == 10) return opened;
    path_ = fmt::format("{}-{}", wished, number);
  }
}

std::string RunFolder::resume_command() const {
  std::vector<std::string> words = words_without({"--out", "--resume"}, own_words());
  words.insert(words.end(), {"--out", path_.string(), "--resume", "auto"});
  return for_shell(words);
}

}  // namespace omni
