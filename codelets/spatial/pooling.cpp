#include "codelets/spatial/pooling.hpp"

#include "codelets/spatial/channel_chunks.hpp"
#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

std::int64_t pixel_at(int image, int row, int column, int h, int w) {
  return (std::int64_t{image} * h + row) * w + column;
}

// Prefetches the cells that the window below has in addition to this window's. The hardware does
// not predict the jump to the next rows. Without the prefetch, a slice that exceeds the cache takes
// twice as long. The function is always inlined, because GCC drops calls of functions that only
// prefetch.
template <class T>
[[gnu::always_inline]] inline void prefetch_below(const PoolShape& shape, const T* src, int image,
                                                  const PoolSpan& rows, const PoolSpan& columns) {
  constexpr int kCacheLine = 64 / sizeof(T);
  const int last = std::min(rows.last + shape.stride_h, shape.h);
  const int width = std::min(shape.stride_w, columns.count()) * shape.c;
  for (int row = rows.last; row < last; ++row) {
    const T* below = src + pixel_at(image, row, columns.first, shape.h, shape.w) * shape.c;
    for (int i = 0; i < width; i += kCacheLine) __builtin_prefetch(below + i, 0, 2);
  }
}

// Returns whether the kernel should prefetch. A slice that fits the cache is still there from the
// layer before.
template <class T>
bool outgrows_cache(const PoolShape& shape) {
  constexpr std::int64_t kCached = (8 << 20) / sizeof(T);
  return std::int64_t{shape.n} * shape.h * shape.w * shape.c > kCached;
}

// Calls a kernel with the types of the values and of the indices.
template <auto kernel>
void by_values_and_cells(const PoolShape& shape, const Buffers& buffers, DeviceContext& context) {
  with_values(buffers, [&](auto value) {
    with_pool_index(shape, [&](auto cell) { kernel(value, cell, shape, buffers, context); });
  });
}

constexpr auto max_forward = []<class T, class Index>(T, Index, const PoolShape& shape,
                                                      const Buffers& buffers, DeviceContext&) {
  const T* src = buffers.get<T>(0);
  T* dst = buffers.get<T>(1);
  auto* index = buffers.get<Index>(2);
  for_each_window(shape, [&, c = shape.c, prefetch = outgrows_cache<T>(shape)](
                             int image, std::int64_t pixel, PoolSpan rows, PoolSpan columns) {
    if (rows.count() * columns.count() == 0) {
      std::fill_n(dst + pixel * c, c, 0.0f);
      std::fill_n(index + pixel * c, c, kNoCell<Index>);
      return;
    }
    if (prefetch) prefetch_below(shape, src, image, rows, columns);
    const T* corner = src + pixel_at(image, rows.first, columns.first, shape.h, shape.w) * c;
    const int first_cell =
        (rows.first - rows.start) * shape.kernel_w + columns.first - columns.start;
    for_each_chunk(c, [&](auto lanes, auto packs, int k) {
      typename Pack<float, lanes>::Type best[packs] = {};
      typename Pack<std::int32_t, lanes>::Type cell[packs] = {};
      for (int p = 0; p < packs; ++p) {
        best[p] = load_floats<lanes>(corner + k + p * lanes);
        cell[p] += first_cell;
      }
      for (int row = 0; row < rows.count(); ++row)
        for (int column = 0; column < columns.count(); ++column) {
          const T* x = corner + (std::int64_t{row} * shape.w + column) * c + k;
          const auto here = typename Pack<std::int32_t, lanes>::Type{} +
                            (first_cell + row * shape.kernel_w + column);
          for (int p = 0; p < packs; ++p) {
            const auto value = load_floats<lanes>(x + p * lanes);
            const auto wins = value > best[p];
            best[p] = wins ? value : best[p];
            cell[p] = wins ? here : cell[p];
          }
        }
      for (int p = 0; p < packs; ++p) {
        if (shape.after_relu) {
          const auto none = typename Pack<std::int32_t, lanes>::Type{} + kNoCell<Index>;
          cell[p] = best[p] > 0.0f ? cell[p] : none;
        }
        store_floats<lanes>(dst + pixel * c + k + p * lanes, best[p]);
        store_pack(index + pixel * c + k + p * lanes,
                   __builtin_convertvector(cell[p], typename Pack<Index, lanes>::Type));
      }
    });
  });
};

