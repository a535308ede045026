// This file gives the parameters of a net their initial values.
#include <cmath>
#include <span>

#include "layers/net.hpp"
#include "runtime/rng.hpp"
#include "runtime/tasks/host_access.hpp"

namespace omni {
namespace {

// Each filter has the shape of a pyramid, as Caffe's filler "bilinear" makes it.
void fill_with_pyramids(const Param& param, std::span<float> values) {
  const auto h = static_cast<std::size_t>(param.shape.at(1)),
             w = static_cast<std::size_t>(param.shape.at(2)),
             c = static_cast<std::size_t>(param.shape.at(3));
  const auto share = [](std::size_t at, std::size_t size) {
    const double half = std::ceil(static_cast<double>(size) / 2);
    const double centre = (2 * half - 1 - std::fmod(half, 2)) / (2 * half);
    return 1 - std::abs(static_cast<double>(at) / half - centre);
  };
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(share(i / c % w, w) * share(i / (c * w) % h, h));
}

// Divides the values of each output by their sum.
void divide_by_sums(const Param& param, std::span<float> values) {
  const std::size_t each = values.size() / static_cast<std::size_t>(param.shape[0]);
  for (std::size_t first = 0; first < values.size(); first += each) {
    const std::span<float> row = values.subspan(first, each);
    double sum = 0;
    for (const float value : row) sum += static_cast<double>(value);
    for (float& value : row) value = static_cast<float>(static_cast<double>(value) / sum);
  }
}

}  // namespace

void Net::initialise(std::uint64_t seed) {
  const Philox philox(seed, RandomStream::init);
  std::uint64_t number = 0;
  for (Param& param : parts_.params) {
    Draws draws(philox, number++);
    const HostAccess access(*param.master, HostAccess::Mode::write);
    const Filler& filler = param.filler;
    for (float& value : access.f32()) switch (filler.kind) {
        case Filler::Kind::constant: value = filler.scale; break;
        case Filler::Kind::uniform:
          value = filler.centre + draws.uniform(-filler.scale, filler.scale);
          break;
        case Filler::Kind::normal: value = filler.centre + filler.scale * draws.normal(); break;
        case Filler::Kind::shares: value = draws.uniform(0, 1); break;
        case Filler::Kind::bilinear: break;
      }
    if (filler.kind == Filler::Kind::bilinear) fill_with_pyramids(param, access.f32());
    if (filler.kind == Filler::Kind::shares) divide_by_sums(param, access.f32());
    if (filler.kept > 0) {
      const float share = static_cast<float>(filler.kept) / static_cast<float>(param.shape[0]);
      for (float& value : access.f32())
        if (draws.uniform(0, 1) >= share) value = 0;
    }
  }
}

}  // namespace omni
