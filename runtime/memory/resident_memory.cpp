#include "runtime/memory/resident_memory.hpp"

#include <fstream>
#include <string>
#include <string_view>

namespace omni {
namespace {

// "VmHWM:     1234 kB"
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
