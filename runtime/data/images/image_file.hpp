// An image file of any kind that is understood, told by its first bytes.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/data/images/image.hpp"
#include "runtime/result.hpp"

namespace omni {

inline constexpr std::string_view kImageFiles = "JPEG, or binary PPM or PGM";

Result<Image> read_image(const std::filesystem::path& path, LeastSize least);
Result<Image> parse_image(std::string_view bytes, const std::string& where, LeastSize least);

}  // namespace omni
