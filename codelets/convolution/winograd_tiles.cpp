#include "codelets/convolution/winograd_tiles.hpp"

#include <algorithm>
#include <limits>

#include "codelets/convolution/winograd_transforms.hpp"

namespace omni::winograd {
namespace {

constexpr std::int64_t kNowhere = std::int64_t{1} << 60;

auto divide_up(auto a, decltype(a) b) { return (a + b - 1) / b; }

// Returns the offsets in memory of `count` positions from `first` on, in a row of images that are
// `size` wide.
std::vector<std::int64_t> offsets(int first, int count, int images, int pitch, int size,
                                  std::int64_t image_step, std::int64_t step) {
  std::vector<std::int64_t> result(count, kNowhere);
  for (int i = std::max(0, -first); i < count; ++i) {
    const int image = (first + i) / pitch, at = (first + i) % pitch;
    if (image < images && at < size) result[i] = image * image_step + at * step;
  }
  return result;
}

// The transformed kernels of a panel should stay in the cache. If one panel has all output
// channels, its kernels are transformed once for all blocks. With several blocks that is worth a
// larger panel. With several panels, kernels are transformed again for every block, so blocks are
// large.
constexpr std::int64_t kPanelValues = 1 << 20, kSharedPanelValues = 1 << 22, kBlockValues = 1 << 19,
                       kLargeBlockValues = 1 << 22,
                       kBlockTiles = 96;  // fewer make thin matrix products

// Divides `count` into equal parts. Returns their size, which is at most `most` and at least 1.
int part(std::int64_t count, std::int64_t most) {
  return static_cast<int>(divide_up(count, divide_up(count, std::max<std::int64_t>(most, 1))));
}

}  // namespace

Mosaic mosaic_of(const Convolved& what) {
  constexpr int kMost = 8;          // images in a line
  constexpr double kEnough = 0.97;  // share of the best mosaic's tiles that a better one may need
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
      // There is one more column of tiles than in the mosaic, so that the pixels beside the last
      // column can be prefetched.
      columns_(offsets(-pad_w, (mosaic.columns + 1) * what.tile + what.tile_in, mosaic.across,
                       mosaic.pitch_w, image.w, image.values(), image.stride)) {}

Blocking::Blocking(const Convolved& what, const Mosaic& mosaic, const ValueSizes& sizes)
    : rows(divide_up(what.n, mosaic.images()) * mosaic.rows), filters(what.out.c) {
  const int columns = mosaic.columns, planes = what.planes(), channels = what.in.c;
  const std::int64_t values_of_filter = std::int64_t{planes} * channels;
  const bool several_blocks = std::int64_t{rows} * columns >= 3 * kBlockTiles;
  const bool one_is_enough =
      values_of_filter * filters <= (several_blocks ? kSharedPanelValues : kPanelValues);
  panel = one_is_enough
              ? filters
              : kLanes * part(filters / kLanes, kPanelValues / (kLanes * values_of_filter));
  const std::int64_t tiles =
      one_panel() ? std::max(kBlockValues / (planes * (channels + panel)), kBlockTiles)
                  : kLargeBlockValues / (planes * channels);
  block_rows = part(rows, tiles / columns);
  const std::int64_t block_tiles = std::int64_t{block_rows} * columns;
  // The products are often powers of two. At such distances all planes would map to the same lines
  // of a cache, so kLanes is added.
  in_plane = block_tiles * channels + kLanes;
  out_plane = block_tiles * panel + kLanes;
  kernel_plane = std::int64_t{panel} * channels + kLanes;
  const auto floats_of = [&](std::int64_t plane, std::size_t value) {
    return planes * plane * value / sizeof(float);
  };
  const std::size_t widest = std::max(channels, filters);
  out_at = floats_of(in_plane, sizes.in);
  kernel_at = out_at + floats_of(out_plane, sizes.out);
  zeros_at = kernel_at + floats_of(kernel_plane, sizes.kernel);
  spare_at = zeros_at + widest;
  floats = spare_at + widest;
}

}  // namespace omni::winograd
