#include "runtime/data/synthetic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <span>

#include "runtime/data/formats.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

constexpr float kTwoPi = 2 * std::numbers::pi_v<float>;
constexpr float kNoise = 28;  // noise is uniform in +-kNoise of 255
// Noise is drawn from the same stream as the parameters of an image, from this counter on.
constexpr std::uint64_t kNoiseCounter = std::uint64_t{1} << 32;

// Returns term `k` of a low-discrepancy sequence in [0, 1): however many terms there are, each is
// far from all others.
float spread(int k, double step) {
  return static_cast<float>(std::fmod(0.5 + step * static_cast<double>(k), 1.0));
}

struct Pattern {
  float orientation;  // share of 180 degrees
  float frequency;    // share of the range from the lowest to the highest
  float hue;          // share of the colour circle
  float spot_y, spot_x;
};

Pattern pattern_of(int label) {
  return {.orientation = spread(label, 0.7548776662),
          .frequency = spread(label, 0.5698402910),
          .hue = spread(label, 0.6180339887),
          .spot_y = 0.2f + 0.6f * spread(label, 0.8191725134),
          .spot_x = 0.2f + 0.6f * spread(label, 0.6710436067)};
}

// Paints an image. Grating and spot are sums of products of a function of y and a function of x, so
// the inner loop needs no transcendental function.
class Painter {
 public:
  Painter(Extent extent, int label, Draws draws) : extent_(extent) {
    const Pattern pattern = pattern_of(label);
    const auto side = static_cast<float>(std::min(extent.h, extent.w));
    const float shortest = std::clamp(side / 7, 4.0f, 8.0f);
    const float period =
        shortest * std::exp2(1.2f * pattern.frequency) * draws.uniform(0.94f, 1.06f);
    const float angle = kTwoPi / 2 * pattern.orientation + draws.uniform(-0.06f, 0.06f);
    const float phase = draws.uniform(0, kTwoPi);
    const float contrast = 255 * draws.uniform(0.14f, 0.3f);
    base_ = 255 * draws.uniform(0.35f, 0.5f);
    spot_ = 255 * draws.uniform(0.15f, 0.3f);
    const float centre_y = pattern.spot_y + draws.uniform(-0.1f, 0.1f);
    const float centre_x = pattern.spot_x + draws.uniform(-0.1f, 0.1f);

    for (int c = 0; c < extent.c; ++c)
      gains_.push_back(
          extent.c == 1
              ? contrast
              : contrast * (0.55f + 0.45f * std::cos(kTwoPi * (pattern.hue -
                                                               static_cast<float>(c) /
                                                                   static_cast<float>(extent.c)))));
    fill_axis(rows_, extent.h, kTwoPi * std::sin(angle) / period, phase, centre_y);
    fill_axis(columns_, extent.w, kTwoPi * std::cos(angle) / period, 0, centre_x);
  }

  void paint(std::uint8_t* dst, const Philox& philox, std::uint64_t image) const {
    const std::size_t channels = extent_.c;
    std::vector<float> line(columns_.size() * channels);
    std::uint64_t counter = kNoiseCounter;
    for (const Axis& row : rows_) {
      float* value = line.data();
      for (const Axis& column : columns_) {
        const float grating = row.cosine * column.cosine - row.sine * column.sine;
        const float ground = base_ + spot_ * row.bump * column.bump;
        for (std::size_t c = 0; c < channels; ++c) *value++ = ground + gains_[c] * grating;
      }
      counter = add_noise(line, dst, philox, image, counter);
      dst += line.size();
    }
  }

 private:
  struct Axis {
    float cosine, sine;  // of the grating's phase along this axis
    float bump;          // the spot's profile
  };

  static void fill_axis(std::vector<Axis>& axis, int length, float step, float phase,
                        float centre) {
    constexpr float kSpotRadius = 0.16f;
    for (int i = 0; i < length; ++i) {
      const float at = phase + step * static_cast<float>(i);
      const float away =
          ((static_cast<float>(i) + 0.5f) / static_cast<float>(length) - centre) / kSpotRadius;
      axis.push_back({std::cos(at), std::sin(at), std::exp(-0.5f * away * away)});
    }
  }

  // Adds noise to the values: a Philox block has 16 bytes, one for each value. Returns the next
  // counter.
  static std::uint64_t add_noise(const std::vector<float>& line, std::uint8_t* dst,
                                 const Philox& philox, std::uint64_t image, std::uint64_t counter) {
    for (std::size_t first = 0; first < line.size(); first += 16) {
      const Philox::Block block = philox(image, counter++);
      const std::size_t last = std::min(line.size(), first + 16);
      for (std::size_t i = first; i < last; ++i) {
        const std::uint32_t byte = block[(i - first) / 4] >> (8 * ((i - first) % 4)) & 0xFF;
        const float noise = kNoise * (static_cast<float>(byte) / 127.5f - 1);
        dst[i] = static_cast<std::uint8_t>(std::clamp(line[i] + noise + 0.5f, 0.0f, 255.0f));
      }
    }
    return counter;
  }

