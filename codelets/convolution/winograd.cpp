#include "codelets/convolution/winograd.hpp"

#include <compare>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "codelets/convolution/winograd_folded.hpp"
#include "codelets/convolution/winograd_tiles.hpp"
#include "codelets/convolution/winograd_transforms.hpp"
#include "codelets/dense/onednn_support.hpp"
#include "codelets/elementwise/channel_bias.hpp"

namespace omni::winograd {
namespace {

// The following code cuts a slice into tiles.

// A Grid is a convolution together with the places of its pixels in memory.
struct Grid : Convolved {
  explicit Grid(const Convolved& what)
      : Convolved(what),
        mosaic(mosaic_of(what)),
        in_pixels(what, mosaic, in, pad_h, pad_w),
        out_pixels(what, mosaic, out, 0, 0) {}

  Mosaic mosaic;
  PixelMap in_pixels, out_pixels;
};

Convolved forward_of(const ConvShape& s, int tile_in) {
  return {s.n,
          {s.h, s.w, s.group_c(), s.c},
          {s.out_h(), s.out_w(), s.group_filters(), s.filters},
          s.pad_h,
          s.pad_w,
          tile_in,
          outputs(tile_in, s.kernel_h)};
}

Convolved turned(const Convolved& what) {
  const int reach = what.tile_in - what.tile;  // taps - 1
  return {what.n,       what.out, what.in, reach - what.pad_h, reach - what.pad_w,
          what.tile_in, what.tile};
}

// Calls visit(number of the tile in the block, its row, its column) for every tile.
template <class Visit>
void for_each_tile(const Grid& grid, Block block, Visit visit) {
  int tile = 0;
  for (int row = block.first; row < block.first + block.rows; ++row)
    for (int column = 0; column < grid.mosaic.columns; ++column, ++tile) visit(tile, row, column);
}

// Returns the place of a value in plane number `plane`. `step` is the distance of two planes.
template <class T>
T* in_plane(T* first, std::size_t plane, std::int64_t step) {
  return first + static_cast<std::int64_t>(plane) * step;
}

// Transforms the inputs of a block's tiles. The pixels of a tile lie in many places, and waiting
// for memory would take most of the time. So the next tile's pixels are prefetched.
template <int in, class Space>
void transform_inputs(const Grid& grid, const Space& space, Block block, const float* src) {
  const float* const zeros = space.zeros;
  for_each_tile(grid, block, [&](int tile, int row, int column) {
    const auto at = grid.in_pixels.tile_at<in>(src, row, column, zeros);
    const auto next = grid.in_pixels.tile_at<in>(src, row, column + 1, zeros);
    auto* const to = space.in + std::int64_t{tile} * grid.in.c;
    for (int k = 0; k < grid.in.c; k += kLanes) {
      for (const float* each : next) __builtin_prefetch(each + k);
      transform<kInput<in>>(
          [&](std::size_t i) { return load(at[i] + k); },
          [&](std::size_t i, Lanes values) { store(in_plane(to + k, i, space.in_plane), values); });
    }
  });
}

// Calls visit(planes, at, k) for every tile and vector of a panel of `count` channels. k is the
// first channel of the vector, `planes` points to it in the first plane. `at` points to the panel's
// first channel in each pixel. After a tile's last vector, calls finish(at).
template <class Tile, class Space, class T, class Visit, class Finish>
void for_each_output(const Grid& grid, const Space& space, Block block, int count, T* panel,
                     T* outside, Visit visit, Finish finish) {
  for_each_tile(grid, block, [&](int tile, int row, int column) {
    const auto at = grid.out_pixels.tile_at<Tile::outputs>(panel, row, column, outside);
    const auto next = grid.out_pixels.tile_at<Tile::outputs>(panel, row, column + 1, outside);
    auto* const planes = space.out + std::int64_t{tile} * count;
    for (int k = 0; k < count; k += kLanes) {
      for (T* each : next) __builtin_prefetch(each + k, std::is_const_v<T> ? 0 : 1);
      visit(planes + k, at, k);
    }
    finish(at);
  });
}

// In each plane multiply() computes result (m x n) = or += a (m x k) * b (k x n), of dense rows.

struct ProductsArgs {
  int planes, m, n, k;
  std::int64_t a_plane, b_plane, result_plane;  // values from plane to plane
  bool a_transposed = false;
  bool adds = false;

