#include "codelets/spatial/pooling.hpp"

#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

struct Window {
  int kernel = 1, stride = 1, padding = 0;  // padding: total of both sides
};

PoolShape pool_of(int n, int h, int w, int c, Window window) {
  const auto out = [&](int size) {
    return (size + window.padding - window.kernel) / window.stride + 1;
  };
  return {.n = n,
          .h = h,
          .w = w,
          .c = c,
          .kernel_h = window.kernel,
          .kernel_w = window.kernel,
          .stride_h = window.stride,
          .stride_w = window.stride,
          .offset_h = window.padding / 2,
          .offset_w = window.padding / 2,
          .out_h = out(h),
          .out_w = out(w)};
}

std::size_t src_count(const PoolShape& shape) {
  return static_cast<std::size_t>(shape.n * shape.h * shape.w * shape.c);
}
std::size_t dst_count(const PoolShape& shape) {
  return static_cast<std::size_t>(shape.n * shape.out_h * shape.out_w * shape.c);
}

// Returns the shape of Caffe's pooling, whose last window may reach beyond the padding. The padding
// counts in averages.
PoolShape caffe_pool(int n, int h, int w, int c, Window window) {
  PoolShape shape = pool_of(n, h, w, c, window);
  shape.counts_padding = true;
  const auto out = [&](int size) {
    const int room = size + window.padding - window.kernel;
    const int last = (room + window.stride - 1) / window.stride;
    return last * window.stride - window.padding / 2 < size ? last + 1 : last;
  };
  shape.out_h = out(h);
  shape.out_w = out(w);
  return shape;
}

const PoolShape kOblong{.n = 2,
                        .h = 6,
                        .w = 9,
                        .c = 5,
                        .kernel_h = 3,
                        .kernel_w = 2,
                        .stride_h = 1,
                        .stride_w = 3,
                        .offset_h = 1,
                        .offset_w = 0,
                        .out_h = 6,
                        .out_w = 3};

const PoolShape kMostOfAByte{
    .n = 1, .h = 16, .w = 18, .c = 20, .kernel_h = 15, .kernel_w = 17, .out_h = 2, .out_w = 2};

const std::vector<Case<PoolShape>> kPoolingCases{
    {"3/2 as in AlexNet", pool_of(2, 13, 13, 96, {3, 2, 0})},
    {"2/2 as in VGG", pool_of(1, 8, 8, 64, {2, 2, 0})},
    {"one cell", pool_of(1, 1, 1, 1, {1, 1, 0})},
    {"padding size-1, odd image", pool_of(3, 7, 5, 13, {3, 2, 2})},
    {"odd padding: more at the end", pool_of(2, 7, 9, 20, {2, 2, 1})},
    {"2/2, the first cells in the padding", pool_of(2, 8, 5, 24, {2, 2, 3})},
    {"2/2, the last cells under no window", pool_of(1, 9, 7, 12, {2, 2, 0})},
    {"2/2, windows in the padding", pool_of(2, 3, 4, 8, {2, 2, 6})},
    {"3/2, the last cells under no window", pool_of(2, 8, 6, 40, {3, 2, 0})},
    {"3/2, padding on one side", pool_of(3, 6, 8, 20, {3, 2, 1})},
    {"3/2, window > image", pool_of(2, 1, 2, 8, {3, 2, 2})},
    {"3/2, windows in the padding", pool_of(2, 4, 3, 16, {3, 2, 9})},
    {"stride 1", pool_of(1, 5, 5, 3, {3, 1, 2})},
    {"stride > kernel", pool_of(2, 11, 8, 17, {2, 3, 0})},
    {"window > image", pool_of(2, 2, 3, 6, {5, 1, 4})},
    {"window > image, one output", pool_of(1, 2, 2, 4, {6, 4, 5})},
    {"all widths of vectors", pool_of(1, 4, 4, 64 + 32 + 4 + 3, {2, 1, 0})},
    {"oblong", kOblong},
    {"3/2 beyond the edge", caffe_pool(2, 8, 6, 20, {3, 2, 0})},
    {"3/2 beyond the padding", caffe_pool(2, 7, 8, 9, {3, 2, 2})},
    {"5/3 beyond the padding", caffe_pool(1, 9, 11, 17, {5, 3, 4})},
    {"2/2 on fewer cells", caffe_pool(2, 1, 3, 12, {2, 2, 0})},
    {"global", pool_of(2, 7, 7, 40, {7, 1, 0})},
    {"as many cells as a byte tells apart from none", kMostOfAByte},
    {"one more", pool_of(2, 20, 19, 24, {16, 2, 1})},
    {"windows in the padding", pool_of(2, 3, 3, 5, {2, 1, 6})},
    {"larger than the cache", pool_of(1, 150, 150, 96, {3, 2, 2})},
};

