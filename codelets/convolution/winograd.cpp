#include "codelets/convolution/winograd.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "codelets/convolution/winograd_transforms.hpp"
#include "codelets/elementwise/channel_bias.hpp"

namespace omni::winograd {
namespace {

// ---- tiles of a slice ----

// What is convolved with what, for one group; backward_data is a convolution too, from diff_dst to
// diff_src.
struct Grid {
  struct Image {
    int h, w, c;
    int stride;  // from pixel to pixel: the channels of all groups
    std::int64_t values() const { return std::int64_t{h} * w * stride; }
  };
  int n;
  Image in, out;
  int pad_h, pad_w;
  int tile;  // outputs across

  int across() const { return (out.w + tile - 1) / tile; }
  int down() const { return (out.h + tile - 1) / tile; }  // rows of tiles in an image
};

Grid grid_of(const ConvShape& s) {
  return {s.n,
          {s.h, s.w, s.group_c(), s.c},
          {s.out_h(), s.out_w(), s.group_filters(), s.filters},
          s.pad_h,
          s.pad_w,
          outputs(s.kernel_h)};
}

Grid turned(const Grid& grid) {
  const int reach = kIn - grid.tile;  // taps - 1
  return {grid.n, grid.out, grid.in, reach - grid.pad_h, reach - grid.pad_w, grid.tile};
}

// A run of rows of tiles, which may begin and end in any image.
struct Block {
  int first, rows;
};

// Where the pixels of a tile lie; those outside of the image in `outside`.
template <int size, class T>
std::array<T*, size * size> tile_at(const Grid::Image& image, T* first, int top, int left,
                                    T* outside) {
  std::array<T*, size * size> values;
  for (int y = 0; y < size; ++y)
    for (int x = 0; x < size; ++x) {
      const int row = top + y, column = left + x;
      const bool inside = row >= 0 && row < image.h && column >= 0 && column < image.w;
      values[static_cast<std::size_t>(y * size + x)] =
          inside ? first + (std::int64_t{row} * image.w + column) * image.stride : outside;
    }
  return values;
}

template <class Visit>  // visit(number of the tile in the block, image, its row and column of
                        // tiles)
void for_each_tile(const Grid& grid, Block block, Visit visit) {
  int tile = 0;
  for (int row = block.first; row < block.first + block.rows; ++row)
    for (int x = 0; x < grid.across(); ++x, ++tile)
      visit(tile, row / grid.down(), row % grid.down(), x);
}

// How the work is cut, and the scratch memory for it. All have 36 planes, one for each position of
// a transformed tile: a row per tile, or per filter.
class Workspace {
 public:
  // A panel of output channels, whose transformed kernels should stay in the cache. Only one that
  // has all of them can serve several blocks, so otherwise blocks are large.
  static constexpr std::int64_t kPanelFloats = 1 << 20, kBlockFloats = 1 << 19,
                                kLargeBlockFloats = 1 << 22,
                                kBlockTiles = 96;  // fewer make thin matrix products

  Workspace(const Grid& grid, DeviceContext& context) {
    panel = kLanes * part(grid.out.c / kLanes, kPanelFloats / (kPlanes * kLanes * grid.in.c));
    const std::int64_t tiles =
        panel == grid.out.c ? std::max(kBlockFloats / (kPlanes * (grid.in.c + panel)), kBlockTiles)
                            : kLargeBlockFloats / (kPlanes * grid.in.c);
    block_rows = part(std::int64_t{grid.n} * grid.down(), tiles / grid.across());
    block_tiles = block_rows * grid.across();
    // Strides that are no power of two, or all planes would meet in the same places of a cache.
    in_plane = std::int64_t{block_tiles} * grid.in.c + kLanes;
    out_plane = std::int64_t{block_tiles} * panel + kLanes;
    kernel_plane = std::int64_t{panel} * grid.in.c + kLanes;
    const int widest = std::max(grid.in.c, grid.out.c);
    in = context.scratch(
        static_cast<std::size_t>(kPlanes * (in_plane + out_plane + kernel_plane) + 2 * widest));
    out = in + kPlanes * in_plane;
    kernel = out + kPlanes * out_plane;
    zeros = kernel + kPlanes * kernel_plane;
    spare = zeros + widest;
    std::fill_n(zeros, widest, 0.0f);
  }