  auto operator<=>(const ProductsArgs&) const = default;
};

void multiply(const ProductsArgs& args, Gemm product, const float* a, const float* b, float* result,
              DeviceContext&) {
  const int stride = args.a_transposed ? args.m : args.k;
  for (int i = 0; i < args.planes; ++i)
    product(args.m, args.n, args.k, {a + i * args.a_plane, stride, args.a_transposed},
            {b + i * args.b_plane, args.n}, args.adds ? 1.0f : 0.0f, result + i * args.result_plane,
            args.n);
}

#ifdef OMNI_ONEDNN
class ProductsPlan {
 public:
  ProductsPlan(const dnnl::engine& engine, const ProductsArgs& args) {
    constexpr auto kBf16 = dnnl::memory::data_type::bf16, kFloat = dnnl::memory::data_type::f32;
    const dnnl::memory::dims a_strides = args.a_transposed
                                             ? dnnl::memory::dims{args.a_plane, 1, args.m}
                                             : dnnl::memory::dims{args.a_plane, args.k, 1};
    a_ = {{args.planes, args.m, args.k}, kBf16, a_strides};
    b_ = {{args.planes, args.k, args.n}, kBf16, dnnl::memory::dims{args.b_plane, args.n, 1}};
    result_ = {
        {args.planes, args.m, args.n}, kFloat, dnnl::memory::dims{args.result_plane, args.n, 1}};
    // oneDNN allocates its own working memory, as the planes fill the context's scratch memory.
    dnnl::primitive_attr attributes;
    if (args.adds) onednn::append_sum(attributes);
    matmul_ = dnnl::matmul({{a_, b_, result_}, attributes, engine});
  }

  void run(const onednn::Engine& worker, const Bf16* a, const Bf16* b, float* result) const {
    const auto& [engine, stream] = worker;
    matmul_.execute(stream, {{DNNL_ARG_SRC, onednn::view(a_, engine, a)},
                             {DNNL_ARG_WEIGHTS, onednn::view(b_, engine, b)},
                             {DNNL_ARG_DST, onednn::view(result_, engine, result)}});
  }

