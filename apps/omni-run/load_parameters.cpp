#include "apps/omni-run/load_parameters.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "layers/formats/darknet_weights.hpp"
#include "runtime/files.hpp"
#include "scheduling/training_checkpoint.hpp"

namespace omni {
namespace {

Status load(Net& net, const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(file, ignored) && file.extension() != ".safetensors" &&
      file.extension() != ".json")
    return load_darknet_weights(net, file);
  OMNI_TRY(const Checkpoint checkpoint, load_checkpoint(file));
  return restore_parameters(net, checkpoint);
}

}  // namespace

Status load_parameters(Net& net, const std::string& path) {
  OMNI_CHECK(require_there(path));
  OMNI_CHECK(load(net, path));
  for (const Param* param : net.params()) {
    const HostAccess values(*param->master, HostAccess::Mode::read);
    if (!std::ranges::all_of(values.f32(), [](float value) { return std::isfinite(value); }))
      return Error{ErrorKind::data, path, param->name + " holds values that are not finite",
                   "it is damaged, or of a training that diverged"};
  }
  return {};
}

}  // namespace omni
