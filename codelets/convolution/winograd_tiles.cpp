#include "codelets/convolution/winograd_tiles.hpp"

#include <algorithm>
#include <limits>

namespace omni::winograd {
namespace {

constexpr std::int64_t kNowhere = std::int64_t{1} << 60;

int divide_up(int a, int b) { return (a + b - 1) / b; }

// Offsets of `count` positions from `first` on, in a line of images of `size`.
std::vector<std::int64_t> offsets(int first, int count, int images, int pitch, int size,
                                  std::int64_t image_step, std::int64_t step) {
  std::vector<std::int64_t> result(count, kNowhere);
  for (int i = std::max(0, -first); i < count; ++i) {
    const int image = (first + i) / pitch, at = (first + i) % pitch;
    if (image < images && at < size) result[i] = image * image_step + at * step;
  }
  return result;
}

}  // namespace

Mosaic mosaic_of(const Convolved& what) {
  constexpr int kMost = 8;          // images in a line
  constexpr double kEnough = 0.97;  // of the tiles
  const int pitch_h = std::max(what.in.h + what.pad_h, what.out.h);
  const int pitch_w = std::max(what.in.w + what.pad_w, what.out.w);
  const auto tiles = [&](int images, int pitch, int size) {
    return divide_up((images - 1) * pitch + size, what.tile);
  };
  Mosaic best;
  double fewest = std::numeric_limits<double>::infinity();
  for (int across = 1; across <= std::min(kMost, what.n); ++across)
    for (int down = 1; down <= std::min(kMost, what.n / across); ++down) {
      const Mosaic each{across,
                        down,
                        pitch_h,
                        pitch_w,
                        tiles(across, pitch_w, what.out.w),
                        tiles(down, pitch_h, what.out.h)};
      const double count = 1.0 * divide_up(what.n, each.images()) * each.rows * each.columns;
      if (count < kEnough * fewest) {
        fewest = count;
        best = each;
      }
    }
  return best;
}

PixelMap::PixelMap(const Convolved& what, const Mosaic& mosaic, const Image& image, int pad_h,
                   int pad_w)
    : tile_(what.tile),
      rows_of_mosaic_(mosaic.rows),
      values_of_mosaic_(mosaic.images() * image.values()),
      end_(what.n * image.values()),
      rows_(offsets(-pad_h, mosaic.rows * what.tile + what.tile_in, mosaic.down, mosaic.pitch_h,
                    image.h, mosaic.across * image.values(), std::int64_t{image.w} * image.stride)),
      // One column of tiles more than there are: the neighbours of the last.
      columns_(offsets(-pad_w, (mosaic.columns + 1) * what.tile + what.tile_in, mosaic.across,
                       mosaic.pitch_w, image.w, image.values(), image.stride)) {}

}  // namespace omni::winograd
