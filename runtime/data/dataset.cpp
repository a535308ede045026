#include "runtime/data/dataset.hpp"

#include <span>

#include "runtime/checksum.hpp"

namespace omni {

Result<std::uint64_t> Dataset::content_checksum(std::size_t index) const {
  Image image;
  OMNI_CHECK(read(index, {}, image));
  Checksum checksum;
  checksum.update(std::as_bytes(std::span(image.pixels)));
  checksum.update(std::as_bytes(std::span(image.values)));
  return checksum.value();
}

}  // namespace omni
