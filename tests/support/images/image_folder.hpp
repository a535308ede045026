// make_image_folder() writes small JPEG files of three classes, which a small net learns quickly.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/rng.hpp"
#include "tests/support/images/jpeg_writer.hpp"
#include "tests/support/net_text.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni::test {

// Returns an image of noise with the class's tint, of a random size.
inline std::string make_tinted_jpeg(int label, std::uint64_t number) {
  Draws draws(Philox(5, RandomStream::synthetic), number * 3 + static_cast<std::uint64_t>(label));
  const int height = 18 + static_cast<int>(draws.below(30));
  const int width = 18 + static_cast<int>(draws.below(30));
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < 3 * height * width; ++i)
    pixels.push_back(static_cast<std::uint8_t>(draws.below(160) + (i % 3 == label ? 90 : 0)));
  return make_jpeg(height, width, pixels, {.quality = 90, .subsampled = number % 2 == 0});
}

// Writes train/{blue,green,red}/N.jpg and the same in val/.
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

// This net has three outputs and all augmentations but hue.
inline const std::string kImageNet =
    net(12, {16, 16, 3},
        "learning_rate=0.02\nmomentum=0.9\nmin_crop=16\nmax_crop=24\nflip=1\nangle=7\naspect=1."
        "2\nsaturation=1.1\nexposure=1.1\n") +
    convolutional(8, "leaky") + layer("maxpool", "size=2\nstride=2\n") + layer("avgpool") +
    connected(3) + layer("softmax");

}  // namespace omni::test
