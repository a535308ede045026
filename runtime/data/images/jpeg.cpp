// This file decodes JPEG images by libjpeg-turbo.
#include "runtime/data/images/image.hpp"

#include <fmt/format.h>

#include <array>
#include <csetjmp>
// libjpeg's header needs FILE.
#include <jerror.h>
#include <jpeglib.h>

namespace omni {
namespace {

// A progressive file may have at most this many scans; about ten are usual. Each takes a pass over
// all pixels, however few bytes it has, so a small file could take very long.
constexpr int kMaxScans = 100;

// libjpeg may take at most this many bytes for a file with several scans. That is enough for 15
// million pixels, or 30 million with halved colours.
constexpr std::uint64_t kMostCoefficients = 90 << 20;

// libjpeg reports an error by calling leave(), which must not return and therefore calls longjmp.
// Between it and the setjmp in Decompressor::run() there are only frames of libjpeg.
struct ErrorExit : jpeg_error_mgr {
  std::jmp_buf landing;
  bool too_many_scans = false;
};

[[noreturn]] void leave(j_common_ptr info) {
  std::longjmp(static_cast<ErrorExit*>(info->err)->landing, 1);
}

// A level below 0 is a warning. Except for the harmless ones the file is damaged, and libjpeg would
// go on with a guess.
void on_message(j_common_ptr info, int level) {
  const int code = info->err->msg_code;
  const bool harmless =
      code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM;
  if (level < 0 && !harmless) leave(info);
}

void on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
  static_cast<ErrorExit*>(info->err)->too_many_scans = true;
  leave(info);
}

class Decompressor {
 public:
  Decompressor() {
    info.err = jpeg_std_error(&errors_);
    errors_.error_exit = leave;
    errors_.emit_message = on_message;
    progress_.progress_monitor = on_progress;
  }
  ~Decompressor() { jpeg_destroy_decompress(&info); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  // Makes calls of libjpeg. Returns false if libjpeg fails; then no destructor of an object in
  // `calls` runs.
  bool run(auto calls) {
    if (setjmp(errors_.landing) != 0) return false;
    calls();
    return true;
  }
  void open(std::string_view bytes) {
    jpeg_create_decompress(&info);
    info.progress = &progress_;  // after jpeg_create_decompress(), which sets it to null
    jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    jpeg_read_header(&info, TRUE);
  }
  std::string problem() {
    if (errors_.too_many_scans) return fmt::format("has more than {} scans", kMaxScans);
    std::array<char, JMSG_LENGTH_MAX> text{};
    errors_.format_message(reinterpret_cast<j_common_ptr>(&info), text.data());
    return fmt::format("is a damaged JPEG: {}", text.data());
  }

  jpeg_decompress_struct info{};

 private:
  ErrorExit errors_{};
  jpeg_progress_mgr progress_{};
};

// Returns how many bytes of coefficients libjpeg keeps until the last scan is read. If there is one
// scan, libjpeg decodes row by row and keeps none.
std::uint64_t coefficient_bytes(jpeg_decompress_struct& info) {
  if (jpeg_has_multiple_scans(&info) == FALSE) return 0;
  std::uint64_t blocks = 0;
  for (int i = 0; i < info.num_components; ++i)
    blocks += std::uint64_t{info.comp_info[i].width_in_blocks} * info.comp_info[i].height_in_blocks;
  return blocks * sizeof(JBLOCK);
}

// Converts CMYK to RGB. Most such files are by Adobe's programs, which store CMYK inverted; files
// without Adobe's marker do not.
void convert_cmyk(const std::vector<std::uint8_t>& cmyk, bool inverted, std::uint8_t* rgb) {
  for (std::size_t i = 0; i + 4 <= cmyk.size(); i += 4)
    for (std::size_t c = 0; c < 3; ++c) {
      const unsigned ink = cmyk[i + c], black = cmyk[i + 3];
      const unsigned light = inverted ? ink * black : (255 - ink) * (255 - black);
      *rgb++ = static_cast<std::uint8_t>((light + 127) / 255);
    }
}

}  // namespace

bool is_jpeg(std::string_view bytes) { return bytes.starts_with("\xFF\xD8"); }

Result<Image> decode_jpeg(std::string_view bytes, const std::string& where, LeastSize least) {
  Decompressor jpeg;
  jpeg_decompress_struct& info = jpeg.info;
  const auto refuse = [&](std::string what, std::string hint) {
    return Error{ErrorKind::data, where, std::move(what), std::move(hint)};
  };
  const auto damaged = [&] {
    if (info.err->msg_code == JERR_OUT_OF_MEMORY)
      return Error{ErrorKind::out_of_memory, where, "no memory to decode it", ""};
    return refuse(jpeg.problem(), "fetch it again, or leave it out");
  };

  if (!jpeg.run([&] { jpeg.open(bytes); })) return damaged();
  if (std::uint64_t{info.image_width} * info.image_height > kMaxPixels)
    return refuse("has more than 2^26 pixels", "make it smaller");
  if (coefficient_bytes(info) > kMostCoefficients)
    return refuse(fmt::format("has {}x{} pixels in several scans: they take {} MiB to put together",
                              info.image_width, info.image_height, coefficient_bytes(info) >> 20),
                  "make it smaller, or save it as a baseline JPEG");
  if (info.out_color_space == JCS_UNKNOWN)
    return refuse(fmt::format("has {} channels of unknown meaning", info.num_components),
                  "convert it to RGB");
  info.scale_num = 1;
  info.scale_denom =
      static_cast<unsigned>(choose_reduction(info.image_height, info.image_width, least));
  if (!jpeg.run([&] { jpeg_start_decompress(&info); })) return damaged();

  const int channels = info.output_components == 1 ? 1 : 3;
  Image image{.extent = {static_cast<int>(info.output_height), static_cast<int>(info.output_width),
                         channels},
              .pixels = {}};
  image.pixels.resize(image.extent.count());
  const std::size_t row = std::size_t{info.output_width} * static_cast<std::size_t>(channels);
  const bool cmyk = info.out_color_space == JCS_CMYK;
  std::vector<std::uint8_t> cmyk_row(cmyk ? std::size_t{info.output_width} * 4 : 0);
  const bool done = jpeg.run([&] {
    while (info.output_scanline < info.output_height) {
      std::uint8_t* const dst = image.pixels.data() + info.output_scanline * row;
      JSAMPROW target = cmyk ? cmyk_row.data() : dst;
      jpeg_read_scanlines(&info, &target, 1);
      if (cmyk) convert_cmyk(cmyk_row, info.saw_Adobe_marker == TRUE, dst);
    }
    jpeg_finish_decompress(&info);  // fails if the end is missing
  });
  if (!done) return damaged();
  return image;
}

}  // namespace omni
