// A folder of small JPEG files of three classes that a small net learns at once.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/rng.hpp"
#include "tests/support/images/jpeg_writer.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni::test {

// Noise with a tint of the class, of another size each time.
inline std::string make_tinted_jpeg(int label, std::uint64_t number) {
  Draws draws(Philox(5, RandomStream::synthetic), number * 3 + static_cast<std::uint64_t>(label));
  const int height = 18 + static_cast<int>(draws.below(30));
  const int width = 18 + static_cast<int>(draws.below(30));
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < 3 * height * width; ++i)
    pixels.push_back(static_cast<std::uint8_t>(draws.below(160) + (i % 3 == label ? 90 : 0)));
  return make_jpeg(height, width, pixels, {.quality = 90, .subsampled = number % 2 == 0});
}

// train/{blue,green,red}/N.jpg and val/...
inline void make_image_folder(const std::filesystem::path& root, int train = 30, int test = 10) {
  const char* const classes[] = {"blue", "green", "red"};
  for (int label = 0; label < 3; ++label)
    for (int i = 0; i < train + test; ++i) {
      const auto folder = root / (i < train ? "train" : "val") / classes[label];
      std::filesystem::create_directories(folder);
      put(folder / (std::to_string(i) + ".jpg"),
          make_tinted_jpeg(2 - label, static_cast<std::uint64_t>(i)));
    }
}

// Three outputs, every augmentation.
inline constexpr const char* kImageNet = R"([net]
batch=12
height=16
width=16
channels=3
learning_rate=0.02
momentum=0.9
min_crop=16
max_crop=24
flip=1
angle=7
aspect=1.2
saturation=1.1
exposure=1.1
[convolutional]
filters=8
size=3
pad=1
activation=leaky
[maxpool]
size=2
stride=2
[avgpool]
[connected]
output=3
activation=linear
[softmax]
)";

}  // namespace omni::test
