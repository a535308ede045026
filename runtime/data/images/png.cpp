// This file decodes PNG images by libpng.
#include "runtime/data/images/image.hpp"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdlib>
#include <cstring>

namespace omni {
namespace {

constexpr png_uint_32 kMostSide = 1'000'000;

// deflate unpacks at most this many bytes from one byte. A header that announces more is wrong.
constexpr std::uint64_t kMostUnpacked = 1032;

// An interlaced file may take at most this many bytes: its rows come in seven passes, so all are
// kept until the last.
constexpr std::uint64_t kMostInterlaced = 90 << 20;

// libpng reports an error by calling on_error(), which must not return and therefore calls longjmp.
// Between it and the setjmp in run() there are only frames of libpng.
class PngReader {
 public:
  explicit PngReader(std::string_view bytes) : left_(bytes), size_(bytes.size()) {}
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  // Makes calls of libpng. Returns false if libpng fails; then no destructor of an object in
  // `calls` runs.
  bool run(auto calls) {
    if (setjmp(landing_) != 0) return false;
    calls();
    return true;
  }
  // Reads up to the first row. The rows have 8 bits per value, and are grey or RGB. If the file has
  // transparency, each pixel has one value more, which says how opaque it is.
  void open() {
    const auto ignore = [](png_structp, png_const_charp) {};
    png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, this, on_error, ignore, this, allocate,
                                   [](png_structp, png_voidp memory) { std::free(memory); });
    if (png == nullptr) leave("libpng cannot be used");
    info = png_create_info_struct(png);
    if (info == nullptr) leave("libpng cannot be used");
    png_set_read_fn(png, this, read);
    png_set_user_limits(png, kMostSide, kMostSide);
    // Only chunks that affect pixels are kept. Others are skipped, but their checksums are
    // verified, too.
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_chunk_cache_max(png, 1);
    png_set_chunk_malloc_max(png, kMostFileBytes);
    png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    // Some encoders announce a smaller window of deflate than their data need.
    png_set_option(png, PNG_MAXIMUM_INFLATE_WINDOW, PNG_OPTION_ON);
    png_read_info(png, info);
    const std::uint64_t bits = std::uint64_t{png_get_image_width(png, info)} *
                               png_get_image_height(png, info) * png_get_bit_depth(png, info) *
                               png_get_channels(png, info);
    if (bits / 8 > kMostUnpacked * size_) leave("it is too small to hold all pixels");
    png_set_expand(png);
    png_set_scale_16(png);
    passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
  }

  png_structp png = nullptr;
  png_infop info = nullptr;
  int passes = 1;
  bool out_of_memory = false;
  std::array<char, 200> problem{};

 private:
  [[noreturn]] void leave(const char* text) {
    std::strncpy(problem.data(), text, problem.size() - 1);
    std::longjmp(landing_, 1);
  }
  [[noreturn]] static void on_error(png_structp png, png_const_charp text) {
    static_cast<PngReader*>(png_get_error_ptr(png))->leave(text);
  }
  static png_voidp allocate(png_structp png, png_alloc_size_t size) {
    void* const memory = std::malloc(size);
    if (memory == nullptr) static_cast<PngReader*>(png_get_mem_ptr(png))->out_of_memory = true;
    return memory;
  }
  static void read(png_structp png, png_bytep dst, std::size_t count) {
    PngReader& self = *static_cast<PngReader*>(png_get_io_ptr(png));
    if (count > self.left_.size()) self.leave("the file ends too early");
    std::memcpy(dst, self.left_.data(), count);
    self.left_.remove_prefix(count);
  }