  template <class Visit>
  void for_each_block(const Grid& grid, Visit visit) const {
    const int rows = grid.n * grid.down();
    for (int first = 0; first < rows; first += block_rows)
      visit(Block{first, std::min(block_rows, rows - first)});
  }
  template <class Visit>
  void for_each_panel(const Grid& grid, Visit visit) const {
    for (int first = 0; first < grid.out.c; first += panel)
      visit(first, std::min(panel, grid.out.c - first));
  }

  // The size of the parts when `count` is cut into equal ones of at most `most`, or of one.
  static int part(std::int64_t count, std::int64_t most) {
    const auto divide = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
    return static_cast<int>(divide(count, divide(count, std::max<std::int64_t>(most, 1))));
  }

  int panel, block_rows, block_tiles;
  std::int64_t in_plane, out_plane, kernel_plane;
  float *in, *out, *kernel;
  float *zeros, *spare;  // what lies outside of the images, to read and to write
};

// Transforms what a block's tiles read. A tile's pixels lie in many places, so most of the time
// would go to waiting for memory: while one is transformed, those of its neighbour are fetched.
void transform_inputs(const Grid& grid, const Workspace& space, Block block, const float* src) {
  const float* const zeros = space.zeros;
  for_each_tile(grid, block, [&](int tile, int image, int y, int x) {
    const auto pixels = [&](int column) {
      return tile_at<kIn>(grid.in, src + image * grid.in.values(), y * grid.tile - grid.pad_h,
                          column * grid.tile - grid.pad_w, zeros);
    };
    const auto at = pixels(x), next = pixels(x + 1);
    float* const to = space.in + std::int64_t{tile} * grid.in.c;
    for (int k = 0; k < grid.in.c; k += kLanes) {
      for (const float* each : next) __builtin_prefetch(each + k);
      transform<kInput>([&](std::size_t i) { return load(at[i] + k); },
                        [&](std::size_t i, Lanes values) {
                          store(to + static_cast<std::int64_t>(i) * space.in_plane + k, values);
                        });
    }
  });
}

// visit(where a tile's values are in the planes, where they are in the image) for all tiles and
// channels of a panel.
template <int taps, class T, class Visit>
void for_each_output(const Grid& grid, const Workspace& space, Block block, int first, int count,
                     T* dst, T* outside, Visit visit) {
  for_each_tile(grid, block, [&](int tile, int image, int y, int x) {
    const auto pixels = [&](int column) {
      return tile_at<outputs(taps)>(grid.out, dst + image * grid.out.values() + first,
                                    y * grid.tile, column * grid.tile, outside);
    };
    auto at = pixels(x);
    const auto next = pixels(x + 1);
    float* const planes = space.out + std::int64_t{tile} * count;
    for (int k = 0; k < count; k += kLanes) {
      for (T* each : next) __builtin_prefetch(each + k, std::is_const_v<T> ? 0 : 1);
      visit(planes + k, at);
      for (T*& each : at) each += kLanes;
    }
  });
}

// ---- the three passes ----

enum class Direction { forward, backward };

// Kernels of the output channels [first, first + count): in each plane a row per input channel.
template <int taps>
void transform_kernels(const Grid& grid, const Workspace& space, Direction direction, int first,
                       int count, const float* weights) {
  constexpr std::size_t kSize = taps * taps;
  const auto save = [&](int row, int column, std::size_t plane, Lanes values) {
    store(space.kernel + static_cast<std::int64_t>(plane) * space.kernel_plane +
              std::int64_t{row} * count + column,
          values);
  };
  if (direction == Direction::backward) {
    // The stored weights have a row per input channel, and are to be turned by 180 degrees.
    for (int row = 0; row < grid.in.c; ++row)
      for (int k = 0; k < count; k += kLanes) {
        const float* const from = weights + std::int64_t{row} * kSize * grid.out.c + first + k;
        transform<kKernel<taps>>(
            [&](std::size_t i) {
              return load(from + static_cast<std::int64_t>(kSize - 1 - i) * grid.out.c);
            },
            [&](std::size_t i, Lanes values) { save(row, k, i, values); });
      }
    return;
  }
  // They have a row per output channel: turned over in squares.
  float square[kSize][kLanes][kLanes];
  for (int k = 0; k < count; k += kLanes)
    for (int row = 0; row < grid.in.c; row += kLanes) {
      for (int filter = 0; filter < kLanes; ++filter) {
        const float* from = weights + std::int64_t{first + k + filter} * kSize * grid.in.c + row;
        for (auto& tap : square) {
          for (int j = 0; j < kLanes; ++j) tap[j][filter] = from[j];
          from += grid.in.c;
        }
      }
      for (int j = 0; j < kLanes; ++j)
        transform<kKernel<taps>>([&](std::size_t i) { return load(square[i][j]); },
                                 [&](std::size_t i, Lanes values) { save(row + j, k, i, values); });
    }
}

// finish(block): its rows of dst are complete.
template <int taps, class Finish>
void convolve(const Grid& grid, Gemm product, Direction direction, const float* src,
              const float* weights, bool adds, float* dst, DeviceContext& context, Finish finish) {
  const Workspace space(grid, context);
  const bool one_panel = space.panel == grid.out.c;
  if (one_panel) transform_kernels<taps>(grid, space, direction, 0, space.panel, weights);
  space.for_each_block(grid, [&](Block block) {
    const int tiles = block.rows * grid.across();
    transform_inputs(grid, space, block, src);
    space.for_each_panel(grid, [&](int first, int count) {
      if (!one_panel) transform_kernels<taps>(grid, space, direction, first, count, weights);
      for (int i = 0; i < kPlanes; ++i)
        product(tiles, count, grid.in.c, {space.in + i * space.in_plane, grid.in.c},
                {space.kernel + i * space.kernel_plane, count}, 0.0f,
                space.out + i * space.out_plane, count);
      for_each_output<taps>(
          grid, space, block, first, count, dst, space.spare,
          [&](const float* planes, const auto& at) {
            transform<kOutput<taps>>(
                [&](std::size_t i) {
                  return load(planes + static_cast<std::int64_t>(i) * space.out_plane);
                },
                [&](std::size_t i, Lanes values) {
                  store(at[i], adds ? load(at[i]) + values : values);
                });
          });
    });
    finish(block);
  });
}

template <int taps>
void add_kernel_gradients(const Grid& grid, Gemm product, const float* src, const float* diff_dst,
                          float* diff_weights, DeviceContext& context) {
  const Workspace space(grid, context);
  const int rows = grid.n * grid.down(), channels = grid.in.c;
  space.for_each_block(grid, [&](Block block) {
    const int tiles = block.rows * grid.across();
    transform_inputs(grid, space, block, src);
    space.for_each_panel(grid, [&](int first, int count) {
      for_each_output<taps>(
          grid, space, block, first, count, diff_dst, static_cast<const float*>(space.zeros),
          [&](float* planes, const auto& at) {
            transform<kOutputTransposed<taps>>(
                [&](std::size_t i) { return load(at[i]); },
                [&](std::size_t i, Lanes values) {
                  store(planes + static_cast<std::int64_t>(i) * space.out_plane, values);
                });
          });
      // With one panel the sums of all blocks stay; otherwise every block adds its own.
      const bool one_panel = count == grid.out.c;
      const float keep = one_panel && block.first > 0 ? 1.0f : 0.0f;
      for (int i = 0; i < kPlanes; ++i)
        product(count, channels, tiles, {space.out + i * space.out_plane, count, true},
                {space.in + i * space.in_plane, channels}, keep,
                space.kernel + i * space.kernel_plane, channels);
      if (one_panel && block.first + block.rows < rows) return;
      for (int filter = 0; filter < count; ++filter)
        for (int k = 0; k < channels; k += kLanes) {
          const float* const from = space.kernel + std::int64_t{filter} * channels + k;
          float* const to =
              diff_weights + std::int64_t{first + filter} * taps * taps * channels + k;
          transform<kKernelTransposed<taps>>(
              [&](std::size_t i) {
                return load(from + static_cast<std::int64_t>(i) * space.kernel_plane);
              },
              [&](std::size_t i, Lanes values) {
                float* const sum = to + static_cast<std::int64_t>(i) * channels;
                store(sum, load(sum) + values);
              });
        }
    });
  });
}

// Where a group begins in its tensors.
struct Offsets {
  std::int64_t src, weights, dst;
};

// use(its number, where it begins) for every group, with the number of taps as a constant.
template <class Use>
void for_each_group(const ConvShape& s, Use use) {
  for (int group = 0; group < s.groups; ++group) {
    const Offsets at{std::int64_t{group} * s.group_c(),
                     std::int64_t{group} * s.group_filters() * s.taps(),
                     std::int64_t{group} * s.group_filters()};
    if (s.kernel_h == 3)
      use(std::integral_constant<int, 3>(), group, at);
    else
      use(std::integral_constant<int, 5>(), group, at);
  }
}

}  // namespace

bool supports(const ConvShape& s) {
  return s.kernel_h == s.kernel_w && (s.kernel_h == 3 || s.kernel_h == 5) && s.stride_h == 1 &&
         s.stride_w == 1 && s.dilation_h == 1 && s.dilation_w == 1 && s.pad_h < s.kernel_h &&
         s.pad_w < s.kernel_w && s.group_c() % kLanes == 0 && s.group_filters() % kLanes == 0;
}

void forward(const ConvShape& shape, Gemm product, const float* src, const float* weights,
             const float* bias, Activation activation, float* dst, DeviceContext& context) {
  const Grid grid = grid_of(shape);
  const auto first_pixel = [&](int row) {  // of a row of tiles
    return (std::int64_t{row / grid.down()} * grid.out.h + row % grid.down() * grid.tile) *
           grid.out.w;
  };
  for_each_group(shape, [&](auto taps, int group, Offsets at) {
    convolve<taps>(grid, product, Direction::forward, src + at.src, weights + at.weights, false,
                   dst + at.dst, context, [&](Block block) {
                     if (group + 1 < shape.groups) return;
                     const std::int64_t first = first_pixel(block.first);
                     add_bias_and_activate(first_pixel(block.first + block.rows) - first,
                                           shape.filters, bias, activation,
                                           dst + first * shape.filters);
                   });
  });
}

void backward_data(const ConvShape& shape, Gemm product, const float* diff_dst,
                   const float* weights, bool adds, float* diff_src, DeviceContext& context) {
  for_each_group(shape, [&](auto taps, int, Offsets at) {
    convolve<taps>(turned(grid_of(shape)), product, Direction::backward, diff_dst + at.dst,
                   weights + at.weights, adds, diff_src + at.src, context, [](Block) {});
  });
}

void backward_weights(const ConvShape& shape, Gemm product, const float* src, const float* diff_dst,
                      float* diff_weights, DeviceContext& context) {
  for_each_group(shape, [&](auto taps, int, Offsets at) {
    add_kernel_gradients<taps>(grid_of(shape), product, src + at.src, diff_dst + at.dst,
                               diff_weights + at.weights, context);
  });
}

}  // namespace omni::winograd
