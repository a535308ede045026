#include "runtime/data/images/image_file.hpp"

#include <fmt/format.h>

#include "runtime/data/images/jpeg.hpp"
#include "runtime/data/images/netpbm.hpp"
#include "runtime/files.hpp"

namespace omni {
namespace {

constexpr std::uint64_t kMaxBytes = 3 * kMaxPixels + 4096;

}  // namespace

Result<Image> read_image(const std::filesystem::path& path, LeastSize least) {
  OMNI_TRY(const std::string bytes, read_file(path, kMaxBytes));
  return parse_image(bytes, path.string(), least);
}

Result<Image> parse_image(std::string_view bytes, const std::string& where, LeastSize least) {
  if (is_jpeg(bytes)) return decode_jpeg(bytes, where, least);
  if (is_netpbm(bytes)) return parse_netpbm(bytes, where);
  return Error{ErrorKind::data, where, fmt::format("is no image file: not {}", kImageFiles),
               "convert it, or leave it out"};
}

}  // namespace omni
