#include "apps/omni-run/open_net.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "layers/formats/darknet_cfg.hpp"
#include "layers/options.hpp"
#include "runtime/nearest.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

// Beside the program, installed or in the build tree; $OMNIVORE_NETS comes first.
std::vector<fs::path> net_folders() {
  std::vector<fs::path> folders;
  if (const char* folder = std::getenv("OMNIVORE_NETS")) folders.emplace_back(folder);
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  folders.push_back(program.parent_path().parent_path() / "share/omnivore/nets");
  return folders;
}

std::set<std::string> shipped_nets() {
  std::set<std::string> names;
  std::error_code ignored;
  for (const fs::path& folder : net_folders())
    for (const auto& entry : fs::directory_iterator(folder, ignored))
      if (entry.path().extension() == ".cfg") names.insert(entry.path().stem());
  return names;
}

// What to do about a net that is not there.
std::string net_hint(const std::string& name) {
  constexpr std::string_view kEnding = ".cfg";
  const std::set<std::string> shipped = shipped_nets();
  const std::vector<std::string_view> names(shipped.begin(), shipped.end());
  std::string_view stem = name;
  if (stem.ends_with(kEnding)) stem.remove_suffix(kEnding.size());
  const std::string_view near = nearest(stem, names);
  if (near.empty()) return fmt::format("a .cfg file, or one of: {}", fmt::join(names, " "));
  return fmt::format("did you mean {}{}?", near, kEnding);
}

// Where a net has subdivisions, they say how many images fit in memory at once. A command line that
// changes the batch alone keeps that as the most, with as few subdivisions as it can. If that
// computed less than half as many at once, as for a prime number of images, nothing is changed.
void keep_images_at_once(const Section& file, Section& net) {
  const auto integer = [](const Section& section, const char* key) {
    return OptionReader(section, net_keys()).integer(key, 1, 1, kMostImages);
  };
  const int before = integer(file, "subdivisions");
  if (before == 1) return;
  const int batch = integer(net, "batch"), most = integer(file, "batch") / before;
  int at_once = std::min(batch, most);
  while (at_once > 1 && batch % at_once != 0) --at_once;
  if (at_once < batch && at_once < most / 2) return;
  net.options.push_back({"subdivisions", std::to_string(batch / at_once), kCommandLine});
}

}  // namespace

Result<fs::path> find_net(const std::string& name) {
  std::error_code ignored;
  if (fs::is_regular_file(name, ignored)) return fs::path(name);
  if (name.find('/') == std::string::npos)
    for (const fs::path& folder : net_folders())
      for (const std::string& file : {name, name + ".cfg"})
        if (fs::is_regular_file(folder / file, ignored)) return folder / file;
  return Error{ErrorKind::usage, name.empty() ? "--net" : "--net " + name,
               name.empty() ? "no net given" : "no such net", net_hint(name)};
}

Result<NetSpec> read_net(const NetArguments& arguments) {
  OMNI_TRY(const fs::path path, find_net(arguments.net));
  OMNI_TRY(NetSpec spec, read_darknet_cfg(path));
  const Section file = spec.net;
  for (const std::string& setting : arguments.settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0)
      return Error{ErrorKind::usage, "--set " + setting, "expected KEY=VALUE",
                   "--set momentum=0.8"};
    const std::string key = setting.substr(0, equals);
    const auto keys = net_keys();
    if (std::none_of(keys.begin(), keys.end(), [&](const Key& each) { return each.name == key; }))
      return Error{ErrorKind::usage, "--set " + setting, "unknown key of [net]",
                   "omni-run layers lists them"};
    spec.net.options.push_back({key, setting.substr(equals + 1), kCommandLine});
  }
  if (arguments.overrides("batch") && !arguments.overrides("subdivisions"))
    keep_images_at_once(file, spec.net);
  return spec;
}

Result<std::unique_ptr<Net>> build_net(const NetSpec& spec, const NetArguments& arguments,
                                       bool training) {
  return Net::build(spec, {.training = training,
                           .strict = arguments.strict,
                           .slice = arguments.slice,
                           .gpus = arguments.gpus,
                           .cores = arguments.cores,
                           .values = arguments.values,
                           .update_in_backward = training});
}

Result<std::unique_ptr<Net>> open_net(const NetArguments& arguments, bool training) {
  OMNI_TRY(const NetSpec spec, read_net(arguments));
  return build_net(spec, arguments, training);
}

}  // namespace omni
