// Writes JPEG files of every kind that tests want to read, through libjpeg.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
// libjpeg's header needs FILE from <cstdio>.
#include <jpeglib.h>

namespace omni::test {

struct JpegKind {
  int quality = 100;
  bool progressive = false, subsampled = false;
  bool scan_per_coefficient = false;  // progressive in 190 scans, all of them in order
  // The colour space of the file. The given pixels are grey, RGB or CMYK accordingly.
  J_COLOR_SPACE colours = JCS_YCbCr;
};

inline std::string make_jpeg(int height, int width, const std::vector<std::uint8_t>& pixels,
                             const JpegKind& kind = {}) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  const bool grey = kind.colours == JCS_GRAYSCALE;
  const bool four = kind.colours == JCS_CMYK || kind.colours == JCS_YCCK;
  info.image_height = static_cast<JDIMENSION>(height);
  info.image_width = static_cast<JDIMENSION>(width);
  info.input_components = grey ? 1 : four ? 4 : 3;
  info.in_color_space = grey ? JCS_GRAYSCALE : four ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, kind.colours);
  jpeg_set_quality(&info, kind.quality, TRUE);
  if (!kind.subsampled) info.comp_info[0].h_samp_factor = info.comp_info[0].v_samp_factor = 1;
  if (four && !kind.subsampled)
    info.comp_info[3].h_samp_factor = info.comp_info[3].v_samp_factor = 1;
  if (kind.progressive) jpeg_simple_progression(&info);
  std::vector<jpeg_scan_info> scans{{3, {0, 1, 2}, 0, 0, 0, 0}};
  for (int coefficient = 1; coefficient < 64; ++coefficient)
    for (int channel = 0; channel < 3; ++channel)
      scans.push_back({1, {channel}, coefficient, coefficient, 0, 0});
  if (kind.scan_per_coefficient) {
    info.scan_info = scans.data();
    info.num_scans = static_cast<int>(scans.size());
  }
  jpeg_start_compress(&info, TRUE);
  const auto row =
      static_cast<std::size_t>(width) * static_cast<std::size_t>(info.input_components);
  while (info.next_scanline < info.image_height) {
    JSAMPROW line = const_cast<std::uint8_t*>(pixels.data()) + info.next_scanline * row;
    jpeg_write_scanlines(&info, &line, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string text(reinterpret_cast<const char*>(bytes), size);
  std::free(bytes);
  return text;
}

// Returns an image in which all pixels have the same colour.
inline std::string make_plain_jpeg(int height, int width, std::uint8_t red, std::uint8_t green,
                                   std::uint8_t blue) {
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < height * width; ++i) pixels.insert(pixels.end(), {red, green, blue});
  return make_jpeg(height, width, pixels);
}

}  // namespace omni::test
