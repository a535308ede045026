#include "apps/omni-run/ensemble/stream_key.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "runtime/checksum.hpp"
#include "scheduling/training/stopwatch.hpp"

namespace omni {
namespace {

void add_numbers(Checksum& to, const auto&... numbers) {
  (to.update(std::as_bytes(std::span(&numbers, 1))), ...);
}
void add_all(Checksum& to, const auto& numbers) { to.update(std::as_bytes(std::span(numbers))); }

void add_options(Checksum& to, const SampleOptions& all) {
  const AugmentOptions& of = all.augment;
  add_numbers(to, all.training, all.seed, all.net_input, of.min_crop, of.max_crop, of.all_sizes,
              of.own_size, of.center, of.angle, of.aspect, of.saturation, of.exposure, of.hue,
              of.flip, of.flat, of.byte_values.has_value(), static_cast<bool>(of.mean_image));
  if (const auto& bytes = of.byte_values)
    add_numbers(to, bytes->mean, bytes->scale, bytes->blue_first);
  if (of.mean_image) add_all(to, of.mean_image->values);
  for (const auto& [name, extent, augment, labels] : of.parts) {
    add_numbers(to, extent, labels);
    add_options(to, {.augment = augment});
  }
}

void add_stored(Checksum& to, const Dataset& data, std::size_t index, Image& image) {
  constexpr std::size_t kSizedFiles = 1 << 16, kMostValues = 1u << 28;
  const std::string name = data.has_all_sizes() ? data.name_of(index) : "";
  add_numbers(to, data.label(index), name.size());
  add_all(to, name);
  std::error_code missing;  // such a file has the size -1
  if (!name.empty() && index % (data.size() / kSizedFiles + 1) == 0)
    add_numbers(to, std::filesystem::file_size(name, missing));
  const std::size_t most = kMostValues / std::max<std::size_t>(1, data.extent().count());
  if (name.empty() && data.size() <= most && data.read(index, {}, image)) {
    add_all(to, image.pixels);
    add_all(to, image.values);
  }
}

}  // namespace

StreamKey stream_key(const SampleReader& samples, const std::string& source) {
  const std::size_t size = samples.dataset().size(), probed = std::min<std::size_t>(size, 256);
  Checksum checksum;
  add_options(checksum, samples.options());
  Image image;
  for (std::size_t i = 0; i < size; ++i) add_stored(checksum, samples.dataset(), i, image);
  std::vector<float> values(samples.values_per_sample());
  Stopwatch watch;
  for (std::size_t i = 0; i < probed; ++i) {
    samples.fill(i * size / probed, 1, values.data());
    add_all(checksum, values);
  }
  return {fmt::format("{}, {} samples, {}", source, size, checksum_text(checksum.value())),
          watch.seconds() / static_cast<double>(probed)};
}

}  // namespace omni
