#include "codelets/convolution/winograd_workspace.hpp"

#include "codelets/convolution/winograd_transforms.hpp"

namespace omni::winograd {
namespace {

// A panel's transformed kernels should stay in the cache. Only one panel that has all output
// channels can serve several blocks, which is worth a larger one if there are some; otherwise
// blocks are large.
constexpr std::int64_t kPanelValues = 1 << 20, kSharedPanelValues = 1 << 22, kBlockValues = 1 << 19,
                       kLargeBlockValues = 1 << 22,
                       kBlockTiles = 96;  // fewer make thin matrix products

// The size of the parts when `count` is cut into equal ones of at most `most`, or of one.
int part(std::int64_t count, std::int64_t most) {
  const auto divide = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  return static_cast<int>(divide(count, divide(count, std::max<std::int64_t>(most, 1))));
}

}  // namespace

Blocking::Blocking(const Tiling& tiling, const ValueSizes& sizes)
    : rows(tiling.rows), filters(tiling.filters) {
  const std::int64_t values_of_filter = std::int64_t{tiling.planes} * tiling.channels;
  const bool several_blocks = std::int64_t{tiling.rows} * tiling.columns >= 3 * kBlockTiles;
  const bool one_is_enough =
      values_of_filter * filters <= (several_blocks ? kSharedPanelValues : kPanelValues);
  panel = one_is_enough
              ? filters
              : kLanes * part(filters / kLanes, kPanelValues / (kLanes * values_of_filter));
  const std::int64_t tiles =
      one_panel()
          ? std::max(kBlockValues / (tiling.planes * (tiling.channels + panel)), kBlockTiles)
          : kLargeBlockValues / (tiling.planes * tiling.channels);
  block_rows = part(rows, tiles / tiling.columns);
  const std::int64_t block_tiles = std::int64_t{block_rows} * tiling.columns;
  // Strides that are no power of two, or all planes would meet in the same places of a cache.
  in_plane = block_tiles * tiling.channels + kLanes;
  out_plane = block_tiles * panel + kLanes;
  kernel_plane = std::int64_t{panel} * tiling.channels + kLanes;
  const auto floats_of = [&](std::int64_t plane, std::size_t value) {
    return tiling.planes * plane * value / sizeof(float);
  };
  const std::size_t widest = std::max(tiling.channels, filters);
  out_at = floats_of(in_plane, sizes.in);
  kernel_at = out_at + floats_of(out_plane, sizes.out);
  zeros_at = kernel_at + floats_of(kernel_plane, sizes.kernel);
  spare_at = zeros_at + widest;
  floats = spare_at + widest;
}

}  // namespace omni::winograd
