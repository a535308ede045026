#include "runtime/memory/memory_limits.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

namespace omni {

std::size_t physical_memory() {
  const std::size_t machine = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  return std::min(machine, control_group_memory("/"));
}

// /proc/self/cgroup has lines "number:controllers:path". A container may see its own group as the
// root, whatever the path says, so groups that do not exist are skipped.
std::size_t control_group_memory(const std::filesystem::path& root) {
  std::size_t least = std::numeric_limits<std::size_t>::max();
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const bool v1 = line.find(":memory:") != line.npos;
    const std::size_t path = line.find(":/");
    if (path == line.npos || (!v1 && !line.starts_with("0::"))) continue;
    const std::filesystem::path mount = root / (v1 ? "sys/fs/cgroup/memory" : "sys/fs/cgroup");
    for (std::filesystem::path group = line.substr(path + 2);; group = group.parent_path()) {
      std::size_t limit = 0;  // "max": no limit, and no number
      std::ifstream(mount / group / (v1 ? "memory.limit_in_bytes" : "memory.max")) >> limit;
      if (limit != 0) least = std::min(least, limit);
      if (group.empty()) break;
    }
  }
  return least;
}

bool can_map(std::size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory != MAP_FAILED && munmap(memory, bytes) == 0;
}

std::size_t mappable_memory() {
  std::size_t most = 0;
  for (std::size_t more = std::size_t{1} << 46; more >= 1 << 20; more /= 2)
    if (can_map(most + more)) most += more;
  return most;
}

namespace {

// Returns the bytes in a line such as "VmHWM:     1234 kB".
std::size_t bytes_in_status(std::string_view key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key)) return std::strtoull(line.c_str() + key.size(), nullptr, 10) * 1024;
  return 0;
}

}  // namespace

std::size_t resident_memory() { return bytes_in_status("VmRSS:"); }
std::size_t resident_data() { return bytes_in_status("RssAnon:"); }
std::size_t peak_resident_memory() { return bytes_in_status("VmHWM:"); }

}  // namespace omni
