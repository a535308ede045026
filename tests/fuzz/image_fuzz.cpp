// libFuzzer reads any bytes as an image file, at full size and reduced. They are refused with a
// reason, or give as many values as the image's extent says. Run image_fuzz -rss_limit_mb=2048
// -timeout=20 CORPUS SOME_JPEGS
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "runtime/data/images/image.hpp"
#include "tests/fuzz/fuzz_target.hpp"

OMNI_FUZZ_TARGET(image) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const omni::LeastSize least : {omni::LeastSize{}, {30, 30}, {1, 1}}) {
    const auto image = omni::parse_image(bytes, "input", least);
    if (image ? image->pixels.size() != image->extent.count()
              : image.error().kind != omni::ErrorKind::data || image.error().what.empty())
      std::abort();
  }
  return 0;
}
