#include "runtime/data/images/image_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "runtime/data/images/jpeg.hpp"
#include "runtime/data/images/netpbm.hpp"
#include "runtime/files.hpp"

namespace omni {
namespace {

constexpr std::uint64_t kMostPixelBytes = 3 * kMaxPixels + 4096, kMostOtherBytes = 64 << 20;

}  // namespace

Result<Image> read_image(const std::filesystem::path& path, LeastSize least) {
  OMNI_TRY(InputFile file, InputFile::open(path));
  std::string bytes(std::min<std::uint64_t>(file.size(), 2), '\0');
  OMNI_CHECK(file.read(std::as_writable_bytes(std::span(bytes))));
  const std::uint64_t most = is_netpbm(bytes) ? kMostPixelBytes : kMostOtherBytes;
  if (file.size() > most)
    return Error{ErrorKind::data, path.string(),
                 fmt::format("{} bytes, at most {} are accepted here", file.size(), most),
                 "is this an image?"};
  const std::size_t begun = bytes.size();
  bytes.resize(file.size());
  OMNI_CHECK(file.read(std::as_writable_bytes(std::span(bytes).subspan(begun))));
  return parse_image(bytes, path.string(), least);
}

Result<Image> parse_image(std::string_view bytes, const std::string& where, LeastSize least) {
  if (is_jpeg(bytes)) return decode_jpeg(bytes, where, least);
  if (is_netpbm(bytes)) return parse_netpbm(bytes, where);
  return Error{ErrorKind::data, where, fmt::format("is no image file: not {}", kImageFiles),
               "convert it, or leave it out"};
}

}  // namespace omni
