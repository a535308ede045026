#include "apps/omni-run/load_parameters.hpp"

#include <filesystem>

#include "layers/formats/darknet_weights.hpp"
#include "runtime/files.hpp"
#include "scheduling/training_checkpoint.hpp"

namespace omni {

Status load_parameters(Net& net, const std::string& path) {
  const std::filesystem::path file(path);
  OMNI_CHECK(require_there(file));
  std::error_code ignored;
  if (!std::filesystem::is_directory(file, ignored) && file.extension() != ".safetensors" &&
      file.extension() != ".json")
    return load_darknet_weights(net, file);
  OMNI_TRY(const Checkpoint checkpoint, load_checkpoint(file));
  return restore_parameters(net, checkpoint);
}

}  // namespace omni
