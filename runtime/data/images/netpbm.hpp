// Binary PGM and PPM files: the images that need no codec.
#pragma once

#include <string>
#include <string_view>

#include "runtime/data/images/image.hpp"
#include "runtime/result.hpp"

namespace omni {

bool is_netpbm(std::string_view bytes);  // by how they begin

// Requires is_netpbm(bytes); `where` is named in errors.
Result<Image> parse_netpbm(std::string_view bytes, const std::string& where);

}  // namespace omni