constexpr auto average_forward = []<class T>(T, const PoolShape& shape, const Buffers& buffers,
                                             DeviceContext&) {
  const T* src = buffers.get<T>(0);
  T* dst = buffers.get<T>(1);
  for_each_window(shape, [&, c = shape.c, prefetch = outgrows_cache<T>(shape)](
                             int image, std::int64_t pixel, PoolSpan rows, PoolSpan columns) {
    if (prefetch) prefetch_below(shape, src, image, rows, columns);
    const T* corner = src + pixel_at(image, rows.first, columns.first, shape.h, shape.w) * c;
    const float share = 1.0f / static_cast<float>(averaged_cells(shape, rows, columns));
    for_each_chunk(c, [&](auto lanes, auto packs, int k) {
      typename Pack<float, lanes>::Type sum[packs] = {};
      for (int row = 0; row < rows.count(); ++row)
        for (int column = 0; column < columns.count(); ++column) {
          const T* x = corner + (std::int64_t{row} * shape.w + column) * c + k;
          for (int p = 0; p < packs; ++p) sum[p] += load_floats<lanes>(x + p * lanes);
        }
      for (int p = 0; p < packs; ++p)
        store_floats<lanes>(dst + pixel * c + k + p * lanes, sum[p] * share);
    });
  });
};

// SummedImages is the memory in which windows are added up. Floats are added in the tensor itself.
// For bf16 one image at a time is added in separate memory, and each row is rounded once.
template <class T>
class SummedImages {
 public:
  SummedImages(const PoolShape& shape, T* tensor, DeviceContext& context)
      : shape_(shape), pitch_(std::int64_t{shape.w} * shape.c), tensor_(tensor) {
    if constexpr (!kInPlace) sums_ = context.scratch(floats(shape));
  }
  static std::size_t floats(const PoolShape& shape) {
    return kInPlace ? 0 : static_cast<std::size_t>(shape.h) * shape.w * shape.c;
  }

  void begin(int image) {
    image_ = tensor_ + image * shape_.h * pitch_;
    if constexpr (kInPlace) sums_ = image_;
    cleared_ = finished_ = 0;
  }
  // Clears rows just before they are used. Finishes rows that are complete while they are still in
  // the cache.
  void clear_up_to(int rows) {
    if (rows <= cleared_) return;
    std::fill(sums_ + cleared_ * pitch_, sums_ + rows * pitch_, 0.0f);
    cleared_ = rows;
  }
  void finish_up_to(int rows) {
    if (kInPlace || rows <= finished_) return;
    std::copy(sums_ + finished_ * pitch_, sums_ + rows * pitch_, image_ + finished_ * pitch_);
    finished_ = rows;
  }
  float* pixel(int row, int column) const {
    return sums_ + row * pitch_ + std::int64_t{column} * shape_.c;
  }

 private:
  static constexpr bool kInPlace = std::is_same_v<T, float>;
  const PoolShape& shape_;
  std::int64_t pitch_;
  T *tensor_, *image_ = nullptr;
  float* sums_ = nullptr;
  int cleared_ = 0, finished_ = 0;
};

// Calls add(index of the output's pixel, rows, columns, first cell of the window) for every window.
template <class T, class Add>
void scatter_windows(const PoolShape& shape, SummedImages<T> images, Add add) {
  int current = -1;
  const auto finish = [&] {
    if (current < 0) return;
    images.clear_up_to(shape.h);
    images.finish_up_to(shape.h);
  };
  for_each_window(shape, [&](int image, std::int64_t pixel, PoolSpan rows, PoolSpan columns) {
    if (image != current) {
      finish();
      images.begin(current = image);
    }
    images.clear_up_to(std::min(rows.last, shape.h));
    images.finish_up_to(std::min(rows.first, shape.h));
    add(pixel, rows, columns, images.pixel(rows.first, columns.first));
  });
  finish();
}

constexpr auto max_backward = []<class T, class Index>(T, Index, const PoolShape& shape,
                                                       const Buffers& buffers,
                                                       DeviceContext& context) {
  const T* diff_dst = buffers.get<T>(0);
  const auto* index = buffers.get<Index>(1);
  scatter_windows(
      shape, SummedImages(shape, buffers.get<T>(2), context),
      [&, c = shape.c](std::int64_t pixel, PoolSpan rows, PoolSpan columns, float* corner) {
        const int first_cell =
            (rows.first - rows.start) * shape.kernel_w + columns.first - columns.start;
        for_each_chunk(c, [&](auto lanes, auto packs, int k) {
          typename Pack<float, lanes>::Type diff[packs];
          typename Pack<std::int32_t, lanes>::Type winner[packs];
          for (int p = 0; p < packs; ++p) {
            diff[p] = load_floats<lanes>(diff_dst + pixel * c + k + p * lanes);
            winner[p] = __builtin_convertvector(
                (load_pack<Index, lanes>(index + pixel * c + k + p * lanes)),
                typename Pack<std::int32_t, lanes>::Type);
          }
          for (int row = 0; row < rows.count(); ++row)
            for (int column = 0; column < columns.count(); ++column) {
              float* x = corner + (std::int64_t{row} * shape.w + column) * c + k;
              const int here = first_cell + row * shape.kernel_w + column;
              for (int p = 0; p < packs; ++p) {
                const auto before = load_pack<float, lanes>(x + p * lanes);
                store_pack(x + p * lanes, winner[p] == here ? before + diff[p] : before);
              }
            }
        });
      });
};

