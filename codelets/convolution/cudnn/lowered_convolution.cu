// On a GPU, this file computes the convolutions that cuDNN refuses, as matrix products of cuBLAS.
#include "codelets/convolution/convolution.hpp"

#include "codelets/cuda/lowering.cuh"
#include "codelets/cuda/matmul.hpp"
#include "codelets/cuda/rounded_factors.hpp"
#include "codelets/elementwise/channel_bias.hpp"

namespace omni {
namespace {

// A Piece is the lowered matrix of some images, or of a part of one image. It also has the offset
// of their pixels in dst. T is the type of the matrix.
template <class T>
struct Piece {
  gpu::Patches patches;
  T* columns;
  int pixels;
  std::int64_t first_value;
};

template <class T>
void for_each_piece(CudaWorker& worker, const ConvShape& s, auto use) {
  const int locations = s.out_h() * s.out_w();
  const std::int64_t most = gpu::most_patches(worker, s);
  const int images = static_cast<int>(std::clamp<std::int64_t>(most / locations, 1, s.n));
  const int of_an_image = static_cast<int>(std::min<std::int64_t>(most, locations));
  auto* columns =
      static_cast<T*>(worker.workspace(sizeof(T) * images * of_an_image * gpu::patch_values(s)));
  for (int image = 0; image < s.n; image += images)
    for (int first = 0; first < locations; first += of_an_image) {
      const gpu::Patches patches{image, std::min(images, s.n - image), first,
                                 std::min(of_an_image, locations - first)};
      use(Piece<T>{patches, columns, static_cast<int>(patches.count()),
                   (std::int64_t{image} * locations + first) * s.filters});
    }
}

}  // namespace

void gpu::conv_forward_lowered(const ConvForwardArgs& args, const Buffers& buffers,
                               DeviceContext&) {
  const ConvShape& s = args.shape;
  CudaWorker& worker = CudaWorker::current();
  with_factors([&]<class T>(T) {
    const T* const weights = as_factor<T>(worker, buffers.get(1), s.weights_count());
    for_each_piece<T>(worker, s, [&](const Piece<T>& piece) {
      im2col(worker, s, piece.patches, buffers.get(0), piece.columns);
      gemm<T>(worker, piece.pixels, s.group_filters(), s.taps(), {piece.columns, patch_values(s)},
              {weights, s.taps(), true}, 0.0f, buffers.get(2) + piece.first_value, s.filters,
              {s.groups, s.taps(), std::int64_t{s.group_filters()} * s.taps(), s.group_filters()});
    });
  });
  add_bias_and_activate(worker, s.pixels(), s.filters, args.has_bias ? buffers.get(3) : nullptr,
                        args.activation, buffers.get(2));
}

void gpu::conv_backward_weights_lowered(const ConvWeightsArgs& args, const Buffers& buffers,
                                        DeviceContext&) {
  const ConvShape& s = args.shape;
  CudaWorker& worker = CudaWorker::current();
  with_factors([&]<class T>(T) {
    const T* const diff_dst = as_factor<T>(worker, buffers.get(1), s.dst_count());
    for_each_piece<T>(worker, s, [&](const Piece<T>& piece) {
      im2col(worker, s, piece.patches, buffers.get(0), piece.columns);
      gemm<T>(worker, s.group_filters(), s.taps(), piece.pixels,
              {diff_dst + piece.first_value, s.filters, true}, {piece.columns, patch_values(s)},
              args.adds || piece.first_value > 0 ? 1.0f : 0.0f, buffers.get(2), s.taps(),
              {s.groups, s.group_filters(), s.taps(), std::int64_t{s.group_filters()} * s.taps()});
    });
  });
  if (args.has_bias) add_column_sums(worker, s.pixels(), s.filters, buffers.get(1), buffers.get(3));
}

void gpu::conv_backward_data_lowered(const ConvDataArgs& args, const Buffers& buffers,
                                     DeviceContext&) {
  const ConvShape& s = args.shape;
  CudaWorker& worker = CudaWorker::current();
  with_factors([&]<class T>(T) {
    const auto [diff_dst, weights] =
        as_factors<T>(worker, std::array{Factored{buffers.get(0), s.dst_count()},
                                         Factored{buffers.get(1), s.weights_count()}});
    for_each_piece<float>(worker, s, [&](const Piece<float>& piece) {
      gemm<T>(worker, piece.pixels, s.taps(), s.group_filters(),
              {diff_dst + piece.first_value, s.filters}, {weights, s.taps()}, 0.0f, piece.columns,
              patch_values(s),
              {s.groups, s.group_filters(), std::int64_t{s.group_filters()} * s.taps(), s.taps()});
      const bool adds = args.adds || piece.patches.first_location > 0;
      col2im(worker, s, piece.patches, adds, piece.columns, buffers.get(2));
    });
  });
}

}  // namespace omni
