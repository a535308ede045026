// This file computes the sum of a residual block on a GPU. If sizes differ, there is a thread per
// result, which finds the value to add.
#include "codelets/functions/shortcut_add.hpp"

#include "codelets/cuda/map.cuh"
#include "codelets/cuda/rows.cuh"

namespace omni {
namespace {

template <class F>
struct ScaledSum {
  F f;
  float alpha, beta;
  __device__ float operator()(float a, float b) const { return f(alpha * a + beta * b); }
};

struct Scale {
  float factor;
  __device__ float operator()(float x) const { return factor * x; }
};

// A Grid describes the grid of one summand. Its steps say which of its cells are added to cells of
// the other summand.
struct Grid {
  Extent extent;
  int step_h, step_w;

  __device__ std::int64_t at(int image, int y, int x, int k) const {
    return ((std::int64_t{image} * extent.h + y) * extent.w + x) * extent.c + k;
  }
};

struct Meetings {
  Grid own, other;
  int rows, columns, channels;

  Meetings(const Extent& mine, const Extent& theirs) {
    const ShortcutMeeting h(mine.h, theirs.h), w(mine.w, theirs.w);
    own = {mine, h.step_a, w.step_a};
    other = {theirs, h.step_b, w.step_b};
    rows = h.count;
    columns = w.count;
    channels = std::min(mine.c, theirs.c);
  }
  // Returns the index of the value that is added at a position; negative if there is none.
  __device__ std::int64_t met_by(int image, int y, int x, int k) const {
    const int row = y / own.step_h, column = x / own.step_w;
    const bool meets = row < rows && row * own.step_h == y && column < columns &&
                       column * own.step_w == x && k < channels;
    return meets ? other.at(image, row * other.step_h, column * other.step_w, k) : -1;
  }
};

template <class F, int lanes, class T>
struct MeetingSum {
  F f;
  Meetings meetings;
  float alpha, beta;
  const T *a, *b;
  T* dst;

  __device__ void operator()(int image, int y, int x, int column) const {
    const int k = column * lanes;
    const std::int64_t at = meetings.own.at(image, y, x, k), in_b = meetings.met_by(image, y, x, k);
    Lanes<lanes> sum = load<lanes>(a, at), other{};
    if (in_b >= 0) other = load<lanes>(b, in_b);
    for (int i = 0; i < lanes; ++i) sum.at[i] = f(alpha * sum.at[i] + beta * other.at[i]);
    store(dst, at, sum);
  }
};

template <int lanes, class T>
struct MeetingGradient {
  Meetings meetings;  // by positions of b
  float beta;
  const T* diff_dst;
  T* diff_b;

  __device__ void operator()(int image, int y, int x, int column) const {
    const int k = column * lanes;
    const std::int64_t in_a = meetings.met_by(image, y, x, k);
    Lanes<lanes> diff{};
    if (in_a >= 0) diff = load<lanes>(diff_dst, in_a);
    for (int i = 0; i < lanes; ++i) diff.at[i] *= beta;
    store(diff_b, meetings.own.at(image, y, x, k), diff);
  }
};

// Calls use(lanes, extent), where extent.c counts vectors of `lanes` channels.
template <class T, class Use>
void by_lanes(const ShortcutArgs& args, Extent extent, Use use, const auto*... pointers) {
  constexpr int kLanes = kMostLanes<T>;
  with_lanes<T>(args.a.c % kLanes == 0 && divides(kLanes, args.b.c, pointers...), [&](auto lanes) {
    extent.c /= lanes;
    use(lanes, extent);
  });
}

template <class F, class T>
struct ResidualGradient {
  F f;
  const T* dst;
  T *diff, *diff_b;
  template <int lanes>
  __device__ void at(std::int64_t first) const {
    Lanes<lanes> result = load<lanes>(diff, first);
    const Lanes<lanes> value = load<lanes>(dst, first);
    for (int i = 0; i < lanes; ++i) result.at[i] *= f.gradient(value.at[i]);
    store(diff, first, result);
    store(diff_b, first, result);
  }
};

}  // namespace

void gpu::shortcut_forward(const ShortcutArgs& args, const Buffers& buffers, DeviceContext&) {
  CudaWorker& worker = CudaWorker::current();
  with_usual_activation(args.activation, buffers, [&]<class F, class T>(F f, T) {
    const T *a = buffers.get<T>(0), *b = buffers.get<T>(1);
    T* dst = buffers.get<T>(2);
    if (args.a == args.b)
      map_elements(worker, args.values_of(args.a), ScaledSum<F>{f, args.alpha, args.beta}, dst, a,
                   b);
    else
      by_lanes<T>(
          args, args.a,
          [&]<class N>(N, const Extent& extent) {
            for_each_position(worker, args.n, extent,
                              MeetingSum<F, N::value, T>{f, Meetings(args.a, args.b), args.alpha,
                                                         args.beta, a, b, dst});
          },
          a, b, dst);
  });
}

void gpu::shortcut_backward_a(const ShortcutArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    map_elements(CudaWorker::current(), args.values_of(args.a), Scale{args.alpha},
                 buffers.get<T>(1), buffers.get<T>(0));
  });
}

void gpu::shortcut_backward_b(const ShortcutArgs& args, const Buffers& buffers, DeviceContext&) {
  CudaWorker& worker = CudaWorker::current();
  with_values(buffers, [&]<class T>(T) {
    const T* diff_dst = buffers.get<T>(0);
    T* diff_b = buffers.get<T>(1);
    if (args.a == args.b)
      map_elements(worker, args.values_of(args.b), Scale{args.beta}, diff_b, diff_dst);
    else
      by_lanes<T>(
          args, args.b,
          [&]<class N>(N, const Extent& extent) {
            for_each_position(worker, args.n, extent,
                              MeetingGradient<N::value, T>{Meetings(args.b, args.a), args.beta,
                                                           diff_dst, diff_b});
          },
          diff_dst, diff_b);
  });
}

void gpu::residual_backward(const ActivationArgs& args, const Buffers& buffers, DeviceContext&) {
  with_usual_activation(args.activation, buffers, [&]<class F, class T>(F f, T) {
    const T* dst = buffers.get<T>(0);
    T *diff = buffers.get<T>(1), *diff_b = buffers.get<T>(2);
    for_each_by_lanes<T>(CudaWorker::current(), args.count,
                         ResidualGradient<F, T>{f, dst, diff, diff_b}, dst, diff, diff_b);
  });
}

}  // namespace omni
