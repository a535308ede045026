#include "runtime/data/feed/stream_key.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <type_traits>

#include "runtime/checksum.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSizedFiles = 1 << 16;   // files whose sizes are asked for, at most
constexpr std::size_t kMostValues = 1u << 28;  // of a data set that is read as a whole

class Digest {
 public:
  template <class T>
  void add(std::span<const T> numbers) {
    static_assert(std::is_arithmetic_v<T>);
    add_count(numbers.size());
    checksum_.update(std::as_bytes(numbers));
  }
  template <class T>
  void add(const std::vector<T>& numbers) {
    add(std::span<const T>(numbers));
  }
  void add(std::string_view text) { add(std::span<const char>(text)); }
  void add_count(std::uint64_t number) {
    checksum_.update(std::as_bytes(std::span<const std::uint64_t>(&number, 1)));
  }
  std::string text() const { return checksum_text(checksum_.value()); }

 private:
  Checksum checksum_;
};

std::string text_of(const Extent& extent) {
  return fmt::format("{}x{}x{}", extent.h, extent.w, extent.c);
}

// Names every option, as floats that can be told apart.
std::string text_of(const SampleOptions& options) {
  const auto& [training, seed, augment, net_input] = options;
  const auto& [min_crop, max_crop, all_sizes, own_size, center, angle, aspect, saturation, exposure,
               hue, flip, flat, byte_values, mean_image] = augment;
  std::string text = fmt::format(
      "training={} seed={} input={} crop={},{} all_sizes={} own_size={} center={} angle={} "
      "aspect={} saturation={} exposure={} hue={} flip={} flat={}",
      training, seed, text_of(net_input), min_crop, max_crop, all_sizes, own_size, center, angle,
      aspect, saturation, exposure, hue, flip, flat);
  if (byte_values)
    text += fmt::format(" mean={} scale={} blue_first={}", fmt::join(byte_values->mean, ","),
                        byte_values->scale, byte_values->blue_first);
  if (mean_image) {
    Digest digest;
    digest.add(mean_image->values);
    text += fmt::format(" mean_image={}:{}", text_of(mean_image->extent), digest.text());
  }
  return text;
}

void add_samples(const Dataset& data, Digest& digest) {
  const std::size_t size = data.size();
  std::vector<std::int32_t> labels(size);
  for (std::size_t i = 0; i < size; ++i) labels[i] = data.label(i);
  digest.add(labels);
  if (!data.has_all_sizes()) return;
  for (std::size_t i = 0; i < size; ++i) digest.add(data.name_of(i));
  const std::size_t sized = std::min(size, kSizedFiles);
  std::vector<std::uint64_t> sizes(sized);
  for (std::size_t i = 0; i < sized; ++i) {
    std::error_code missing;  // such a file has the size -1
    sizes[i] = fs::file_size(data.name_of(i * size / sized), missing);
  }
  digest.add(sizes);
}

// Data sets of one size lie in memory, or are computed or copied quickly.
void add_stored_values(const Dataset& data, Digest& digest) {
  const std::size_t each = std::max<std::size_t>(1, data.extent().count());
  if (data.has_all_sizes() || data.size() > kMostValues / each) return;
  Image image;
  for (std::size_t i = 0; i < data.size() && data.read(i, {}, image); ++i) {
    digest.add(image.pixels);
    digest.add(image.values);
  }
}

// Returns the seconds for a sample.
template <class T>
double add_probed(const SampleReader& samples, Digest& digest) {
  const std::size_t size = samples.dataset().size();
  const std::size_t probed = std::min(size, StreamKey::kProbed);
  std::vector<T> values(samples.values_per_sample());
  std::chrono::duration<double> spent{0};
  for (std::size_t i = 0; i < probed; ++i) {
    const std::uint64_t sample = i * size / probed;
    const auto begun = std::chrono::steady_clock::now();
    samples.fill(sample, 1, values.data());
    spent += std::chrono::steady_clock::now() - begun;
    digest.add(values);
    std::int32_t label = 0;
    samples.read_labels(sample, 1, &label);
    digest.add_count(static_cast<std::uint64_t>(label));
  }
  return spent.count() / static_cast<double>(probed);
}

}  // namespace

StreamKey stream_key(const SampleReader& samples, std::string_view source) {
  const Dataset& data = samples.dataset();
  Digest digest;
  add_samples(data, digest);
  add_stored_values(data, digest);
  const bool bytes = samples.type_apart() == DataType::u8;
  const double seconds =
      bytes ? add_probed<std::uint8_t>(samples, digest) : add_probed<float>(samples, digest);
  return {fmt::format("{}: {} samples {} of {} classes, stored {}, {}; {}; {}", source, data.size(),
                      bytes ? "in bytes" : "in floats", data.classes(), text_of(data.extent()),
                      data.description(), text_of(samples.options()), digest.text()),
          seconds};
}

std::string resolved_source(const std::string& source) {
  std::string resolved;
  for (std::size_t at = 0; at <= source.size();) {
    const std::size_t comma = std::min(source.find(',', at), source.size());
    const std::string part = source.substr(at, comma - at);
    std::error_code no_file;
    const fs::path whole = fs::canonical(part, no_file);
    resolved += (at == 0 ? "" : ",") + (no_file ? part : whole.string());
    at = comma + 1;
  }
  return resolved;
}

}  // namespace omni