// Returns random numbers of cells in a window, also of cells in the padding, which have no effect.
// Of indices of two bytes, one byte is 0.
Operand random_index(const PoolShape& shape) {
  const auto cells = static_cast<std::uint32_t>(shape.kernel_h * shape.kernel_w);
  const bool pairs = with_pool_index(shape, [](auto index) { return sizeof index; }) > 1;
  return input(
      pool_index_bytes(shape),
      [most = std::min(cells, 256u), pairs, high = true](Draws& draws) mutable {
        high = pairs && !high;
        return high ? 0.0f : static_cast<float>(draws.below(most));
      },
      DataType::u8);
}

Operation<PoolShape> max_forward_operation(Fill fill) {
  return {.operands = [fill](const PoolShape& shape) -> std::vector<Operand> {
            return {input(src_count(shape), fill), output(dst_count(shape)),
                    output(pool_index_bytes(shape), DataType::u8)};
          },
          .reference =
              [](const PoolShape& shape, const Buffers& buffers) {
                with_pool_index(shape, [&]<class Index>(Index) {
                  reference::max_pool_forward(shape, buffers.get<double>(0), buffers.get<double>(1),
                                              buffers.get<Index>(2));
                });
              },
          .tolerance = 0};
}

TEST(MaxPool, implementations_agree) {
  check_implementations(max_pool_forward, kPoolingCases, max_forward_operation(uniform(-1, 1)));
  check_implementations(
      max_pool_backward, kPoolingCases,
      {.operands = [](const PoolShape& shape) -> std::vector<Operand> {
         return {input(dst_count(shape)), random_index(shape), output(src_count(shape))};
       },
       .reference =
           [](const PoolShape& shape, const Buffers& buffers) {
             with_pool_index(shape, [&]<class Index>(Index) {
               reference::max_pool_backward(shape, buffers.get<double>(0), buffers.get<Index>(1),
                                            buffers.get<double>(2));
             });
           }});
}

std::vector<Case<PoolShape>> after_relu(std::vector<Case<PoolShape>> cases) {
  for (Case<PoolShape>& each : cases) each.args.after_relu = true;
  return cases;
}

TEST(MaxPool, after_relu_no_cell_wins_where_nothing_is_positive) {
  // Most values are negative, so that many windows have no positive value.
  check_implementations(max_pool_forward, after_relu(kPoolingCases),
                        max_forward_operation(uniform(-1, 0.1f)));
  PoolShape shape = pool_of(1, 1, 4, 1, {2, 2, 0});
  shape.h = shape.kernel_h = shape.out_h = 1;
  shape.out_w = 2;
  for (const bool fused : {false, true}) {
    shape.after_relu = fused;
    std::vector<double> src{0, 0, 0, 3}, dst(2);
    std::vector<std::uint8_t> index(2);
    reference::max_pool_forward(shape, src.data(), dst.data(), index.data());
    EXPECT_EQ(index,
              (std::vector<std::uint8_t>{fused ? kNoCell<std::uint8_t> : std::uint8_t{0}, 1}));
  }
}

