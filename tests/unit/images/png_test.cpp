// These tests read PNG files of every kind with known pixels, the same files at reduced size, and
// damaged files.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "runtime/data/images/image.hpp"
#include "runtime/rng.hpp"
#include "tests/support/images/png_writer.hpp"

namespace omni {
namespace {

using test::big_endian;
using test::make_png;
using test::PngKind;
using test::with_chunk;
using test::with_sizes;
using Bytes = std::vector<std::uint8_t>;

// Samples are values of any bit depth. rows() returns them as the rows of a PNG file.
struct Samples {
  int height, width, channels, depth;
  std::vector<unsigned> values;

  Samples(int h, int w, int c, int d, unsigned bound = 1 << 16)
      : height(h), width(w), channels(c), depth(d) {
    Draws draws(Philox(3, RandomStream::synthetic), static_cast<std::uint64_t>(h * w * c * d));
    for (int i = 0; i < h * w * c; ++i) values.push_back(draws.below(std::min(bound, 1u << depth)));
  }
  Bytes rows() const {
    Bytes bytes;
    auto value = values.begin();
    for (int y = 0; y < height; ++y) {
      int free = 0;  // bits of the last byte
      for (int i = 0; i < width * channels; ++i, ++value)
        for (int bit = depth - 1; bit >= 0; --bit) {
          if (free == 0) bytes.push_back(0), free = 8;
          bytes.back() |= static_cast<std::uint8_t>((*value >> bit & 1) << --free);
        }
    }
    return bytes;
  }
  double share(std::size_t i) const { return values[i] / ((1 << depth) - 1.0); }
};

int channels_of(int colours) {
  return (colours & PNG_COLOR_MASK_COLOR ? 3 : 1) + (colours & PNG_COLOR_MASK_ALPHA ? 1 : 0);
}

void expect_png_pixels(const std::string& png, Extent extent, const std::vector<double>& expected,
                       double tolerance = 0.501) {
  const auto image = parse_image(png, "x.png", {});
  ASSERT_TRUE(image) << image.error().message();
  EXPECT_EQ(image->extent, extent);
  ASSERT_EQ(image->pixels.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(image->pixels[i], expected[i], tolerance) << i;
}

void expect_png_refused(const std::string& png, const std::string& text) {
  const auto image = parse_image(png, "x.png", {});
  ASSERT_FALSE(image) << text;
  EXPECT_EQ(image.error().kind, ErrorKind::data);
  EXPECT_NE(image.error().message().find("x.png: " + text), std::string::npos)
      << image.error().message();
}

TEST(Png, EveryDepthOfGreyAndColours) {
  for (const int colours : {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                            PNG_COLOR_TYPE_RGB_ALPHA})
    for (const int depth : {1, 2, 4, 8, 16})
      for (const bool interlaced : {false, true})
        for (const auto& [h, w] : {std::pair(1, 1), {3, 2}, {9, 17}, {20, 11}}) {
          if (depth < 8 && colours != PNG_COLOR_TYPE_GRAY) continue;
          const Samples samples(h, w, channels_of(colours), depth);
          const bool transparent = colours & PNG_COLOR_MASK_ALPHA;
          const int shown = samples.channels - (transparent ? 1 : 0);
          std::vector<double> expected;
          for (std::size_t i = 0; i < samples.values.size(); i += samples.channels) {
            const double opaque = transparent ? samples.share(i + shown) : 1;
            for (int c = 0; c < shown; ++c)
              expected.push_back(255 * (opaque * samples.share(i + c) + 1 - opaque));
          }
          const PngKind kind{.depth = depth, .colours = colours, .interlaced = interlaced};
          // Colours and transparency of 16 bits are rounded to 8 bits before they are mixed, so
          // results may differ by 1 more.
          expect_png_pixels(make_png(h, w, samples.rows(), kind), {h, w, shown}, expected,
                            depth == 16 && transparent ? 1.501 : 0.501);
        }
}

TEST(Png, EveryDepthOfPalettes) {
  for (const int depth : {1, 2, 4, 8})
    for (const bool interlaced : {false, true}) {
      std::vector<png_color> palette;
      for (int i = 0; i < 1 << depth; ++i)
        palette.push_back({static_cast<png_byte>(i * 91), static_cast<png_byte>(i * 33),
                           static_cast<png_byte>(200 - i)});
      const Samples samples(9, 17, 1, depth);
      const std::string png = make_png(9, 17, samples.rows(),
                                       {.depth = depth,
                                        .colours = PNG_COLOR_TYPE_PALETTE,
                                        .interlaced = interlaced,
                                        .palette = palette});
      // The first colour is fully transparent, the second half transparent; the other colours are
      // opaque.
      for (const std::string& opacity : {std::string(), std::string("\0\x80", 2)}) {
        std::vector<double> expected;
        for (const unsigned index : samples.values) {
          const double opaque =
              index < opacity.size() ? static_cast<unsigned char>(opacity[index]) / 255.0 : 1;
          for (const int value : {palette[index].red, palette[index].green, palette[index].blue})
            expected.push_back(value * opaque + 255 * (1 - opaque));
        }
        expect_png_pixels(opacity.empty() ? png : with_chunk(png, "tRNS", opacity), {9, 17, 3},
                          expected);
      }
    }
}

TEST(Png, IndicesBeyondThePaletteAreBlack) {
  const std::string png =
      make_png(1, 3, {0, 1, 255}, {.colours = PNG_COLOR_TYPE_PALETTE, .palette = {{9, 8, 7}}});
  expect_png_pixels(png, {1, 3, 3}, {9, 8, 7, 0, 0, 0, 0, 0, 0});
}

TEST(Png, OneColourIsTransparent) {
  const std::string grey =
      make_png(1, 4, {0b00011011}, {.depth = 2, .colours = PNG_COLOR_TYPE_GRAY});
  expect_png_pixels(with_chunk(grey, "tRNS", std::string("\0\1", 2)), {1, 4, 1},
                    {0, 255, 170, 255});
  const std::string deep =
      make_png(1, 2, {1, 2, 1, 3}, {.depth = 16, .colours = PNG_COLOR_TYPE_GRAY});
  expect_png_pixels(with_chunk(deep, "tRNS", "\1\2"), {1, 2, 1}, {255, 1});
  const std::string colours = make_png(1, 2, {1, 2, 3, 1, 2, 4});
  expect_png_pixels(with_chunk(colours, "tRNS", std::string("\0\1\0\2\0\3", 6)), {1, 2, 3},
                    {255, 255, 255, 1, 2, 4});
}

TEST(Png, SixteenBitsAreRounded) {
  for (const unsigned value : {0u, 127u, 128u, 129u, 257u, 32767u, 65406u, 65407u, 65535u}) {
    const auto image = parse_image(
        make_png(1, 1, {static_cast<std::uint8_t>(value >> 8), static_cast<std::uint8_t>(value)},
                 {.depth = 16, .colours = PNG_COLOR_TYPE_GRAY}),
        "x.png", {});
    ASSERT_TRUE(image);
    EXPECT_EQ(image->pixels[0], std::lround(value / 257.0)) << value;
  }
}

TEST(Png, IsReducedAsJpegIs) {
  const Samples samples(100, 161, 4, 8);
  for (const bool interlaced : {false, true}) {
    const std::string png = make_png(
        100, 161, samples.rows(), {.colours = PNG_COLOR_TYPE_RGB_ALPHA, .interlaced = interlaced});
    const auto read = [&](LeastSize least) { return *parse_image(png, "x.png", least); };
    const Image whole = read({});
    EXPECT_EQ(read({51, 10}).extent, (Extent{100, 161, 3}));
    EXPECT_EQ(read({50, 81}).extent, (Extent{50, 81, 3}));
    EXPECT_EQ(read({50, 82}).extent, (Extent{100, 161, 3}));
    EXPECT_EQ(read({25, 40}).extent, (Extent{25, 41, 3}));
    for (const auto& [least, side] : {std::pair(LeastSize{50, 81}, 2), {{1, 1}, 8}}) {
      const Image small = read(least);
      EXPECT_EQ(small.extent, (Extent{(99 + side) / side, (160 + side) / side, 3}));
      for (int y = 0; y < small.extent.h; ++y)
        for (int x = 0; x < small.extent.w; ++x)
          for (int c = 0; c < 3; ++c) {
            double sum = 0, pixels = 0;
            for (int v = side * y; v < std::min(100, side * (y + 1)); ++v)
              for (int u = side * x; u < std::min(161, side * (x + 1)); ++u, ++pixels)
                sum += whole.pixels[static_cast<std::size_t>(3 * (161 * v + u) + c)];
            ASSERT_NEAR(small.pixels[static_cast<std::size_t>(3 * (small.extent.w * y + x) + c)],
                        sum / pixels, 0.5001);
          }
    }
  }
}

TEST(Png, OtherChunksChangeNothing) {
  const std::string plain = make_png(2, 2, {1, 2, 3, 40, 50, 60, 7, 8, 9, 100, 110, 120});
  const Image expected = *parse_image(plain, "x.png", {});
  for (const auto& [name, data] :
       std::vector<std::pair<std::string, std::string>>{{"gAMA", big_endian(220000)},
                                                        {"bKGD", std::string(6, '\7')},
                                                        {"sBIT", std::string(3, '\4')},
                                                        {"iCCP", "no profile"},
                                                        {"tEXt", "no text"},
                                                        {"prVt", std::string(3'000'000, 'x')}}) {
    const auto image = parse_image(with_chunk(plain, name, data), "x.png", {});
    ASSERT_TRUE(image) << name << ": " << image.error().message();
    EXPECT_EQ(image->pixels, expected.pixels) << name;
  }
  EXPECT_TRUE(parse_image(plain + "and more", "x.png", {})) << "is no part of the image";
  expect_png_refused(with_chunk(plain, "CgBI", "1234"),
                     "is a damaged PNG: CgBI: unhandled critical");
}

TEST(Png, EveryTruncationAndEveryChangedByteIsTold) {
  const Samples samples(5, 6, 4, 8);
  for (const bool interlaced : {false, true}) {
    const std::string whole =
        with_chunk(make_png(5, 6, samples.rows(),
                            {.colours = PNG_COLOR_TYPE_RGB_ALPHA, .interlaced = interlaced}),
                   "tEXt", std::string("a\0b", 3));
    ASSERT_TRUE(parse_image(whole, "x.png", {}));
    for (std::size_t length = 4; length < whole.size(); ++length)
      expect_png_refused(whole.substr(0, length), "is a damaged PNG: ");
    expect_png_refused(
        whole.substr(0, whole.size() - 1),
        "is a damaged PNG: the file ends too early (fetch it again, or leave it out)");
    for (std::size_t at = 0; at < whole.size(); ++at)
      for (const char pattern : {'\xFF', '\x01', '\x80'}) {
        std::string damaged = whole;
        damaged[at] = static_cast<char>(damaged[at] ^ pattern);
        EXPECT_FALSE(parse_image(damaged, "x.png", {})) << at;
      }
  }
  std::string as_text = make_png(1, 1, {1, 2, 3});
  expect_png_refused(as_text.erase(4, 1),
                     "is a damaged PNG: PNG file corrupted by ASCII conversion");
}

TEST(Png, HostileHeaders) {
  const std::string small = make_png(8, 8, Samples(8, 8, 3, 8).rows());
  for (const auto& [width, height] :
       {std::pair(8193u, 8192u), {0xFFFFFFFF, 0xFFFFFFFF}, {0x80000000, 1}, {1, 67108865}})
    expect_png_refused(with_sizes(small, width, height),
                       "has more than 2^26 pixels (make it smaller)");
  for (const auto& [width, height] : {std::pair(1000001u, 1u), {1u, 1000001u}})
    expect_png_refused(with_sizes(small, width, height),
                       "has a side of more than 1000000 pixels (make it smaller)");
  expect_png_refused(with_sizes(small, 0, 8), "is a damaged PNG: ");
  expect_png_refused(with_sizes(small, 8, 9), "is a damaged PNG: ");
  expect_png_refused(with_sizes(small, 8192, 8192),
                     "is a damaged PNG: it is too small to hold all pixels (fetch it again");
  const std::string interlaced = make_png(8, 8, Samples(8, 8, 3, 8).rows(), {.interlaced = true});
  expect_png_refused(
      with_sizes(with_chunk(interlaced, "prVt", std::string(200'000, 'x')), 8192, 8192),
      "has 8192x8192 pixels interlaced: they take 192 MiB to put together (make it "
      "smaller, or save it without interlacing)");
}

}  // namespace
}  // namespace omni