  Extent extent_;
  float base_ = 0, spot_ = 0;
  std::vector<float> gains_;  // amplitude of the grating, by channel
  std::vector<Axis> rows_, columns_;
};

// kCentre is the distance of a class's centre from 0, kCloud that of each of its two clusters from
// the centre. Both are in standard deviations of the noise.
constexpr float kCentre = 1.5f, kCloud = 3.5f;

// This many classes are learned quickly. More classes would take many epochs.
constexpr std::uint64_t kDefaultSyntheticClasses = 10;
constexpr std::string_view kImages = "synthetic[:IMAGES[:CLASSES]]",
                           kVectors = "synthetic-vectors[:VECTORS[:FEATURES[:CLASSES]]]";

// Reads the numbers of NAME[:NUMBER]...; `form` says how many there may be, `numbers` holds the
// defaults.
Status read_numbers(const std::string& source, std::string_view form,
                    std::span<std::uint64_t> numbers) {
  std::string_view rest =
      std::string_view(source).substr(std::min(source.find(':'), source.size()));
  for (std::uint64_t& number : numbers) {
    if (rest.empty()) break;
    const char* first = rest.data() + 1;
    const char* last = rest.data() + rest.size();
    const auto [end, code] = std::from_chars(first, last, number);
    if (rest.front() != ':' || code != std::errc{} || number == 0 || number > 1'000'000'000) break;
    rest.remove_prefix(end - rest.data());
  }
  if (rest.empty()) return {};
  return Error{ErrorKind::usage, source, fmt::format("not understood from {} on", shown_name(rest)),
               fmt::format("{}, each from 1 to 1000000000", form)};
}

std::uint64_t default_classes(const DatasetRequest& request) {
  return request.classes == 0 ? kDefaultSyntheticClasses
                              : std::min<std::uint64_t>(kDefaultSyntheticClasses, request.classes);
}

// Makes both sets. The size of the test set is that of the training set divided by `share`, and at
// least 1.
template <class Made>
DatasetPair make_synthetic(SyntheticOptions options, std::size_t share, bool test) {
  DatasetPair pair;
  pair.train = std::make_unique<Made>(options);
  options.size = std::max<std::size_t>(1, options.size / share);
  options.training = false;
  if (test) pair.test = std::make_unique<Made>(options);
  return pair;
}

Result<DatasetPair> open_synthetic(const DatasetRequest& request) {
  std::uint64_t numbers[] = {50'000, default_classes(request)};
  OMNI_CHECK(read_numbers(request.source, kImages, numbers));
  if (request.net_input.count() == 0)
    return Error{ErrorKind::usage, request.source, "the size of the images is unknown",
                 "give a net"};
  return make_synthetic<SyntheticDataset>({.size = numbers[0],
                                           .extent = request.net_input,
                                           .classes = static_cast<int>(numbers[1]),
                                           .seed = request.seed},
                                          5, request.test);
}

Result<DatasetPair> open_synthetic_vectors(const DatasetRequest& request) {
  std::uint64_t numbers[] = {50'000, std::max<std::uint64_t>(1, request.net_input.count()),
                             default_classes(request)};
  OMNI_CHECK(read_numbers(request.source, kVectors, numbers));
  return make_synthetic<SyntheticVectors>({.size = numbers[0],
                                           .extent = {1, 1, static_cast<int>(numbers[1])},
                                           .classes = static_cast<int>(numbers[2]),
                                           .seed = request.seed},
                                          10, request.test);
}

const DataFormatRegistration synthetic_images(
    {.order = 12, .name = "synthetic", .form = kImages, .open = open_synthetic});

const DataFormatRegistration synthetic_vectors(
    {.order = 13, .name = "synthetic-vectors", .form = kVectors, .open = open_synthetic_vectors});

}  // namespace

Status SyntheticDataset::read(std::size_t index, LeastSize, Image& result) const {
  OMNI_CHECK(check_index(*this, index));
  result.extent = options_.extent;
  result.pixels.resize(options_.extent.count());
  const Painter painter(options_.extent, label(index), Draws(philox_, number(index)));
  painter.paint(result.pixels.data(), philox_, number(index));
  return {};
}

std::string SyntheticDataset::description() const {
  return fmt::format("synthetic, {} computed patterns {}x{}x{} (no photographs), {} classes",
                     options_.size, options_.extent.h, options_.extent.w, options_.extent.c,
                     options_.classes);
}

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