  std::jmp_buf landing_{};
  std::string_view left_;
  std::uint64_t size_;
};

// Blends the pixels of a row with white, in place, and drops the values that say how opaque they
// are.
void lay_on_white(std::uint8_t* row, std::size_t pixels, std::size_t channels) {
  const std::uint8_t* src = row;
  for (std::size_t i = 0; i < pixels; ++i, src += channels + 1) {
    const unsigned opaque = src[channels];
    for (std::size_t c = 0; c < channels; ++c)
      *row++ = static_cast<std::uint8_t>((src[c] * opaque + 255 * (255 - opaque) + 127) / 255);
  }
}

// Reduces an image whose rows are added from the top on. Each pixel is the mean of a square of
// pixels, as with libjpeg.
class Reducer {
 public:
  Reducer(int height, int width, int channels, int reduction)
      : image({.extent = {(height + reduction - 1) / reduction, (width + reduction - 1) / reduction,
                          channels},
               .pixels = {}}),
        height_(height),
        width_(width),
        side_(reduction),
        sums_(static_cast<std::size_t>(image.extent.w) * channels) {
    image.pixels.resize(image.extent.count());
  }
  void add(const std::uint8_t* row) {
    std::uint8_t* const dst = image.pixels.data() + (row_ / side_) * sums_.size();
    ++row_;
    if (side_ == 1) return void(std::copy_n(row, sums_.size(), dst));
    const int channels = image.extent.c;
    std::uint16_t* sum = sums_.data();
    for (int left = 0; left < width_; left += side_, sum += channels)
      for (int x = left; x < std::min(left + side_, width_); ++x)
        for (int c = 0; c < channels; ++c) sum[c] = static_cast<std::uint16_t>(sum[c] + *row++);
    if (row_ % side_ != 0 && row_ != height_) return;
    const int rows = (row_ - 1) % side_ + 1;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      const int left = static_cast<int>(i) / channels * side_;
      const int pixels = rows * std::min(side_, width_ - left);
      dst[i] = static_cast<std::uint8_t>((sums_[i] + pixels / 2) / pixels);
      sums_[i] = 0;
    }
  }

  Image image;

 private:
  int height_, width_, side_, row_ = 0;
  std::vector<std::uint16_t> sums_;  // of the squares whose rows are not complete
};

png_uint_32 side_at(std::string_view bytes, std::size_t at) {
  return png_get_uint_32(reinterpret_cast<png_const_bytep>(bytes.data()) + at);
}

}  // namespace

bool is_png(std::string_view bytes) { return bytes.starts_with("\x89PNG"); }

Result<Image> decode_png(std::string_view bytes, const std::string& where, LeastSize least) {
  const auto refuse = [&](std::string what, std::string hint) {
    return Error{ErrorKind::data, where, std::move(what), std::move(hint)};
  };
  constexpr std::size_t kName = 12, kWidth = 16, kHeight = 20,
                        kHead = 24;  // offsets in the first chunk
  if (bytes.size() >= kHead && bytes.substr(kName).starts_with("IHDR")) {
    const png_uint_32 width = side_at(bytes, kWidth), height = side_at(bytes, kHeight);
    if (std::uint64_t{width} * height > kMaxPixels)
      return refuse("has more than 2^26 pixels", "make it smaller");
    if (std::max(width, height) > kMostSide)
      return refuse(fmt::format("has a side of more than {} pixels", kMostSide), "make it smaller");
  }
  PngReader reader(bytes);
  const auto damaged = [&] {
    if (reader.out_of_memory)
      return Error{ErrorKind::out_of_memory, where, "no memory to decode it", ""};
    return refuse(fmt::format("is a damaged PNG: {}", reader.problem.data()),
                  "fetch it again, or leave it out");
  };
  if (!reader.run([&] { reader.open(); })) return damaged();
  const png_structp png = reader.png;
  const auto height = static_cast<int>(png_get_image_height(png, reader.info)),
             width = static_cast<int>(png_get_image_width(png, reader.info));
  const int values = png_get_channels(png, reader.info);
  const int channels = values > 2 ? 3 : 1;
  const std::size_t row_values = png_get_rowbytes(png, reader.info);
  const bool interlaced = reader.passes > 1;
  if (interlaced && row_values * height > kMostInterlaced)
    return refuse(fmt::format("has {}x{} pixels interlaced: they take {} MiB to put together",
                              width, height, row_values * height >> 20),
                  "make it smaller, or save it without interlacing");

  Reducer reducer(height, width, channels, choose_reduction(height, width, least));
  std::vector<std::uint8_t> rows(row_values * (interlaced ? height : 1));
  const bool done = reader.run([&] {
    for (int pass = 1; pass < reader.passes; ++pass)
      for (int y = 0; y < height; ++y) png_read_row(png, &rows[y * row_values], nullptr);
    for (int y = 0; y < height; ++y) {
      std::uint8_t* const row = &rows[interlaced ? y * row_values : 0];
      png_read_row(png, row, nullptr);
      if (values > channels) lay_on_white(row, width, channels);
      reducer.add(row);
    }
    png_read_end(png, nullptr);  // fails if the end is missing
  });
  if (!done) return damaged();
  return std::move(reducer.image);
}

}  // namespace omni
