// Parameters to and from Darknet's .weights: the order of its layers, and its channels-first
// matrices.
#pragma once

#include <cstdint>
#include <filesystem>

#include "layers/net.hpp"

namespace omni {

Status load_darknet_weights(Net& net, const std::filesystem::path& path);
Status save_darknet_weights(Net& net, const std::filesystem::path& path, std::uint64_t images_seen);

}  // namespace omni
