#include "runtime/locked_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>

#include "runtime/descriptor.hpp"

namespace omni {
namespace fs = std::filesystem;

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code ended;
  for (fs::directory_iterator each(folder, ended); !ended && each != fs::end(each);
       each.increment(ended))
    entries.push_back(each->path());
  return entries;
}

int lock_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status {};
  if (::fstat(descriptor, &status) == 0 && status.st_uid == ::geteuid() &&
      ::flock(descriptor, LOCK_EX | LOCK_NB) == 0)
    return descriptor;
  ::close(descriptor);
  return -1;
}

void delete_unlocked_folders(const fs::path& parent, const std::string& prefix) {
  const auto recent = fs::file_time_type::clock::now() - std::chrono::minutes(1);
  std::error_code none;
  for (const fs::path& folder : entries_of(parent)) {
    if (!folder.filename().string().starts_with(prefix) ||
        fs::last_write_time(folder, none) >= recent)
      continue;
    if (const Descriptor lock(lock_folder(folder)); lock >= 0) fs::remove_all(folder, none);
  }
}

}  // namespace omni
