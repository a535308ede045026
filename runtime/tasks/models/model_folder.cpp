#include "runtime/tasks/models/model_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "runtime/checksum.hpp"
#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "runtime/tasks/models/sound_files.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostBytes = 64 << 20;  // of a file
constexpr off_t kRoom = 1 << 20;                // for what StarPU writes first
constexpr std::size_t kLongestPath = 100;       // StarPU has 256 bytes for that of a file

std::string text_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr ? text : "";
}

// As StarPU names the files of the bus.
std::string host_name() {
  std::string name = text_of("STARPU_HOSTNAME");
  if (!name.empty()) return name.substr(0, 64);
  std::array<char, 65> host{};
  gethostname(host.data(), host.size() - 1);
  name = host.data();
  return name.substr(0, name.find('.'));
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
  std::error_code none;
  for (const auto& version : fs::directory_iterator(folder / "codelets", none))
    for (const auto& file : fs::directory_iterator(version, none))
      if (file.path().filename().string().starts_with("omni_"))
        names.push_back("codelets" / version.path().filename() / file.path().filename());
  if (fs::exists(folder / "bus" / (host_name() + ".config"), none))
    for (const char* kind :
         {".affinity", ".latency", ".bandwidth", ".platform.xml", ".platform.v4.xml", ".config"})
      if (const fs::path name = "bus" / fs::path(host_name() + kind);
          fs::exists(folder / name, none))
        names.push_back(name);
  return names;
}

bool is_sound(const fs::path& folder, const fs::path& name, const std::string& text) {
  if (*name.begin() == "codelets")
    return is_sound_codelet_model(text, name.parent_path().filename().string());
  const auto config = read_file(folder / "bus" / (host_name() + ".config"), kMostBytes);
  return config &&
         is_sound_bus_file(name.filename().string().substr(host_name().size()), text, *config);
}

// By another program's StarPU, in place.
bool is_being_written(const fs::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct flock lock {};
  lock.l_type = F_RDLCK;
  const bool is = ::fcntl(descriptor, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK;
  ::close(descriptor);
  return is;
}

// The lock on a folder of ours that is there; -1 while its process lives.
int lock_folder(const fs::path& folder, bool wait) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status {};
  if (::fstat(descriptor, &status) == 0 && status.st_uid == ::geteuid() &&
      ::flock(descriptor, LOCK_EX | (wait ? 0 : LOCK_NB)) == 0 && fs::exists(folder))
    return descriptor;
  ::close(descriptor);
  return -1;
}

}  // namespace

Status ModelFolder::make_in(const fs::path& parent) {
  const std::string prefix = fmt::format("omnivore-{}-", ::geteuid());
  std::error_code none;
  for (const auto& each : fs::directory_iterator(parent, none)) {
    if (!each.path().filename().string().starts_with(prefix)) continue;
    const int lock = lock_folder(each, false);
    if (lock < 0) continue;
    fs::remove_all(each, none);  // of a run that was killed
    ::close(lock);
  }
  const auto refuse = [&](std::string what) {
    return Error{ErrorKind::failed, parent.string(), std::move(what),
                 "free some space, or set TMPDIR to a folder with 1 MiB and a short path"};
  };
  if (parent.string().size() > kLongestPath) return refuse("too long a path for StarPU");
  while (lock_ < 0) {
    std::string made = (parent / (prefix + "XXXXXX")).string();
    if (::mkdtemp(made.data()) == nullptr)
      return refuse(fmt::format("no folder can be made: {}", std::strerror(errno)));
    path_ = made;
    lock_ = lock_folder(path_, true);  // unless another run has just tidied it away
  }
  const fs::path room = path_ / "room";
  const int descriptor = ::open(room.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const int code = descriptor < 0 ? errno : ::posix_fallocate(descriptor, 0, kRoom);
  ::close(descriptor);
  fs::remove(room, none);
  if (code != 0)
    return refuse(fmt::format("no room for performance models: {}", std::strerror(code)));
  OMNI_CHECK(copy_from(shared_));
  for (const fs::path& folder : other_folders()) OMNI_CHECK(copy_from(folder));
  return {};
}

Status ModelFolder::copy_from(const fs::path& folder) {
  std::string damaged;
  std::error_code none;
  const bool has_bus = checksums_.contains("bus/" + host_name() + ".config");
  for (const fs::path& name : models_in(folder)) {
    if (checksums_.contains(name) || (has_bus && *name.begin() == "bus")) continue;
    if (is_being_written(folder / name)) continue;
    const Result<std::string> text = read_file(folder / name, kMostBytes);
    if (text && is_sound(folder, name, *text)) {
      fs::create_directories((path_ / name).parent_path(), none);
      if (!(std::ofstream(path_ / name, std::ios::binary) << *text << std::flush))
        return Error{ErrorKind::failed, path_.string(), "performance models cannot be copied there",
                     "free some space"};
      checksums_[name] = checksum_of(*text);
      continue;
    }
    damaged += fmt::format("{}{}", damaged.empty() ? "" : ", ", name.string());
    fs::create_directories(folder / "damaged", none);
    fs::rename(folder / name, folder / "damaged" / name.filename(), none);
  }
  if (!damaged.empty())
    log::warn("{}: damaged performance models ({}) are moved to {}, and measured anew",
              folder.string(), damaged, (folder / "damaged").string());
  return {};
}

Result<std::shared_ptr<ModelFolder>> ModelFolder::open(const fs::path& shared) {
  std::shared_ptr<ModelFolder> folder(new ModelFolder(shared));
  std::error_code none;
  const fs::path usual = fs::temp_directory_path(none);
  if (!usual.empty() && folder->make_in(usual)) return folder;
  folder->remove();
  OMNI_CHECK(folder->make_in(shared));
  return folder;
}

ModelFolder::~ModelFolder() { remove(); }

void ModelFolder::remove() {
  std::error_code none;
  if (lock_ < 0) return;
  fs::remove_all(path_, none);
  ::close(std::exchange(lock_, -1));
  checksums_.clear();
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
    log::warn("{}; what this run measured is not all kept, and the next measures again",
              kept.error().message());
    return;
  }
}

}  // namespace omni
