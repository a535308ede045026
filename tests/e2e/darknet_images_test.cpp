// These tests compare the pixels that the net gets from a photograph with those of Darknet's
// `classifier valid`. Both resize the shorter side to the net's size and cut out the centre.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "runtime/data/augment.hpp"
#include "runtime/data/images/image.hpp"
#include "tests/support/darknet_library.hpp"

namespace omni::test {
namespace {

constexpr int kSide = 224;
constexpr const char* kPhotograph = "/usr/share/darknet/data/dog.jpg";

std::vector<float> seen_by_darknet(int left_of_centre) {
  const DarknetLibrary& darknet = DarknetLibrary::instance();
  std::string path = kPhotograph;
  const auto whole = darknet.call(darknet.load_image_color, path.data(), 0, 0);
  const auto resized = darknet.resize_min(whole, kSide);
  const auto cut = darknet.crop_image(resized, (resized.w - kSide) / 2 - left_of_centre,
                                      (resized.h - kSide) / 2, kSide, kSide);
  std::vector<float> pixels;  // channels last
  for (int i = 0; i < kSide * kSide; ++i)
    for (int c = 0; c < 3; ++c) pixels.push_back(cut.data[c * kSide * kSide + i]);
  for (const auto& picture : {whole, resized, cut}) darknet.free_image(picture);
  return pixels;
}

double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::fabs(a[i] - b[i]);
  return sum / static_cast<double>(a.size());
}

TEST(DarknetImages, TheNetSeesTheSame) {
  if (!std::filesystem::exists(DarknetLibrary::kPath) || !std::filesystem::exists(kPhotograph))
    GTEST_SKIP() << "darknet is not installed";
  const AugmentOptions options{.all_sizes = true};
  const Extent net{kSide, kSide, 3};
  const auto image = read_image(kPhotograph, least_size(options, 0, 0, false, net));
  ASSERT_TRUE(image) << image.error().message();
  EXPECT_EQ(image->extent, (Extent{288, 384, 3})) << "decoded at half the size";
  std::vector<float> ours(net.count());
  prepare_image(image->pixels, image->extent, options, 0, 0, false, net, ours.data());
  // Darknet takes one pixel where Omnivore takes the mean of four.
  const double same = difference(ours, seen_by_darknet(0));
  EXPECT_LT(same, 0.03);
  for (const int shift : {-3, 3}) EXPECT_GT(difference(ours, seen_by_darknet(shift)), 1.5 * same);
}

}  // namespace
}  // namespace omni::test
