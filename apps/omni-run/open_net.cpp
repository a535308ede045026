#include "apps/omni-run/open_net.hpp"

#include <algorithm>

#include "apps/omni-run/shipped/shipped_files.hpp"
#include "layers/formats/darknet_cfg.hpp"
#include "layers/options.hpp"

namespace omni {
namespace {

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

Result<NetSpec> read_net(const NetArguments& arguments) {
  OMNI_TRY(const std::filesystem::path path, find_shipped(kShippedNets, arguments.net));
  OMNI_TRY(NetSpec spec, read_darknet_cfg(path));
  const Section file = spec.net;
  for (const std::string& setting : arguments.settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0)
      return Error{ErrorKind::usage, "--set " + setting, "expected KEY=VALUE",
                   "--set momentum=0.8"};
    const std::string key = setting.substr(0, equals);
    const auto keys = net_keys();
    if (std::ranges::none_of(keys, [&](const Key& each) { return each.name == key; }))
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