TEST(MaxPool, the_first_of_equal_values_wins) {
  check_implementations(max_pool_forward, kPoolingCases, max_forward_operation(below(3)));
  const PoolShape shape = pool_of(1, 3, 3, 1, {3, 1, 2});
  for (const auto& implementation : implementations_here(max_pool_forward)) {
    std::vector<float> src(9, 2.0f), dst(9);
    std::vector<std::uint8_t> index(9);
    run_on_values(implementation, shape, src, dst, index);
    EXPECT_EQ(index, (std::vector<std::uint8_t>{4, 3, 3, 1, 0, 0, 1, 0, 0})) << implementation.name;
  }
}

TEST(MaxPool, negative_values_beat_the_padding) {
  const PoolShape shape = pool_of(1, 2, 2, 1, {3, 2, 2});
  for (const auto& implementation : implementations_here(max_pool_forward)) {
    std::vector<float> src{-4, -3, -2, -INFINITY}, dst(1);
    std::vector<std::uint8_t> index(1);
    run_on_values(implementation, shape, src, dst, index);
    EXPECT_EQ(dst[0], -2);
    EXPECT_EQ(index[0], 7) << "cell (2, 1) of the window, which starts at (-1, -1)";
  }
}

TEST(MaxPool, a_window_of_nan_is_nan) {
  const PoolShape shape = pool_of(1, 2, 2, 1, {2, 2, 0});
  for (const auto& implementation : implementations_here(max_pool_forward)) {
    std::vector<float> src(4, NAN), dst(1);
    std::vector<std::uint8_t> index(1);
    run_on_values(implementation, shape, src, dst, index);
    EXPECT_TRUE(std::isnan(dst[0])) << implementation.name;
  }
}

TEST(MaxPool, a_nan_wins_only_as_the_first_cell) {
  constexpr int kChannels = 16;  // in every other channel, NaN is the first value
  const PoolShape shape = pool_of(1, 2, 2, kChannels, {3, 2, 2});
  for (const auto& implementation : implementations_here(max_pool_forward)) {
    std::vector<float> src, dst(kChannels);
    for (int at = 0; at < 4 * kChannels; ++at) {
      const int cell = at / kChannels;
      src.push_back(cell == at % 2 ? NAN : static_cast<float>(cell));
    }
    std::vector<std::uint8_t> index(kChannels);
    run_on_values(implementation, shape, src, dst, index);
    for (std::size_t k = 0; k < kChannels; ++k) {
      EXPECT_EQ(std::isnan(dst[k]), k % 2 == 0) << implementation.name;
      EXPECT_EQ(index[k], k % 2 == 0 ? 4 : 8) << implementation.name;
    }
  }
}

TEST(MaxPool, windows_in_the_padding_give_zero_and_no_gradient) {
  const PoolShape shape = pool_of(1, 1, 1, 1, {1, 1, 2});  // 3x3 outputs around one cell
  const auto forward = implementations_here(max_pool_forward),
             backward = implementations_here(max_pool_backward);
  for (std::size_t at = 0; at < forward.size(); ++at) {
    std::vector<float> src{-5}, dst(9), diff_dst(9, 1.0f), diff_src(1);
    std::vector<std::uint8_t> index(9);
    run_on_values(forward[at], shape, src, dst, index);
    run_on_values(backward[at], shape, diff_dst, index, diff_src);
    EXPECT_EQ(dst, (std::vector<float>{0, 0, 0, 0, -5, 0, 0, 0, 0}));
    EXPECT_EQ(diff_src[0], 1);
  }
}

