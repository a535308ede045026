#include "runtime/tasks/models/model_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "runtime/checksum.hpp"
#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "runtime/own_command.hpp"
#include "runtime/tasks/models/sound_files.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostBytes = 64 << 20;  // of a file
constexpr off_t kRoom = 1 << 20;                // for what StarPU writes first, and again last
constexpr const char* kVersionOfModels = "45";  // StarPU 1.4 keeps them in a folder of that name
constexpr std::size_t kLongestPath = 100;       // StarPU has 256 bytes for that of a file

std::string text_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr ? text : "";
}

// As StarPU names the files of the bus.
std::string host_name() {
  const std::string name = text_of("STARPU_HOSTNAME"), machine = own_host();
  return name.empty() ? machine.substr(0, machine.find('.')) : name.substr(0, 64);
}

// Where StarPU looks for what is not in the first folder.
std::vector<fs::path> other_folders() {
  std::string home;
  for (const char* variable : {"HOME", "STARPU_HOME", "XDG_CACHE_HOME"})
    if (const std::string text = text_of(variable); !text.empty()) home = text;
  std::vector<fs::path> folders{fs::path(home) / ".starpu/sampling"};
  std::istringstream path(text_of("STARPU_PERF_MODEL_PATH"));
  for (std::string folder; std::getline(path, folder, ':');) folders.emplace_back(folder);
  return folders;
}

// What a process like this one may read, by name in the folder. The models of other programs are
// nothing to it.
std::vector<fs::path> models_in(const fs::path& folder) {
  std::vector<fs::path> names;
  for (const fs::path& version : entries_of(folder / "codelets"))
    for (const fs::path& file : entries_of(version))
      if (file.filename().string().starts_with("omni_")) names.push_back(file);
  const std::string host = folder / "bus" / host_name();
  std::error_code none;
  for (const char* kind :
       {".config", ".affinity", ".latency", ".bandwidth", ".platform.xml", ".platform.v4.xml"})
    if (fs::exists(host + kind, none)) names.emplace_back(host + kind);
  for (fs::path& name : names) name = name.lexically_relative(folder);
  return names;
}

// `copy` has the config of the bus, unless this is it.
bool is_sound(const fs::path& copy, const fs::path& name, const std::string& text) {
  if (*name.begin() == "codelets")
    return is_sound_codelet_model(text, name.parent_path().filename().string());
  const std::string kind = name.filename().string().substr(host_name().size());
  const auto config = kind == ".config"
                          ? Result(text)
                          : read_file(copy / "bus" / (host_name() + ".config"), kMostBytes);
  return config && is_sound_bus_file(kind, text, *config);
}

// Keeps half of it. 0, or why there is none.
int take_room(const fs::path& folder) {
  const fs::path file = folder / "room";
  const Descriptor descriptor(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  int code = descriptor < 0 ? errno : ::posix_fallocate(descriptor, 0, 2 * kRoom);
  if (code == 0 && ::ftruncate(descriptor, kRoom) != 0) code = errno;
  return code;
}

}  // namespace

Result<std::shared_ptr<ModelFolder>> ModelFolder::open(const fs::path& shared) {
  // The machine as a checksum: StarPU's paths must be short.
  const std::string prefix =
      fmt::format("omnivore-{}-{:.8}-", ::geteuid(), checksum_of(own_host()));
  std::error_code none;
  int code = ENAMETOOLONG;
  for (const fs::path& parent : {fs::temp_directory_path(none), shared}) {
    delete_unlocked_folders(parent, prefix);
    std::string made = (parent / (prefix + "XXXXXX")).string();
    if (parent.empty() || made.size() > kLongestPath) continue;
    code = ::mkdtemp(made.data()) == nullptr ? errno : 0;
    if (code != 0) continue;
    std::shared_ptr<ModelFolder> folder(new ModelFolder(shared, made, lock_folder(made)));
    code = take_room(made);
    bool copied = code == 0 && folder->copy_from(shared);
    for (const fs::path& other : other_folders()) copied = copied && folder->copy_from(other);
    if (copied) return folder;
    if (code == 0) code = ENOSPC;
  }
  return Error{ErrorKind::failed, shared.string(),
               fmt::format("no room for a copy of the performance models, there or where temporary "
                           "files go: {}",
                           std::strerror(code)),
               "free 2 MiB, or set TMPDIR"};
}

ModelFolder::~ModelFolder() {
  std::error_code none;
  fs::remove_all(path_, none);
}

void ModelFolder::prepare_last_write() const {
  std::error_code none;
  fs::remove(path_ / "room", none);
  fs::create_directories(path_ / "codelets" / kVersionOfModels, none);
}

bool ModelFolder::copy_from(const fs::path& folder) {
  std::string damaged;
  std::error_code none, failure;
  bool full = false, moved = folder == shared_;  // others' files stay
  const fs::path config = "bus/" + host_name() + ".config";
  const bool has_bus = checksums_.contains(config);
  for (const fs::path& name : models_in(folder)) {
    const bool needs_config = *name.begin() == "bus" && name != config;
    if (checksums_.contains(name) || (needs_config && checksums_.contains(config) == has_bus))
      continue;
    const Result<std::string> text = read_file(folder / name, kMostBytes);
    if (!text) continue;  // of the permissions or the disk: no word about what is in it
    if (is_sound(path_, name, *text)) {
      fs::create_directories((path_ / name).parent_path(), none);
      full = !(std::ofstream(path_ / name, std::ios::binary) << *text << std::flush);
      if (full) break;
      checksums_[name] = checksum_of(*text);
      continue;
    }
    damaged += fmt::format("{}{}", damaged.empty() ? "" : ", ", name.string());
    if (!moved) continue;
    fs::create_directories(folder / "damaged", none);
    fs::rename(folder / name, folder / "damaged" / name.filename(), failure);
    moved = !failure;
  }
  if (!damaged.empty())
    log::warn("{}: damaged performance models ({}) are {}, and measured anew", folder.string(),
              damaged, moved ? "moved to " + (folder / "damaged").string() : "passed over");
  return !full;
}

void ModelFolder::publish() const {
  std::error_code none;
  for (const fs::path& name : models_in(path_)) {
    const Result<std::string> text = read_file(path_ / name, kMostBytes);
    const auto given = checksums_.find(name);
    if (text && given != checksums_.end() && given->second == checksum_of(*text)) continue;
    Status kept = text && is_sound(path_, name, *text) ? Status()
                                                       : Error{ErrorKind::failed, path_.string(),
                                                               "StarPU could not write there", ""};
    fs::create_directories((shared_ / name).parent_path(), none);
    if (kept) kept = write_file_atomically(shared_ / name, *text);
    if (kept) continue;
    log::warn("{}; not all measurements of this run are kept, and the next run measures again",
              kept.error().message());
    return;
  }
}

}  // namespace omni
