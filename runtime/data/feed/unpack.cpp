#include "runtime/data/feed/unpack.hpp"

#include <algorithm>

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

constexpr auto unpack_on_cpu = []<class T>(T, const UnpackArgs& args, const Buffers& buffers,
                                           DeviceContext&) {
  T* dst = buffers.get<T>(0);
  args.for_each_part([&](std::size_t buffer, std::int64_t first, std::int64_t values) {
    const auto* const src = buffers.get<const std::uint8_t>(buffer) + first;
    for (std::int64_t i = 0; i < values; ++i) dst[i] = static_cast<float>(src[i]) / 255.0f;
    dst += values;
  });
};

constexpr auto gather_on_cpu = []<class T>(T, const UnpackArgs& args, const Buffers& buffers,
                                           DeviceContext&) {
  T* dst = buffers.get<T>(0);
  args.for_each_part([&](std::size_t buffer, std::int64_t first, std::int64_t values) {
    const float* const src = buffers.get<const float>(buffer) + first;
    for (std::int64_t i = 0; i < values; ++i) dst[i] = static_cast<T>(src[i]);
    dst += values;
  });
};

void count_slice(const UnpackArgs& args) { ++*args.counter; }

constexpr std::uint64_t (*unpack_footprint)(const UnpackArgs&) =
    footprint_by<&UnpackArgs::images, &UnpackArgs::images_per_part, &UnpackArgs::image_values>;

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
    .footprint = unpack_footprint,
    .when_done = count_slice,
});

Codelet<UnpackArgs> gather_samples({
    .name = "gather_samples",
    .color = 0xb8b8b8,
    .implementations = {{.name = "cpu", .kernel = by_values<gather_on_cpu>, .in_bf16 = {0}}},
    .cost =
        [](const UnpackArgs& args) {
          return Cost{.bytes = 8.0 * args.images * static_cast<double>(args.image_values)};
        },
    .footprint = unpack_footprint,
    .when_done = count_slice,
});

}  // namespace omni
