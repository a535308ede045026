// This file computes crop, upsample and reorg on a GPU.
#include "codelets/cuda/map.cuh"
#include "codelets/cuda/rows.cuh"
#include "codelets/spatial/crop_mirror.hpp"
#include "codelets/spatial/reorg.hpp"
#include "codelets/spatial/upsample.hpp"

namespace omni {
namespace {

// The following code is crop. It draws the windows first, once per image.

struct Draw {
  CropMirrorArgs args;
  CropWindow* windows;
  __device__ void operator()(std::int64_t image) const {
    windows[image] = crop_window(args, static_cast<int>(image));
  }
};

const CropWindow* draw_windows(CudaWorker& worker, const CropMirrorArgs& args) {
  auto* windows = static_cast<CropWindow*>(worker.workspace(args.n * sizeof(CropWindow)));
  for_each_element(worker, args.n, Draw{args, windows});
  return windows;
}

struct CropForward {
  CropMirrorArgs args;
  const CropWindow* windows;
  const float* src;
  float* dst;

  __device__ void operator()(int image, int y, int x, int k) const {
    const CropWindow window = windows[image];
    const int column = window.left + (window.mirrored ? args.out_w - 1 - x : x);
    const std::int64_t row = std::int64_t{image} * args.src.h + window.top + y;
    const float value = src[(row * args.src.w + column) * args.src.c + k];
    const std::int64_t to = std::int64_t{image} * args.out_h + y;
    dst[(to * args.out_w + x) * args.src.c + k] = args.adjust ? value * 2 - 1 : value;
  }
};

struct CropBackward {
  CropMirrorArgs args;
  const CropWindow* windows;
  const float* diff_dst;
  float* diff_src;

  __device__ void operator()(int image, int y, int x, int k) const {
    const CropWindow window = windows[image];
    const int row = y - window.top, column = x - window.left;
    float diff = 0;
    if (row >= 0 && row < args.out_h && column >= 0 && column < args.out_w) {
      const int from = window.mirrored ? args.out_w - 1 - column : column;
      diff =
          diff_dst[((std::int64_t{image} * args.out_h + row) * args.out_w + from) * args.src.c + k];
    }
    const std::int64_t to = std::int64_t{image} * args.src.h + y;
    diff_src[(to * args.src.w + x) * args.src.c + k] = args.adjust ? diff * 2 : diff;
  }
};

// The following code is upsample. In backward, a thread adds up a block.

template <int lanes>
struct UpsampleForward {
  UpsampleArgs args;
  const float* src;
  float* dst;

  __device__ void operator()(int image, int y, int x, int column) const {
    const int c = args.src.c, k = column * lanes;
    const std::int64_t row = std::int64_t{image} * args.src.h + y / args.stride;
    Lanes<lanes> value = load<lanes>(src, (row * args.src.w + x / args.stride) * c + k);
    for (int i = 0; i < lanes; ++i) value.at[i] *= args.scale;
    const std::int64_t to = std::int64_t{image} * args.src.h * args.stride + y;
    store(dst, (to * args.src.w * args.stride + x) * c + k, value);
  }
};

template <int lanes>
struct UpsampleBackward {
  UpsampleArgs args;
  const float* diff_dst;
  float* diff_src;

  __device__ void operator()(int image, int y, int x, int column) const {
    const int c = args.src.c, k = column * lanes;
    const std::int64_t row = std::int64_t{image} * args.src.h + y;
    Lanes<lanes> sum{};
    for (int dy = 0; dy < args.stride; ++dy)
      for (int dx = 0; dx < args.stride; ++dx) {
        const std::int64_t from = (row * args.stride + dy) * args.src.w * args.stride;
        const auto diff = load<lanes>(diff_dst, (from + x * args.stride + dx) * c + k);
        for (int i = 0; i < lanes; ++i) sum.at[i] += args.scale * diff.at[i];
      }
    store(diff_src, (row * args.src.w + x) * c + k, sum);
  }
};

// The following code is reorg. `stride` neighbours in a row of the wide side are contiguous on both
// sides.

template <int lanes>
struct Move {
  int h, runs, stride;  // rows of the wide side, and runs in a row
  int run;              // values in a run
  bool to_depth;
  const float* src;
  float* dst;

  __device__ void operator()(int image, int y, int x, int column) const {
    // No row of blocks spans two images, because h is a multiple of stride.
    const std::int64_t row = std::int64_t{image} * h + y;
    const std::int64_t in_wide = (row * runs + x) * run + column * lanes;
    const std::int64_t block = row / stride * runs + x;
    const std::int64_t in_deep = (block * stride + y % stride) * run + column * lanes;
    store(dst, to_depth ? in_deep : in_wide, load<lanes>(src, to_depth ? in_wide : in_deep));
  }
};

}  // namespace

void gpu::crop_mirror_forward(const CropMirrorArgs& args, const Buffers& buffers, DeviceContext&) {
  CudaWorker& worker = CudaWorker::current();
  for_each_position(worker, args.n, args.dst(),
                    CropForward{args, draw_windows(worker, args), buffers.get(0), buffers.get(1)});
}

void gpu::crop_mirror_backward(const CropMirrorArgs& args, const Buffers& buffers, DeviceContext&) {
  CudaWorker& worker = CudaWorker::current();
  for_each_position(worker, args.n, args.src,
                    CropBackward{args, draw_windows(worker, args), buffers.get(0), buffers.get(1)});
}

void gpu::upsample_forward(const UpsampleArgs& args, const Buffers& buffers, DeviceContext&) {
  with_lanes<float>(args.src.c % 4 == 0, [&]<class N>(N lanes) {
    for_each_position(CudaWorker::current(), args.n,
                      {args.src.h * args.stride, args.src.w * args.stride, args.src.c / lanes},
                      UpsampleForward<N::value>{args, buffers.get(0), buffers.get(1)});
  });
}

void gpu::upsample_backward(const UpsampleArgs& args, const Buffers& buffers, DeviceContext&) {
  with_lanes<float>(args.src.c % 4 == 0, [&]<class N>(N lanes) {
    for_each_position(CudaWorker::current(), args.n, {args.src.h, args.src.w, args.src.c / lanes},
                      UpsampleBackward<N::value>{args, buffers.get(0), buffers.get(1)});
  });
}

void gpu::reorg(const ReorgArgs& args, const Buffers& buffers, DeviceContext&) {
  const int runs = args.wide.w / args.stride, run = args.stride * args.wide.c;
  with_lanes<float>(run % 4 == 0, [&]<class N>(N lanes) {
    for_each_position(CudaWorker::current(), args.n, {args.wide.h, runs, run / lanes},
                      Move<N::value>{args.wide.h, runs, args.stride, run, args.to_depth,
                                     buffers.get(0), buffers.get(1)});
  });
}

}  // namespace omni
