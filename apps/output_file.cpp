#include "apps/output_file.hpp"

#include <fmt/format.h>

#include <system_error>

#include "runtime/files.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

// Returns whether both paths name the same place, also if nothing is there yet.
bool same_place(const fs::path& a, const fs::path& b) {
  std::error_code none;
  const auto whole = [&](const fs::path& path) {
    return fs::weakly_canonical(fs::absolute(path, none), none);
  };
  return !a.empty() && whole(a) == whole(b);
}

}  // namespace

Status check_output(const OutputFile& file, std::uint64_t bytes) {
  const auto refused = [&](std::string_view what, const std::string& hint) {
    return Error{ErrorKind::usage, file.option, fmt::format("{} {}", file.path.string(), what),
                 hint};
  };
  std::error_code none;
  for (const fs::path& each : file.read)
    if (fs::equivalent(file.path, each, none))
      return refused("is read, and would be lost", "choose a new name");
  for (const fs::path& each : file.written)
    if (same_place(each, file.path))
      return refused("is where something else is written, too", "choose a new name");
  if (fs::is_regular_file(file.path, none) && fs::file_size(file.path, none) > 0 &&
      !file.replaceable(file.path))
    return refused("exists, and " + file.foreign, file.hint);
  return try_writing(file.path, bytes);
}

}  // namespace omni
