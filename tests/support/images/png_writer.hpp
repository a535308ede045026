// These functions write PNG files of every kind through libpng, and EXIF data for PNG and JPEG
// files.
#pragma once

#include <png.h>
#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace omni::test {

struct PngKind {
  int depth = 8, colours = PNG_COLOR_TYPE_RGB;
  bool interlaced = false;
  std::vector<png_color> palette = {};
  int compression = 6;
};

// `rows` are in the file's format. Values have `depth` bits, the highest bits of a byte first, and
// those of 16 bits are big-endian. Each row begins with a new byte.
inline std::string make_png(int height, int width, const std::vector<std::uint8_t>& rows,
                            const PngKind& kind = {}) {
  std::string bytes;
  const auto ignore = [](png_structp, png_const_charp) {};
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, ignore);
  png_set_benign_errors(png, 1);  // tests want indices beyond the palette, too
  png_infop info = png_create_info_struct(png);
  const auto append = [](png_structp to, png_bytep data, std::size_t size) {
    static_cast<std::string*>(png_get_io_ptr(to))->append(reinterpret_cast<char*>(data), size);
  };
  png_set_write_fn(png, &bytes, append, nullptr);
  png_set_compression_level(png, kind.compression);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height),
               kind.depth, kind.colours, kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!kind.palette.empty())
    png_set_PLTE(png, info, kind.palette.data(), static_cast<int>(kind.palette.size()));
  png_write_info(png, info);
  const std::size_t row = png_get_rowbytes(png, info);
  for (int pass = png_set_interlace_handling(png); pass > 0; --pass)
    for (std::size_t y = 0; y < static_cast<std::size_t>(height); ++y)
      png_write_row(png, rows.data() + y * row);
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

inline std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(number >> shift);
  return bytes;
}

inline std::string png_chunk(const std::string& name, const std::string& data) {
  const std::string body = name + data;
  const uLong sum =
      crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(static_cast<std::uint32_t>(data.size())) + body +
         big_endian(static_cast<std::uint32_t>(sum));
}

// Returns the file with one more chunk, before the pixels.
inline std::string with_chunk(std::string png, const std::string& name, const std::string& data) {
  return png.insert(png.find("IDAT") - 4, png_chunk(name, data));
}

// Returns the file with another width and height in its first chunk.
inline std::string with_sizes(std::string png, std::uint32_t width, std::uint32_t height) {
  constexpr std::size_t kChunk = 8, kData = 16, kRest = 24, kEnd = 33;
  return png.replace(kChunk, kEnd - kChunk,
                     png_chunk("IHDR", big_endian(width) + big_endian(height) +
                                           png.substr(kRest, 13 - (kRest - kData))));
}

// The next functions make EXIF data.

// Makes EXIF with the orientation, after an entry of something else.
inline std::string make_exif(int orientation, bool is_big_endian = false) {
  using namespace std::string_view_literals;
  const auto value = static_cast<char>(orientation);
  std::string exif(is_big_endian
                       ? "MM\0*\0\0\0\10\0\2\1\0\0\4\0\0\0\1\0\0\0\7\1\22\0\3\0\0\0\1\0?\0\0"
                         "\0\0\0\0"sv
                       : "II*\0\10\0\0\0\2\0\0\1\4\0\1\0\0\0\7\0\0\0\22\1\3\0\1\0\0\0?\0\0\0"
                         "\0\0\0\0"sv);
  exif[exif.find('?')] = value;
  return exif;
}

inline std::string with_exif(std::string jpeg, const std::string& exif) {
  const std::string segment = std::string("Exif\0\0", 6) + exif;
  return jpeg.insert(
      2,
      "\xFF\xE1" + big_endian(static_cast<std::uint32_t>(segment.size()) + 2).substr(2) + segment);
}

}  // namespace omni::test