constexpr auto average_backward = []<class T>(T, const PoolShape& shape, const Buffers& buffers,
                                              DeviceContext& context) {
  const T* diff_dst = buffers.get<T>(0);
  scatter_windows(
      shape, SummedImages(shape, buffers.get<T>(1), context),
      [&, c = shape.c](std::int64_t pixel, PoolSpan rows, PoolSpan columns, float* corner) {
        const float share = 1.0f / static_cast<float>(averaged_cells(shape, rows, columns));
        for_each_chunk(c, [&](auto lanes, auto packs, int k) {
          typename Pack<float, lanes>::Type part[packs];
          for (int p = 0; p < packs; ++p)
            part[p] = load_floats<lanes>(diff_dst + pixel * c + k + p * lanes) * share;
          for (int row = 0; row < rows.count(); ++row)
            for (int column = 0; column < columns.count(); ++column) {
              float* x = corner + (std::int64_t{row} * shape.w + column) * c + k;
              for (int p = 0; p < packs; ++p)
                store_pack(x + p * lanes, load_pack<float, lanes>(x + p * lanes) + part[p]);
            }
        });
      });
};

WorkingFloats sums_floats(const PoolShape& shape, BufferSet in_bf16) {
  return {.scratch = in_bf16.empty() ? 0 : SummedImages<Bf16>::floats(shape)};
}

void max_forward_reference(const PoolShape& shape, const Buffers& buffers, DeviceContext&) {
  with_pool_index(shape, [&]<class Index>(Index) {
    reference::max_pool_forward(shape, buffers.get(0), buffers.get(1), buffers.get<Index>(2));
  });
}

void max_backward_reference(const PoolShape& shape, const Buffers& buffers, DeviceContext&) {
  with_pool_index(shape, [&]<class Index>(Index) {
    reference::max_pool_backward(shape, buffers.get(0), buffers.get<Index>(1), buffers.get(2));
  });
}

// Returns the cost: one operation per cell of a window, and every tensor once.
Cost pool_cost(const PoolShape& shape, double bytes_per_output) {
  const double images = static_cast<double>(shape.n) * shape.c;
  const double outputs = images * shape.out_h * shape.out_w;
  return {.flops = outputs * shape.kernel_h * shape.kernel_w,
          .bytes = images * shape.h * shape.w * sizeof(float) + outputs * bytes_per_output};
}

Cost max_cost(const PoolShape& shape) {
  const auto index = with_pool_index(shape, [](auto each) { return sizeof each; });
  return pool_cost(shape, static_cast<double>(sizeof(float) + index));
}

Cost average_cost(const PoolShape& shape) { return pool_cost(shape, sizeof(float)); }

std::uint64_t footprint(const PoolShape& shape) {
  return footprint_of(shape.n, shape.h, shape.w, shape.c, shape.kernel_h, shape.kernel_w,
                      shape.stride_h, shape.stride_w, shape.offset_h, shape.offset_w, shape.out_h,
                      shape.out_w);
}

constexpr std::uint32_t kPoolingColor = 0x6FB1A0;

}  // namespace

Codelet<PoolShape> max_pool_forward({
    .name = "max_pool_forward",
    .color = kPoolingColor,
    .implementations = {{.name = "vector",
                         .kernel = by_values_and_cells<max_forward>,
                         .in_bf16 = {0, 1}},
                        {"reference", max_forward_reference, nullptr, Role::reference},
                        OMNI_GPU_IMPLEMENTATION(gpu::max_pool_forward, 0, 1)},
    .cost = max_cost,
    .footprint = footprint,
});

Codelet<PoolShape> max_pool_backward({
    .name = "max_pool_backward",
    .color = kPoolingColor,
    .implementations = {{.name = "vector",
                         .kernel = by_values_and_cells<max_backward>,
                         .working = sums_floats,
                         .in_bf16 = {0, 2}},
                        {"reference", max_backward_reference, nullptr, Role::reference},
                        OMNI_GPU_IMPLEMENTATION(gpu::max_pool_backward, 0, 2)},
    .cost = max_cost,
    .footprint = footprint,
});

Codelet<PoolShape> average_pool_forward({
    .name = "average_pool_forward",
    .color = kPoolingColor,
    .implementations = OMNI_IMPLEMENTATIONS(average_pool_forward, by_values<average_forward>, 0, 1),
    .cost = average_cost,
    .footprint = footprint,
});

Codelet<PoolShape> average_pool_backward({
    .name = "average_pool_backward",
    .color = kPoolingColor,
    .implementations = {{.name = "vector",
                         .kernel = by_values<average_backward>,
                         .working = sums_floats,
                         .in_bf16 = {0, 1}},
                        OMNI_PLAIN_IMPLEMENTATIONS(average_pool_backward, 0, 1)},
    .cost = average_cost,
    .footprint = footprint,
});

}  // namespace omni
