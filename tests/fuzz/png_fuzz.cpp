// libFuzzer reads any bytes as a PNG file, at full size and reduced. A mutation rarely has right
// checksums, so the file is also read with corrected ones. It is refused with a reason, or gives as
// many values as the image's extent says.
#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "runtime/data/images/image.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace {

std::string with_right_checksums(std::string png) {
  constexpr std::size_t kSignature = 8, kAroundData = 12;
  if (png.size() < kSignature) return png;
  png.replace(0, kSignature, "\x89PNG\r\n\x1a\n");
  for (std::size_t at = kSignature; at + kAroundData <= png.size();) {
    auto* const chunk = reinterpret_cast<Bytef*>(png.data()) + at;
    std::size_t length = 0;
    for (int i = 0; i < 4; ++i) length = length << 8 | chunk[i];
    if (length > png.size() - at - kAroundData) break;
    const uLong sum = crc32(0, chunk + 4, static_cast<uInt>(length + 4));
    for (unsigned i = 0; i < 4; ++i)
      chunk[8 + length + i] = static_cast<Bytef>(sum >> (24 - 8 * i));
    at += kAroundData + length;
  }
  return png;
}

void check(const std::string& bytes) {
  for (const omni::LeastSize least : {omni::LeastSize{}, {5, 30}, {1, 1}}) {
    const auto image = omni::parse_image(bytes, "input", least);
    if (image ? image->pixels.size() != image->extent.count()
              : image.error().kind != omni::ErrorKind::data || image.error().what.empty())
      std::abort();
  }
}

}  // namespace

OMNI_FUZZ_TARGET(png) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  check(bytes);
  check(with_right_checksums(bytes));
  return 0;
}
