// Windows of images on a GPU. They are drawn first, once per image.
#include "codelets/spatial/crop_mirror.hpp"

#include "codelets/cuda/images.cuh"

namespace omni {
namespace {

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

}  // namespace omni
