// Measures how fast one core turns image files into the net's input. It measures decoding alone and
// a whole task of the data feed, at full and at reduced size.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <vector>

#include "runtime/data/augment.hpp"
#include "runtime/data/images/image.hpp"

namespace {

using namespace omni;

constexpr double kSeconds = 1;  // per measurement

// A median hardly changes when another program uses the core for a moment.
template <class Work>
double median_seconds(Work work) {
  std::vector<double> times;
  for (double total = 0; total < kSeconds || times.size() < 5; total += times.back()) {
    const auto before = std::chrono::steady_clock::now();
    work(times.size());
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - before;
    times.push_back(passed.count());
  }
  std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
  return times[times.size() / 2];
}

struct Way {
  const char* name;
  AugmentOptions options;
  bool prepared;
};

Status measure(const char* path, int side) {
  const Extent net{side, side, 3};
  const AugmentOptions fit{.all_sizes = true};
  const AugmentOptions zoomed{.min_crop = side, .max_crop = 2 * side, .aspect = 1.3f, .flip = true};
  AugmentOptions turned = zoomed, coloured = zoomed;
  turned.angle = 7;
  coloured.hue = 0.1f;
  coloured.saturation = coloured.exposure = 1.3f;
  const double megabytes = static_cast<double>(std::filesystem::file_size(path)) / 1e6;
  OMNI_TRY(const Image whole, read_image(path, {}));
  fmt::print("{}: {}x{}, {:.3f} MB; net {}x{}\n", path, whole.extent.h, whole.extent.w, megabytes,
             side, side);
  for (const Way& way :
       {Way{"decode", {}, false}, Way{"decode, reduced", fit, false}, Way{"decode, fit", fit, true},
        Way{"decode, zoom and flip", zoomed, true}, Way{"the same, rotated", turned, true},
        Way{"the same, other colours", coloured, true}}) {
    std::vector<float> input(net.count());
    Status status;
    const double seconds = median_seconds([&](std::uint64_t sample) {
      const LeastSize least = least_size(way.options, 1, sample, true, net);
      Result<Image> image = read_image(path, least);
      if (!image)
        status = std::move(image.error());
      else if (way.prepared)
        prepare_image(image->pixels, image->extent, way.options, 1, sample, true, net,
                      input.data());
    });
    OMNI_CHECK(std::move(status));
    fmt::print("  {:26} {:8.3f} ms {:8.1f} images/s {:8.1f} MB/s\n", way.name, 1e3 * seconds,
               1 / seconds, megabytes / seconds);
  }
  return {};
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    fmt::print(stderr, "usage: bench_decode IMAGE...\n");
    return 2;
  }
  for (int i = 1; i < count; ++i)
    if (const Status status = measure(arguments[i], 227); !status) {
      fmt::print(stderr, "error: {}\n", status.error().message());
      return 3;
    }
  return 0;
}
