// Binary PGM and PPM files: the images that need no codec.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/extent.hpp"
#include "runtime/result.hpp"

namespace omni {

struct Image {
  Extent extent;
  std::vector<std::uint8_t> pixels;  // channels last
};

Result<Image> read_netpbm(const std::filesystem::path& path);
Result<Image> parse_netpbm(std::string_view bytes, const std::string& where);

}  // namespace omni