 private:
  dnnl::memory::desc a_, b_, result_;
  dnnl::matmul matmul_;
};

void multiply(const ProductsArgs& args, Gemm, const Bf16* a, const Bf16* b, float* result,
              DeviceContext& context) {
  onednn::plan_for<ProductsPlan>(args, context).run(context.local<onednn::Engine>(), a, b, result);
}
#else
void multiply(const ProductsArgs&, Gemm, const Bf16*, const Bf16*, float*, DeviceContext&) {
  throw std::logic_error("products of bf16 need oneDNN");
}
#endif

// The following functions compute the three passes.

enum class Direction { forward, backward };

// An Ending says how the sums of products become dst.
struct Ending {
  bool adds = false;  // true: the sums are added to the old values of dst
  const float* bias = nullptr;
  Activation activation = Activation::linear;
};

// Transforms the kernels of the output channels [first, first + count). In each plane the result
// has a row per input channel.
template <class Tile, class Space>
void transform_kernels(const Grid& grid, const Space& space, Direction direction, int first,
                       int count, const float* weights) {
  constexpr std::size_t kSize = Tile::taps * Tile::taps;
  const auto save = [&](int row, int column, std::size_t plane, Lanes values) {
    store(in_plane(space.kernel, plane, space.kernel_plane) + std::int64_t{row} * count + column,
          values);
  };
  if (direction == Direction::backward) {
    // The stored weights have a row per input channel; each kernel is rotated by 180 degrees.
    for (int row = 0; row < grid.in.c; ++row)
      for (int k = 0; k < count; k += kLanes) {
        const float* const from = weights + std::int64_t{row} * kSize * grid.out.c + first + k;
        transform<kKernel<Tile::in, Tile::taps>>(
            [&](std::size_t i) {
              return load(from + static_cast<std::int64_t>(kSize - 1 - i) * grid.out.c);
            },
            [&](std::size_t i, Lanes values) { save(row, k, i, values); });
      }
    return;
  }
  // The stored weights have a row per output channel; they are transposed in squares.
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
        transform<kKernel<Tile::in, Tile::taps>>(
            [&](std::size_t i) { return load(square[i][j]); },
            [&](std::size_t i, Lanes values) { save(row + j, k, i, values); });
    }
}

template <class Tile>
void convolve(const Grid& grid, const Method& method, Direction direction, const float* src,
              const float* weights, const Ending& ending, float* dst, DeviceContext& context) {
  using Value = typename Tile::Value;
  const Workspace<Value, float, Value> space(grid, grid.mosaic, method.scratch, context);
  if (space.one_panel()) transform_kernels<Tile>(grid, space, direction, 0, space.panel, weights);
  space.for_each_block([&](Block block) {
    const int tiles = block.rows * grid.mosaic.columns;
    transform_inputs<Tile::in>(grid, space, block, src);
    space.for_each_panel([&](int first, int count) {
      if (!space.one_panel())
        transform_kernels<Tile>(grid, space, direction, first, count, weights);
      multiply({.planes = grid.planes(),
                .m = tiles,
                .n = count,
                .k = grid.in.c,
                .a_plane = space.in_plane,
                .b_plane = space.kernel_plane,
                .result_plane = space.out_plane},
               method.product, space.in, space.kernel, space.out, context);
      for_each_output<Tile>(
          grid, space, block, count, dst + first, space.spare,
          [&](const float* planes, const auto& at, int k) {
            transform<kOutput<Tile::in, Tile::taps>>(
                [&](std::size_t i) { return load(in_plane(planes, i, space.out_plane)); },
                [&](std::size_t i, Lanes values) {
                  float* const to = at[i] + k;
                  store(to, ending.adds ? load(to) + values : values);
                });
          },
          [&](const auto& at) {
            if (ending.bias == nullptr && ending.activation == Activation::linear) return;
            for (float* pixel : at)
              add_bias_and_activate(1, count,
                                    ending.bias == nullptr ? nullptr : ending.bias + first,
                                    ending.activation, pixel);
          });
    });
  });
}

template <class Tile>
void add_kernel_gradients(const Grid& grid, const Method& method, const float* src,
                          const float* diff_dst, float* diff_weights, DeviceContext& context) {
  using Value = typename Tile::Value;
  const Workspace<Value, Value, float> space(grid, grid.mosaic, method.scratch, context);
  const int channels = grid.in.c;
  space.for_each_block([&](Block block) {
    const int tiles = block.rows * grid.mosaic.columns;
    transform_inputs<Tile::in>(grid, space, block, src);
    space.for_each_panel([&](int first, int count) {
      for_each_output<Tile>(
          grid, space, block, count, diff_dst + first, static_cast<const float*>(space.zeros),
          [&](Value* planes, const auto& at, int k) {
            transform<kOutputTransposed<Tile::in, Tile::taps>>(
                [&](std::size_t i) { return load(at[i] + k); },
                [&](std::size_t i, Lanes values) {
                  store(in_plane(planes, i, space.out_plane), values);
                });
          },
          [](const auto&) {});
      // With one panel, the sums of all blocks are kept and transformed once, at the end.
      multiply({.planes = grid.planes(),
                .m = count,
                .n = channels,
                .k = tiles,
                .a_plane = space.out_plane,
                .b_plane = space.in_plane,
                .result_plane = space.kernel_plane,
                .a_transposed = true,
                .adds = space.one_panel() && block.first > 0},
               method.product, space.out, space.in, space.kernel, context);
      if (space.one_panel() && block.first + block.rows < space.rows) return;
      for (int filter = 0; filter < count; ++filter)
        for (int k = 0; k < channels; k += kLanes) {
          const float* const from = space.kernel + std::int64_t{filter} * channels + k;
          float* const to =
              diff_weights + std::int64_t{first + filter} * Tile::taps * Tile::taps * channels + k;
          transform<kKernelTransposed<Tile::in, Tile::taps>>(
              [&](std::size_t i) { return load(in_plane(from, i, space.kernel_plane)); },
              [&](std::size_t i, Lanes values) {
                float* const sum = to + static_cast<std::int64_t>(i) * channels;
                store(sum, load(sum) + values);
              });
        }
    });
  });
}

// Offsets say where the tensors of a group of channels begin.
struct Offsets {
  std::int64_t src, weights, dst;
};

template <int in_, int taps_, class T>
struct Tile {
  static constexpr int in = in_, taps = taps_, outputs = winograd::outputs(in, taps);
  using Value = T;  // type of the factors
};

// Returns whether products are in bf16. Tiles of 8x8 amplify rounding errors too much for that.
bool multiplies_in_bf16(int tile_in) {
  return tile_in == 6 && in_bf16() && bf16_in_vain() == nullptr;
}

// Calls use(tile, offsets) for every group of channels.
void for_each_group(const ConvShape& s, int tile_in, auto use) {
  for (int group = 0; group < s.groups; ++group) {
    const Offsets at{std::int64_t{group} * s.group_c(),
                     std::int64_t{group} * s.group_filters() * s.taps(),
                     std::int64_t{group} * s.group_filters()};
    const auto use_tile = [&]<int taps>(std::integral_constant<int, taps>) {
      if (tile_in == 8)
        use(Tile<8, taps, float>(), at);
      else if (multiplies_in_bf16(tile_in))
        use(Tile<6, taps, Bf16>(), at);
      else
        use(Tile<6, taps, float>(), at);
    };
    switch (s.kernel_h) {
      case 3: use_tile(std::integral_constant<int, 3>()); break;
      case 4: use_tile(std::integral_constant<int, 4>()); break;
      default: use_tile(std::integral_constant<int, 5>());
    }
  }
}

}  // namespace

