// The experiment of Caffe con Troll: how fast is the forward pass of a convolution by lowering when
// a matrix product takes so many images at once (b_p), the mini-batch is cut into so many
// partitions of a thread each, and so much of a kernel is lowered (the types 1, 2, 3)? One JSON
// object per line.
//   bench_lowering [H W C FILTERS KERNEL PAD IMAGES]       default: AlexNet's conv2, 256 images
#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <charconv>
#include <chrono>
#include <cstring>
#include <span>
#include <thread>
#include <vector>

#include "codelets/convolution/lowered_passes.hpp"
#include "codelets/dense/onednn_support.hpp"
#include "runtime/rng.hpp"

namespace {

using namespace omni;
using Clock = std::chrono::steady_clock;

#ifdef OMNI_ONEDNN
constexpr Gemm kProduct = onednn::gemm;
#else
constexpr Gemm kProduct = gemm;
#endif

std::vector<float> random_values(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  Draws draws(Philox(1, RandomStream::init), 0);
  for (float& value : values) value = draws.uniform(-1, 1);
  return values;
}

struct Pass {
  ConvShape shape;
  std::vector<float> src = random_values(shape.src_count());
  std::vector<float> weights = random_values(shape.weights_count());
  std::vector<float> dst = random_values(shape.dst_count());

  void run(const lowering::Method& method, int first, int last) {
    ConvShape part = shape;
    part.n = 1;
    const std::int64_t src_image = part.src_count(), dst_image = part.dst_count();
    part.n = last - first;
    lowering::forward(method, part, src.data() + first * src_image, weights.data(), nullptr,
                      Activation::linear, dst.data() + first * dst_image, DeviceContext::current());
  }
};

// The best of three: noise only ever adds. Before them, each thread gets its working memory.
double seconds(Pass& pass, const lowering::Method& method, int partitions) {
  constexpr int kRuns = 4;
  std::barrier together(partitions + 1);
  std::vector<std::jthread> threads;
  for (int i = 0; i < partitions; ++i)
    threads.emplace_back(
        [&, first = pass.shape.n * i / partitions, last = pass.shape.n * (i + 1) / partitions] {
          for (int run = 0; run < kRuns; ++run) {
            together.arrive_and_wait();
            pass.run(method, first, last);
            together.arrive_and_wait();
          }
        });
  double best = 1e30;
  for (int run = 0; run < kRuns; ++run) {
    together.arrive_and_wait();
    const auto before = Clock::now();
    together.arrive_and_wait();
    if (run > 0)
      best = std::min(best, std::chrono::duration<double>(Clock::now() - before).count());
  }
  return best;
}

bool read(std::span<char*> from, std::initializer_list<int*> to) {
  return from.size() == to.size() &&
         std::equal(from.begin(), from.end(), to.begin(), [](const char* text, int* value) {
           const char* const end = text + std::strlen(text);
           return std::from_chars(text, end, *value).ptr == end && *value >= 0;
         });
}

}  // namespace

int main(int argc, char** argv) {
  ConvShape s{.n = 256, .h = 27, .w = 27, .c = 96, .filters = 256, .kernel_h = 5, .pad_h = 2};
  const std::span<char*> arguments(argv + 1, static_cast<std::size_t>(argc - 1));
  if (!arguments.empty() &&
      !(read(arguments, {&s.h, &s.w, &s.c, &s.filters, &s.kernel_h, &s.pad_h, &s.n}) &&
        std::min({s.h, s.w, s.c, s.filters, s.kernel_h, s.n}) > 0 &&
        s.kernel_h <= std::min(s.h, s.w) + 2 * s.pad_h)) {
    fmt::print(stderr, "usage: bench_lowering [H W C FILTERS KERNEL PAD IMAGES]\n");
    return 2;
  }
  s.kernel_w = s.kernel_h, s.pad_w = s.pad_h;
  Pass pass{s};
  const double flops = 2e-9 * static_cast<double>(s.dst_count()) * s.taps();
  for (const int partitions : {1, 2})
    for (const auto type : {lowering::Type::kernel, lowering::Type::row, lowering::Type::tap})
      // 0: as many rows as fit the cache
      for (int images = 0; images <= s.n / partitions; images = std::max(1, 2 * images)) {
        const double time = seconds(pass, {type, kProduct, images}, partitions);
        fmt::print(
            "{{\"partitions\": {}, \"type\": {}, \"images\": {}, \"seconds\": {:.5f}, "
            "\"gflops\": {:.1f}}}\n",
            partitions, static_cast<int>(type), images, time, flops / time);
        std::fflush(stdout);
      }
  return 0;
}