TEST(MaxPool, gradient) {
  for (const Case<PoolShape>& each : kPoolingCases) {
    const PoolShape& shape = each.args;
    const std::size_t count = src_count(shape);
    if (count > 40000) continue;
    SCOPED_TRACE(each.what);
    // All values differ by more than the step of the numeric gradient, so a step does not change
    // the maximum of a window.
    std::vector<double> src(count);
    for (std::size_t i = 0; i < count; ++i)
      src[i] = 1e-3 * static_cast<double>(i * 7919 % count) - 3;
    const std::vector<double> diff_dst = random_values(dst_count(shape), 2);
    std::vector<double> dst(diff_dst.size()), diff_src(count);
    with_pool_index(shape, [&]<class Index>(Index) {
      std::vector<Index> index(diff_dst.size());
      const auto loss = [&] {
        reference::max_pool_forward(shape, src.data(), dst.data(), index.data());
        return dot(dst, diff_dst);
      };
      loss();
      reference::max_pool_backward(shape, diff_dst.data(), index.data(), diff_src.data());
      check_gradient("src", src, diff_src, loss);
    });
  }
}

TEST(AveragePool, implementations_agree) {
  const auto cells = [](const PoolShape& shape) {
    return static_cast<double>(shape.kernel_h) * shape.kernel_w;
  };
  check_implementations(average_pool_forward, kPoolingCases,
                        {.operands = [](const PoolShape& shape) -> std::vector<Operand> {
                           return {input(src_count(shape)), output(dst_count(shape))};
                         },
                         .reference =
                             [](const PoolShape& shape, const Buffers& buffers) {
                               reference::average_pool_forward(shape, buffers.get<double>(0),
                                                               buffers.get<double>(1));
                             },
                         .terms = cells});
  check_implementations(average_pool_backward, kPoolingCases,
                        {.operands = [](const PoolShape& shape) -> std::vector<Operand> {
                           return {input(dst_count(shape)), output(src_count(shape))};
                         },
                         .reference =
                             [](const PoolShape& shape, const Buffers& buffers) {
                               reference::average_pool_backward(shape, buffers.get<double>(0),
                                                                buffers.get<double>(1));
                             },
                         .terms = cells});
}

TEST(AveragePool, gradient) {
  for (const Case<PoolShape>& each : kPoolingCases) {
    const PoolShape& shape = each.args;
    if (src_count(shape) > 40000) continue;
    SCOPED_TRACE(each.what);
    std::vector<double> src = random_values(src_count(shape), 1), diff_src(src.size());
    const std::vector<double> diff_dst = random_values(dst_count(shape), 2);
    std::vector<double> dst(diff_dst.size());
    reference::average_pool_backward(shape, diff_dst.data(), diff_src.data());
    check_gradient("src", src, diff_src, [&] {
      reference::average_pool_forward(shape, src.data(), dst.data());
      return dot(dst, diff_dst);
    });
  }
}

TEST(AveragePool, divides_by_the_cells_inside) {
  const std::vector<double> src{1, 2, 3, 6};
  std::vector<double> dst(1);
  reference::average_pool_forward(pool_of(1, 2, 2, 1, {2, 2, 0}), src.data(), dst.data());
  EXPECT_EQ(dst[0], 3);
  reference::average_pool_forward(pool_of(1, 2, 2, 1, {3, 2, 2}), src.data(), dst.data());
  EXPECT_EQ(dst[0], 3) << "four cells inside, five in the padding";
  PoolShape padded = pool_of(1, 2, 2, 1, {3, 2, 2});
  padded.counts_padding = true;
  reference::average_pool_forward(padded, src.data(), dst.data());
  EXPECT_NEAR(dst[0], 12.0 / 9, 1e-12) << "and Caffe's counts them";
  dst.resize(4);
  padded.out_h = padded.out_w = 2;
  reference::average_pool_forward(padded, src.data(), dst.data());
  EXPECT_NEAR(dst[3], 6.0 / 4, 1e-12) << "but not what is beyond the padding";
  dst.resize(9);
  reference::average_pool_forward(pool_of(1, 2, 2, 1, {2, 1, 2}), src.data(), dst.data());
  EXPECT_EQ(dst, (std::vector<double>{1, 1.5, 2, 2, 3, 4, 3, 4.5, 6}));
}

}  // namespace
}  // namespace omni::gradcheck
