// This file reads image files of any kind, and decodes the formats that need no codec.
#include "runtime/data/images/image.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <span>
#include <utility>

#include "runtime/data/images/orientation.hpp"
#include "runtime/files.hpp"
#include "runtime/lower_case.hpp"

namespace omni {
namespace {

// The following functions read binary PGM and PPM files, which need no codec.

// Returns the next number of the header, after white space and # comments; -1: there is none.
int next_number(std::string_view bytes, std::size_t& at) {
  while (at < bytes.size())
    if (bytes[at] == '#')
      at = std::min(bytes.find('\n', at), bytes.size());
    else if (std::isspace(static_cast<unsigned char>(bytes[at])) != 0)
      ++at;
    else
      break;
  int value = -1;
  const auto [end, code] = std::from_chars(bytes.data() + at, bytes.data() + bytes.size(), value);
  if (code != std::errc() || value < 0) return -1;
  at = static_cast<std::size_t>(end - bytes.data());
  return value;
}

bool is_netpbm(std::string_view bytes) {
  return bytes.starts_with("P5") || bytes.starts_with("P6");
}

// Parses a file for which is_netpbm(bytes) is true. Errors name `where`.
Result<Image> parse_netpbm(std::string_view bytes, const std::string& where) {
  const auto refuse = [&](std::string what, std::string hint = "") {
    return Error{ErrorKind::data, where, std::move(what), std::move(hint)};
  };
  const int channels = bytes[1] == '5' ? 1 : 3;
  std::size_t at = 2;
  const int width = next_number(bytes, at);
  const int height = next_number(bytes, at);
  const int maximum = next_number(bytes, at);
  if (width < 1 || height < 1) return refuse("has no valid width and height");
  if (maximum != 255) return refuse("has not 8 bits per value", "maxval must be 255");
  if (static_cast<std::uint64_t>(width) * height > kMaxPixels)
    return refuse("has more than 2^26 pixels", "make it smaller");
  ++at;  // one white space ends the header
  Image image{.extent = {height, width, channels}, .pixels = {}};
  if (at > bytes.size() || bytes.size() - at < image.extent.count())
    return refuse("ends before its last pixel", "it is truncated");
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data()) + at;
  image.pixels.assign(first, first + image.extent.count());
  return image;
}

// The following functions read files of any kind.

constexpr std::uint64_t kMostPixelBytes = 3 * kMaxPixels + 4096;

// Files of a kind that cannot be read have these bytes at offset `at`. Of several kinds that match,
// the first in the list counts.
struct OtherKind {
  std::size_t at;
  std::string_view bytes, name;
};
constexpr std::array<OtherKind, 18> kOtherKinds{{
    {0, "GIF8", "a GIF image"},
    {8, "WEBP", "a WebP image"},
    {4, "ftypavif", "an AVIF image"},
    {4, "ftypavis", "an AVIF image"},
    {4, "ftyphe", "a HEIC image"},
    {4, "ftypmif1", "a HEIC image"},
    {4, "ftypmsf1", "a HEIC image"},
    {4, "ftyp", "a film"},
    {0, {"II*\0", 4}, "a TIFF image"},
    {0, {"MM\0*", 4}, "a TIFF image"},
    {4, "jP  ", "a JPEG 2000 image"},
    {4, "JXL ", "a JPEG XL image"},
    {0, "\xFF\x0A", "a JPEG XL image"},
    {0, "8BPS", "a Photoshop image"},
    {0, "%PDF", "a PDF document"},
    {0, "BM", "a BMP image"},
    {0, "P2", "a PGM image in text form"},
    {0, "P3", "a PPM image in text form"},
}};
constexpr std::size_t kLongestStart = 256;  // bytes that suffice to tell the kind

bool is_web_page(std::string_view bytes) {
  const std::string start = lower_case(bytes.substr(0, kLongestStart));
  return start.find("<html") != start.npos || start.find("<!doctype html") != start.npos;
}

Error refuse_kind(std::string_view bytes, std::string where) {
  std::string_view name;
  for (const OtherKind& kind : kOtherKinds)
    if (bytes.substr(std::min(kind.at, bytes.size())).starts_with(kind.bytes)) {
      name = kind.name;
      break;
    }
  if (name.empty() && is_web_page(bytes)) name = "a web page";
  if (!name.empty())
    return {ErrorKind::data, std::move(where), fmt::format("is {}, not {}", name, kImageFiles),
            "convert it to JPEG or PNG, or leave it out"};
  return {ErrorKind::data, std::move(where),
          bytes.empty() ? "is no image file: it is empty"
                        : fmt::format("is no image file: not {}", kImageFiles),
          bytes.empty() ? "fetch it again, or leave it out" : "convert it, or leave it out"};
}

Result<std::string> read_start(InputFile& file) {
  std::string bytes(std::min<std::uint64_t>(file.size(), kLongestStart), '\0');
  OMNI_CHECK(file.read(std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

// Returns the upright image, without a check against least.needed_h and least.needed_w.
Result<Image> parse_upright(std::string_view bytes, const std::string& where, LeastSize least) {
  if (is_netpbm(bytes)) return parse_netpbm(bytes, where);
  const bool jpeg = is_jpeg(bytes);
  if (!jpeg && !is_png(bytes)) return refuse_kind(bytes, where);
  const int orientation = orientation_of(jpeg ? exif_of_jpeg(bytes) : exif_of_png(bytes));
  if (swaps_sides(orientation)) std::swap(least.h, least.w);
  OMNI_TRY(Image image, (jpeg ? decode_jpeg : decode_png)(bytes, where, least));
  return upright(std::move(image), orientation);
}

}  // namespace

int choose_reduction(std::uint64_t height, std::uint64_t width, LeastSize least) {
  for (const unsigned reduction : {8u, 4u, 2u})
    if ((height + reduction - 1) / reduction >= static_cast<unsigned>(least.h) &&
        (width + reduction - 1) / reduction >= static_cast<unsigned>(least.w))
      return static_cast<int>(reduction);
  return 1;
}

Result<Image> read_image(const std::filesystem::path& path, LeastSize least) {
  OMNI_TRY(InputFile file, InputFile::open(path));
  OMNI_TRY(std::string bytes, read_start(file));
  const std::uint64_t most = is_netpbm(bytes) ? kMostPixelBytes : kMostFileBytes;
  if (file.size() > most)
    return Error{ErrorKind::data, path.string(),
                 fmt::format("{} bytes, at most {} are accepted here", file.size(), most),
                 "is this an image?"};
  const std::size_t begun = bytes.size();
  bytes.resize(file.size());
  OMNI_CHECK(file.read(std::as_writable_bytes(std::span(bytes).subspan(begun))));
  return parse_image(bytes, path.string(), least);
}

Status check_kind(const std::filesystem::path& path) {
  OMNI_TRY(InputFile file, InputFile::open(path));
  OMNI_TRY(const std::string bytes, read_start(file));
  if (is_jpeg(bytes) || is_png(bytes) || is_netpbm(bytes)) return {};
  return refuse_kind(bytes, path.string());
}

Result<Image> parse_image(std::string_view bytes, const std::string& where, LeastSize least) {
  OMNI_TRY(Image image, parse_upright(bytes, where, least));
  const Extent& is = image.extent;
  if (is.h < least.needed_h || is.w < least.needed_w)
    return Error{ErrorKind::data, where,
                 fmt::format("has {}x{} pixels, but {}x{} are cut out", is.w, is.h, least.needed_w,
                             least.needed_h),
                 "resize it, or cut out less"};
  return image;
}

}  // namespace omni
