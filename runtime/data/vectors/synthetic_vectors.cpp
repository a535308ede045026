#include "runtime/data/vectors/synthetic_vectors.hpp"

#include <fmt/format.h>

#include <cmath>

namespace omni {
namespace {

// Lengths in standard deviations of the noise: of a class's centre, and from there to its clouds.
constexpr float kCentre = 1.5f, kCloud = 3.5f;

}  // namespace

Status SyntheticVectors::read(std::size_t index, LeastSize, Image& vector) const {
  OMNI_CHECK(check_index(*this, index));
  vector.extent = extent();
  vector.pixels.clear();
  vector.values.resize(extent().count());
  Draws directions(Philox(0, RandomStream::synthetic), static_cast<std::uint64_t>(label(index)));
  Draws own(philox_, number(index));
  const float root = std::sqrt(static_cast<float>(options_.extent.c));
  const float centre = kCentre / root, cloud = (own.bits() & 1 ? kCloud : -kCloud) / root;
  for (float& value : vector.values) {
    const std::uint32_t bits = directions.bits();
    value = own.normal() + (bits & 1 ? centre : -centre) + (bits & 2 ? cloud : -cloud);
  }
  return {};
}

std::string SyntheticVectors::description() const {
  return fmt::format("synthetic, {} computed vectors of {} features, {} classes", options_.size,
                     options_.extent.c, options_.classes);
}

}  // namespace omni
