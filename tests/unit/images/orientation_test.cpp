// These tests turn images as their EXIF data say, and ignore invalid EXIF data.
#include "runtime/data/images/orientation.hpp"

#include <gtest/gtest.h>

#include "tests/support/images/jpeg_writer.hpp"
#include "tests/support/images/png_writer.hpp"

namespace omni {
namespace {

using test::make_exif;
using Bytes = std::vector<std::uint8_t>;

// A picture of 2 rows of 3 is stored in these ways, so that orientation 1 to 8 shows it upright:
//   1 2 3
//   4 5 6
struct Stored {
  int height, width;
  Bytes pixels;
};
const Stored kStored[] = {{2, 3, {1, 2, 3, 4, 5, 6}}, {2, 3, {3, 2, 1, 6, 5, 4}},
                          {2, 3, {6, 5, 4, 3, 2, 1}}, {2, 3, {4, 5, 6, 1, 2, 3}},
                          {3, 2, {1, 4, 2, 5, 3, 6}}, {3, 2, {3, 6, 2, 5, 1, 4}},
                          {3, 2, {6, 3, 5, 2, 4, 1}}, {3, 2, {4, 1, 5, 2, 6, 3}}};
const Stored& stored(int orientation) { return kStored[orientation - 1]; }

// Returns the pixels of an image in which each pixel of `of` is a square of this side.
Bytes in_squares(const Stored& of, int side) {
  Bytes pixels;
  for (int y = 0; y < of.height * side; ++y)
    for (int x = 0; x < of.width * side; ++x)
      pixels.push_back(static_cast<std::uint8_t>(
          40 * of.pixels[static_cast<std::size_t>(y / side * of.width + x / side)]));
  return pixels;
}

void expect_upright(const std::string& file, Extent extent, int side, LeastSize least) {
  const auto image = parse_image(file, "x", least);
  ASSERT_TRUE(image) << image.error().message();
  ASSERT_EQ(image->extent, extent);
  const Bytes expected = in_squares(stored(1), side);
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(image->pixels[i], expected[i], 4);
}

TEST(Orientation, IsAppliedToPng) {
  for (int orientation = 1; orientation <= 8; ++orientation)
    for (const bool is_big_endian : {false, true}) {
      const Stored& small = stored(orientation);
      const std::string exif = make_exif(orientation, is_big_endian);
      const auto png = [&](int side) {
        return test::make_png(small.height * side, small.width * side, in_squares(small, side),
                              {.colours = PNG_COLOR_TYPE_GRAY});
      };
      expect_upright(test::with_chunk(png(1), "eXIf", exif), {2, 3, 1}, 1, {});
      // Some programs write JPEG's prefix "Exif\0\0" in PNG files, too.
      expect_upright(test::with_chunk(png(1), "eXIf", std::string("Exif\0\0", 6) + exif), {2, 3, 1},
                     1, {});
      // The PNG standard allows the eXIf chunk after the pixels.
      std::string behind = png(1);
      behind.insert(behind.find("IEND") - 4, test::png_chunk("eXIf", exif));
      expect_upright(behind, {2, 3, 1}, 1, {});
      // The least size is that of the upright image.
      const std::string large = test::with_chunk(png(16), "eXIf", exif);
      expect_upright(large, {16, 24, 1}, 8, {9, 24});
      expect_upright(large, {32, 48, 1}, 16, {9, 25});
      expect_upright(large, {32, 48, 1}, 16, {17, 9});
    }
}

TEST(Orientation, IsAppliedToJpeg) {
  for (int orientation = 1; orientation <= 8; ++orientation)
    for (const bool is_big_endian : {false, true})
      for (const bool progressive : {false, true}) {
        const Stored& small = stored(orientation);
        const std::string file = test::with_exif(
            test::make_jpeg(small.height * 16, small.width * 16, in_squares(small, 16),
                            {.progressive = progressive, .colours = JCS_GRAYSCALE}),
            make_exif(orientation, is_big_endian));
        expect_upright(file, {32, 48, 1}, 16, {});
        expect_upright(file, {16, 24, 1}, 8, {9, 24});
        expect_upright(file, {32, 48, 1}, 16, {9, 25});
        expect_upright(file, {4, 6, 1}, 2, {1, 1});
      }
}

TEST(Orientation, MovesWholePixels) {
  const Image shown = upright({.extent = {1, 2, 3}, .pixels = {1, 2, 3, 4, 5, 6}}, 6);
  EXPECT_EQ(shown.extent, (Extent{2, 1, 3}));
  EXPECT_EQ(shown.pixels, (Bytes{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(upright({.extent = {1, 2, 3}, .pixels = {1, 2, 3, 4, 5, 6}}, 2).pixels,
            (Bytes{4, 5, 6, 1, 2, 3}));
}

TEST(Orientation, IsFoundBehindOtherSegments) {
  const std::string jpeg = test::make_jpeg(8, 8, Bytes(192, 9));
  const std::string exif = make_exif(8);
  EXPECT_EQ(orientation_of(exif_of_jpeg(jpeg)), 1);
  const std::string noted = test::with_exif(jpeg, exif);
  EXPECT_EQ(orientation_of(exif_of_jpeg(noted)), 8);
  // Adobe's XMP data have the same segment number, and bytes between segments are skipped.
  std::string more = noted;
  more.insert(2, std::string("\xFF\xE1\0\7http:\xFF\xFF\xFE\0\3x??\xFF\1", 18));
  EXPECT_EQ(orientation_of(exif_of_jpeg(more)), 8);
  EXPECT_TRUE(parse_image(more, "x", {}));
}

TEST(Orientation, OfDamagedExifIsIgnored) {
  for (const bool is_big_endian : {false, true}) {
    const std::string exif = make_exif(6, is_big_endian);
    EXPECT_EQ(orientation_of(exif), 6);
    const std::size_t entry = 8 + 2 + 12, end = entry + 12;
    for (std::size_t length = 0; length < end; ++length)
      EXPECT_EQ(orientation_of(exif.substr(0, length)), 1) << length;
    const auto with = [&](std::size_t at, int byte) {
      std::string changed = exif;
      changed[at + (is_big_endian ? 1 : 0)] = static_cast<char>(byte);
      return orientation_of(changed);
    };
    EXPECT_EQ(with(entry + 2, 4), 1) << "no short number";
    EXPECT_EQ(with(entry + 8, 0), 1);
    EXPECT_EQ(with(entry + 8, 9), 1);
    EXPECT_EQ(with(entry + 8, 255), 1);
    // For any bytes the result is from 1 to 8, and no byte beyond the end is read.
    for (std::size_t at = 0; at < exif.size(); ++at)
      for (int byte = 0; byte < 256; ++byte) {
        std::string changed = exif;
        changed[at] = static_cast<char>(byte);
        const std::vector<char> exact(changed.begin(), changed.end());
        const int orientation = orientation_of({exact.data(), exact.size()});
        EXPECT_TRUE(orientation >= 1 && orientation <= 8);
      }
  }
  EXPECT_EQ(orientation_of(""), 1);
  EXPECT_EQ(orientation_of("XX"), 1);
  // Invalid EXIF data are ignored, and the image is read.
  const std::string exif = make_exif(6);
  for (const std::string& bad : {exif.substr(0, 20), std::string("II*\0\xFF\xFF\xFF\xFF", 8)}) {
    const auto jpeg =
        parse_image(test::with_exif(test::make_jpeg(8, 9, Bytes(216, 9)), bad), "x", {});
    ASSERT_TRUE(jpeg);
    EXPECT_EQ(jpeg->extent, (Extent{8, 9, 3}));
    const auto png =
        parse_image(test::with_chunk(test::make_png(8, 9, Bytes(216, 9)), "eXIf", bad), "x", {});
    ASSERT_TRUE(png);
    EXPECT_EQ(png->extent, (Extent{8, 9, 3}));
  }
}

}  // namespace
}  // namespace omni
