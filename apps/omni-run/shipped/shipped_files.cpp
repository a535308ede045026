#include "apps/omni-run/setup.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <set>
#include <string_view>
#include <vector>

#include "runtime/nearest.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> folders_of(const ShippedKind& kind) {
  std::vector<fs::path> folders;
  if (const char* folder = std::getenv(kind.variable)) folders.emplace_back(folder);
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  folders.push_back(program.parent_path().parent_path() / "share/omnivore" / kind.folder);
  return folders;
}

// What to do about a file that is not there.
std::string hint(const ShippedKind& kind, const std::string& name) {
  const std::string_view ending = kind.ending;
  std::set<std::string> shipped;
  std::error_code ignored;
  for (const fs::path& folder : folders_of(kind))
    for (const auto& entry : fs::directory_iterator(folder, ignored))
      if (entry.path().extension() == ending) shipped.insert(entry.path().stem());
  const std::vector<std::string_view> names(shipped.begin(), shipped.end());
  if (names.empty()) return fmt::format("a {} file: none lies beside this program", ending);
  std::string_view stem = name;
  if (stem.ends_with(ending)) stem.remove_suffix(ending.size());
  const std::string_view near = nearest(stem, names);
  if (near.empty()) return fmt::format("a {} file, or one of: {}", ending, fmt::join(names, " "));
  return fmt::format("did you mean {}{}?", near, ending);
}

}  // namespace

Result<fs::path> find_shipped(const ShippedKind& kind, const std::string& name) {
  std::error_code ignored;
  if (fs::is_regular_file(name, ignored)) return fs::path(name);
  if (name.find('/') == std::string::npos)
    for (const fs::path& folder : folders_of(kind))
      for (const std::string& file : {name, name + kind.ending})
        if (fs::is_regular_file(folder / file, ignored)) return folder / file;
  const std::string option = kind.option;
  return Error{
      ErrorKind::usage, name.empty() ? option : option + " " + name,
      name.empty() ? fmt::format("no {} given", kind.noun) : fmt::format("no such {}", kind.noun),
      hint(kind, name)};
}

Result<Machine> read_machine(const std::string& file_or_name) {
  OMNI_TRY(const fs::path path, find_shipped(kShippedMachines, file_or_name));
  return read_machine_file(path);
}

}  // namespace omni