bool supports(const ConvShape& s) {
  return s.kernel_h == s.kernel_w && s.kernel_h >= 3 && s.kernel_h <= 5 && s.stride_h == 1 &&
         s.stride_w == 1 && s.dilation_h == 1 && s.dilation_w == 1 && s.pad_h < s.kernel_h &&
         s.pad_w < s.kernel_w && s.group_c() % kLanes == 0 && s.group_filters() % kLanes == 0;
}

bool suits(const ConvShape& shape, int tile_in) {
  return supports(shape) || folded::suits(shape, tile_in);
}

std::size_t scratch_floats(const ConvShape& shape, int tile_in, Pass pass) {
  if (!supports(shape)) return folded::scratch_floats(shape, tile_in, pass);
  const std::size_t value = multiplies_in_bf16(tile_in) ? sizeof(Bf16) : sizeof(float);
  const Convolved forward = forward_of(shape, tile_in);
  const Convolved what = pass == Pass::backward_data ? turned(forward) : forward;
  const ValueSizes sizes = pass == Pass::backward_weights
                               ? ValueSizes{.in = value, .out = value, .kernel = sizeof(float)}
                               : ValueSizes{.in = value, .out = sizeof(float), .kernel = value};
  return Blocking(what, mosaic_of(what), sizes).floats;
}

void run(const Method& method, const ConvForwardArgs& args, const Buffers& buffers,
         DeviceContext& context) {
  if (!supports(args.shape)) return folded::run(method, args, buffers, context);
  const float *const src = buffers.get(0), *const weights = buffers.get(1);
  const Grid grid(forward_of(args.shape, method.tile_in));
  for_each_group(args.shape, method.tile_in, [&](auto tile, Offsets at) {
    const Ending ending{.bias = args.has_bias ? buffers.get(3) + at.dst : nullptr,
                        .activation = args.activation};
    convolve<decltype(tile)>(grid, method, Direction::forward, src + at.src, weights + at.weights,
                             ending, buffers.get(2) + at.dst, context);
  });
}

void run(const Method& method, const ConvDataArgs& args, const Buffers& buffers,
         DeviceContext& context) {
  if (!supports(args.shape)) return folded::run(method, args, buffers, context);
  const float *const diff_dst = buffers.get(0), *const weights = buffers.get(1);
  const Grid grid(turned(forward_of(args.shape, method.tile_in)));
  for_each_group(args.shape, method.tile_in, [&](auto tile, Offsets at) {
    convolve<decltype(tile)>(grid, method, Direction::backward, diff_dst + at.dst,
                             weights + at.weights, {.adds = args.adds}, buffers.get(2) + at.src,
                             context);
  });
}

void run(const Method& method, const ConvWeightsArgs& args, const Buffers& buffers,
         DeviceContext& context) {
  const ConvShape& shape = args.shape;
  const float *const src = buffers.get(0), *const diff_dst = buffers.get(1);
  if (supports(shape)) {
    const Grid grid(forward_of(shape, method.tile_in));
    for_each_group(shape, method.tile_in, [&](auto tile, Offsets at) {
      add_kernel_gradients<decltype(tile)>(grid, method, src + at.src, diff_dst + at.dst,
                                           buffers.get(2) + at.weights, context);
    });
  } else {
    folded::run(method, args, buffers, context);
  }
  if (args.has_bias) add_column_sums(shape.pixels(), shape.filters, diff_dst, buffers.get(3));
}

}  // namespace omni::winograd
