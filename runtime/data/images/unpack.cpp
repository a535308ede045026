#include "runtime/data/images/unpack.hpp"

#include <algorithm>

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

constexpr auto unpack_on_cpu = []<class T>(T, const UnpackArgs& args, const Buffers& buffers,
                                           DeviceContext&) {
  T* dst = buffers.get<T>(0);
  std::size_t part = 1;
  for (int first = 0; first < args.images; first += args.images_per_part, ++part) {
    const auto* const src = buffers.get<const std::uint8_t>(part);
    const std::int64_t values =
        std::min(args.images_per_part, args.images - first) * args.image_values;
    for (std::int64_t i = 0; i < values; ++i) dst[i] = static_cast<float>(src[i]) / 255.0f;
    dst += values;
  }
};

}  // namespace

Codelet<UnpackArgs> unpack_batch({
    .name = "unpack_batch",
    .color = 0xb0b0b0,
    .implementations = {{.name = "cpu", .kernel = by_values<unpack_on_cpu>, .in_bf16 = {0}},
                        OMNI_GPU_IMPLEMENTATION(gpu::unpack_batch, 0)},
    .cost =
        [](const UnpackArgs& args) {
          return Cost{.bytes = 5.0 * args.images * static_cast<double>(args.image_values)};
        },
    .footprint =
        footprint_by<&UnpackArgs::images, &UnpackArgs::images_per_part, &UnpackArgs::image_values>,
    .when_done = [](const UnpackArgs& args) { ++*args.counter; },
});

}  // namespace omni
