// These tests read image files of every supported kind with known pixels, and damaged files.
#include "runtime/data/images/image.hpp"

#include <gtest/gtest.h>

#include "tests/support/images/jpeg_writer.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni {
namespace {

using test::make_jpeg;
using Bytes = std::vector<std::uint8_t>;

// Returns an image whose red channel is a ramp down and whose green channel is a ramp across. JPEG
// changes ramps little.
Bytes ramp(int height, int width) {
  Bytes pixels;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (const int value : {255 * y / height, 255 * x / width, 90})
        pixels.push_back(static_cast<std::uint8_t>(value));
  return pixels;
}

class ImageFile : public testing::Test {
 protected:
  Result<Image> read(const std::string& contents, LeastSize least = {}) const {
    test::put(folder_ / "image", contents);
    return read_image(folder_ / "image", least);
  }
  void expect_pixels(const std::string& contents, Extent extent, const Bytes& expected,
                     int tolerance) const {
    const auto image = read(contents);
    ASSERT_TRUE(image) << image.error().message();
    EXPECT_EQ(image->extent, extent);
    ASSERT_EQ(image->pixels.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(image->pixels[i], expected[i], tolerance) << i;
  }
  void expect_refused(const std::string& contents, const std::string& text) const {
    const auto image = read(contents);
    ASSERT_FALSE(image);
    EXPECT_EQ(image.error().kind, ErrorKind::data);
    EXPECT_EQ(image.error().where, (folder_ / "image").string());
    EXPECT_NE(image.error().message().find(text), std::string::npos) << image.error().message();
  }

  test::TemporaryDirectory folder_;
};

TEST_F(ImageFile, JpegKnownPixels) {
  const Bytes pixels = ramp(37, 50);
  for (const bool progressive : {false, true}) {
    expect_pixels(make_jpeg(37, 50, pixels, {.progressive = progressive}), {37, 50, 3}, pixels, 3);
    expect_pixels(make_jpeg(37, 50, pixels, {.progressive = progressive, .subsampled = true}),
                  {37, 50, 3}, pixels, 12);
  }
  expect_pixels(make_jpeg(37, 50, pixels, {.colours = JCS_RGB}), {37, 50, 3}, pixels, 3);
  expect_pixels(make_jpeg(1, 1, {200, 10, 60}), {1, 1, 3}, {200, 10, 60}, 3);
}

TEST_F(ImageFile, GreyStaysGrey) {
  const Bytes pixels{0, 50, 100, 150, 200, 250};
  expect_pixels(make_jpeg(2, 3, pixels, {.colours = JCS_GRAYSCALE}), {2, 3, 1}, pixels, 3);
}

TEST_F(ImageFile, InkBecomesLight) {
  // Adobe's programs store CMYK inverted, with a marker that libjpeg writes, too: 255 stands for no
  // ink.
  const Bytes inks{255, 255, 255, 255, 0, 255, 255, 255, 100, 200, 50, 128, 9, 9, 9, 0};
  const Bytes light{255, 255, 255, 0, 255, 255, 50, 100, 25, 0, 0, 0};
  // YCCK halves the resolution of colours, so a block of 8 x 8 equal pixels is used for each
  // colour.
  for (const J_COLOR_SPACE colours : {JCS_CMYK, JCS_YCCK}) {
    for (std::size_t i = 0; i < 4; ++i) {
      Bytes block, expected;
      for (int pixel = 0; pixel < 64; ++pixel) {
        block.insert(block.end(), inks.begin() + 4 * static_cast<std::ptrdiff_t>(i),
                     inks.begin() + 4 * static_cast<std::ptrdiff_t>(i) + 4);
        expected.insert(expected.end(), light.begin() + 3 * static_cast<std::ptrdiff_t>(i),
                        light.begin() + 3 * static_cast<std::ptrdiff_t>(i) + 3);
      }
      expect_pixels(make_jpeg(8, 8, block, {.colours = colours}), {8, 8, 3}, expected, 3);
    }
  }
  // Without Adobe's marker 255 stands for all ink.
  std::string plain = make_jpeg(1, 1, {255, 0, 0, 0}, {.colours = JCS_CMYK});
  const std::size_t marker = plain.find("\xFF\xEE");
  ASSERT_NE(marker, std::string::npos);
  plain.erase(marker, 16);
  expect_pixels(plain, {1, 1, 3}, {0, 255, 255}, 2);
}

TEST_F(ImageFile, IsReducedAsFarAsAllowed) {
  const std::string jpeg = make_jpeg(100, 161, ramp(100, 161));
  const auto extent = [&](LeastSize least) { return read(jpeg, least)->extent; };
  EXPECT_EQ(extent({}), (Extent{100, 161, 3}));
  EXPECT_EQ(extent({51, 10}), (Extent{100, 161, 3}));
  EXPECT_EQ(extent({50, 81}), (Extent{50, 81, 3}));
  EXPECT_EQ(extent({50, 82}), (Extent{100, 161, 3}));
  EXPECT_EQ(extent({25, 40}), (Extent{25, 41, 3}));
  EXPECT_EQ(extent({1, 1}), (Extent{13, 21, 3}));
  // Each pixel of the reduced image is the mean of the pixels that it replaces.
  const auto half = read(jpeg, {50, 81});
  const Bytes pixels = ramp(100, 161);
  for (std::size_t y = 0; y < 50; ++y)
    for (std::size_t x = 0; x < 80; ++x)
      for (std::size_t c = 0; c < 2; ++c)
        ASSERT_NEAR(half->pixels[3 * (81 * y + x) + c], pixels[3 * (161 * 2 * y + 2 * x) + c], 5);
}

TEST_F(ImageFile, Netpbm) {
  expect_pixels("P5 # grey\n2 1\n255\n\x01\xFE", {1, 2, 1}, {1, 254}, 0);
  expect_pixels("P6\n1 2 255\nabcdef", {2, 1, 3}, {'a', 'b', 'c', 'd', 'e', 'f'}, 0);
  expect_refused("P6\n1 2 255\nabcde", "ends before its last pixel (it is truncated)");
  expect_refused("P5\n0 2 255\n", "has no valid width and height");
  expect_refused("P5\n1 1 65535\nab", "has not 8 bits per value (maxval must be 255)");
  expect_refused("P5\n99999 99999 255\n", "has more than 2^26 pixels (make it smaller)");
}

TEST_F(ImageFile, OtherFilesAreRefused) {
  expect_refused("MZ\x90",
                 "is no image file: not JPEG, PNG, or binary PPM or PGM (convert it, or leave it "
                 "out)");
  expect_refused("", "is no image file: it is empty (fetch it again, or leave it out)");
  const std::string size(4, '\x18');
  for (const auto& [start, kind] : std::vector<std::pair<std::string, std::string>>{
           {"GIF89a", "a GIF image"},
           {"RIFF" + size + "WEBPVP8 ", "a WebP image"},
           {"BM" + size, "a BMP image"},
           {std::string("II*\0", 4), "a TIFF image"},
           {std::string("MM\0*", 4), "a TIFF image"},
           {size + "ftypheic", "a HEIC image"},
           {size + "ftypmif1", "a HEIC image"},
           {size + "ftypavif", "an AVIF image"},
           {"P3 1 1 255 1 2 3", "a PPM image in text form"},
           {"\n <!DOCTYPE HTML><title>404", "a web page"}})
    expect_refused(start, "is " + kind +
                              ", not JPEG, PNG, or binary PPM or PGM (convert it to JPEG or PNG, "
                              "or leave it out)");
  const auto missing = read_image(folder_ / "nowhere", {});
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message().find("nowhere: cannot open: No such file"),
            std::string::npos);
}

TEST_F(ImageFile, EveryTruncationIsTold) {
  for (const bool progressive : {false, true}) {
    const std::string whole = make_jpeg(20, 24, ramp(20, 24), {.progressive = progressive});
    ASSERT_TRUE(read(whole));
    EXPECT_TRUE(read(whole + "and more")) << "what follows the end is no part of the image";
    for (std::size_t length = 2; length < whole.size(); ++length)
      expect_refused(whole.substr(0, length), "is a damaged JPEG: ");
    expect_refused(whole.substr(0, whole.size() / 2),
                   "Premature end of JPEG file (fetch it again, or leave it out)");
  }
}

TEST_F(ImageFile, DamageNeverEndsTheProgram) {
  for (const bool progressive : {false, true}) {
    const std::string whole =
        make_jpeg(20, 24, ramp(20, 24), {.progressive = progressive, .subsampled = true});
    for (std::size_t at = 0; at < whole.size(); ++at)
      for (const char pattern : {'\xFF', '\x01', '\x80'}) {
        std::string damaged = whole;
        damaged[at] = static_cast<char>(damaged[at] ^ pattern);
        const auto image = read(damaged);
        EXPECT_TRUE(!image || image->pixels.size() == image->extent.count());
      }
  }
}

TEST_F(ImageFile, HostileHeaders) {
  std::string huge = make_jpeg(8, 8, ramp(8, 8));
  const std::size_t frame = huge.find("\xFF\xC0");
  ASSERT_NE(frame, std::string::npos);
  huge.replace(frame + 5, 4, "\xFF\xDC\xFF\xDC");  // height and width
  expect_refused(huge, "has more than 2^26 pixels (make it smaller)");

  // A file of many scans is small, but each scan is a pass over all pixels.
  expect_refused(make_jpeg(8, 8, ramp(8, 8), {.scan_per_coefficient = true}),
                 "has more than 100 scans (fetch it again, or leave it out)");
}

}  // namespace
}  // namespace omni
