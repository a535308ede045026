// These tests check that two streams have equal keys if their samples are equal, and different keys
// if samples may differ.
#include "apps/omni-run/ensemble/stream_key.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "runtime/data/memory_dataset.hpp"
#include "runtime/data/open.hpp"
#include "tests/support/images/image_folder.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni {
namespace {

constexpr std::size_t kKeyedImages = 1000;

ImageSet images() {
  ImageSet set{.extent = {2, 2, 1}, .classes = 3};
  for (std::size_t i = 0; i < kKeyedImages; ++i) {
    set.labels.push_back(static_cast<std::uint8_t>(i % 3));
    set.pixels.insert(set.pixels.end(), 4, static_cast<std::uint8_t>(i % 251));
  }
  return set;
}

std::string key(ImageSet set, const SampleOptions& options = {.seed = 3, .net_input = {2, 2, 1}},
                const char* source = "data") {
  const MemoryDataset data(std::move(set));
  return stream_key(SampleReader(data, options), source).text;
}

TEST(StreamKeys, DifferWhereverSamplesMay) {
  const std::string all = key(images());
  EXPECT_EQ(key(images()), all);
  // A change of any single pixel or label changes the key.
  for (const std::size_t image : {std::size_t{0}, std::size_t{517}, kKeyedImages - 1}) {
    ImageSet changed = images();
    changed.pixels[4 * image + 3] ^= 1;
    EXPECT_NE(key(changed), all) << image;
    changed = images();
    changed.labels[image] = static_cast<std::uint8_t>((changed.labels[image] + 1) % 3);
    EXPECT_NE(key(changed), all) << image;
  }
  EXPECT_NE(key(images(), {.seed = 3, .net_input = {2, 2, 1}}, "other"), all);
  const std::function<void(SampleOptions&)> kChanges[] = {
      [](auto& o) { o.training = false; },
      [](auto& o) { o.seed = 4; },
      [](auto& o) {
        o.net_input = {1, 2, 1};
      },
      [](auto& o) { o.augment.min_crop = 2; },
      [](auto& o) { o.augment.max_crop = 3; },
      [](auto& o) { o.augment.all_sizes = true; },
      [](auto& o) { o.augment.own_size = true; },
      [](auto& o) { o.augment.center = true; },
      [](auto& o) { o.augment.angle = 1; },
      [](auto& o) { o.augment.aspect = 1.01f; },
      [](auto& o) { o.augment.saturation = 1.01f; },
      [](auto& o) { o.augment.exposure = 1.01f; },
      [](auto& o) { o.augment.hue = 0.01f; },
      [](auto& o) { o.augment.flip = true; },
      [](auto& o) { o.augment.byte_values = ByteValues{}; },
      [](auto& o) {
        o.augment.byte_values = ByteValues{.mean = {1, 2, 3}};
      },
      [](auto& o) { o.augment.byte_values = ByteValues{.scale = 0.5f}; },
      [](auto& o) { o.augment.byte_values = ByteValues{.blue_first = true}; },
  };
  std::vector<std::string> keys{all};
  for (const auto& change : kChanges) {
    SampleOptions options{.seed = 3, .net_input = {2, 2, 1}};
    change(options);
    keys.push_back(key(images(), options));
  }
  for (std::size_t i = 0; i < keys.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(keys[i], keys[j]) << i << " and " << j;
}

// Only sizes and names of the files change here; the pixels stay the same.
TEST(StreamKeys, TakeFilesBySizeAndName) {
  const test::TemporaryDirectory folder;
  test::make_image_folder(folder.path(), 10, 1);
  const auto now = [&] {
    const auto data = open_dataset(
        {.source = folder.path(), .net_input = {9, 11, 3}, .flat = false, .classes = 3, .seed = 1});
    EXPECT_TRUE(data) << data.error().message();
    return stream_key(SampleReader(*data->train, {.net_input = {9, 11, 3}}), "data").text;
  };
  const std::string all = now();
  EXPECT_EQ(now(), all);
  const std::filesystem::path file = folder / "train/green/7.jpg",
                              other = folder / "train/green/7a.jpg";
  const std::string before = test::get(file);
  test::put(file, before + "\n");
  EXPECT_NE(now(), all);
  test::put(file, before);
  EXPECT_EQ(now(), all);
  std::filesystem::rename(file, other);
  EXPECT_NE(now(), all);
}

}  // namespace
}  // namespace omni
