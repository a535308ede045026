#include "codelets/dense/peaks.hpp"

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>

#include "codelets/convolution/convolution.hpp"
#include "codelets/dense/gemm.hpp"
#include "codelets/dense/onednn_support.hpp"
#include "runtime/tasks/device_context.hpp"
#include "runtime/threads.hpp"

namespace omni {
namespace {

constexpr int kSize = 1024;  // 12 MiB of matrices: large, and still quick

// Returns the size of each of two arrays per thread. That is 64 MB, more than a core's share of any
// cache, or less, so that all arrays together take about 1 GB at most.
std::size_t copy_floats(int threads) {
  return std::min<std::size_t>(16'000'000, 128'000'000 / threads);
}

constexpr int kRepeats = 10;

// Returns the rate, in units per second, of `threads` threads at the same time, each on the core of
// a worker. (Otherwise two threads may share a core.) The best of a few rounds counts, since other
// programs can only slow rounds down.
double best_rate(const Session& session, int threads, double units, auto make_work) {
  std::barrier start(threads);
  std::mutex mutex;
  std::vector<double> slowest(kRepeats, 0);  // seconds of the last thread of each round
  run_together(threads, [&](int worker) {
    // The thread leaves the barrier even if it throws, so that other threads do not wait for it.
    const std::unique_ptr<std::barrier<>, void (*)(std::barrier<>*)> leaves(
        &start, [](std::barrier<>* left) { left->arrive_and_drop(); });
    session.bind_to_cpu_worker(worker);
    auto once = make_work();
    once();  // touches pages, and loads code and libraries
    for (double& seconds : slowest) {
      start.arrive_and_wait();
      const auto before = std::chrono::steady_clock::now();
      once();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - before;
      const std::lock_guard lock(mutex);
      seconds = std::max(seconds, took.count());
    }
  });
  return units * threads / *std::ranges::min_element(slowest);
}

using Product = void (*)(float* a, float* b, float* c);

template <Gemm gemm>
void product_of_gemm(float* a, float* b, float* c) {
  gemm(kSize, kSize, kSize, {a, kSize}, {b, kSize}, 0.0f, c, kSize);
}

double gemm_rate(const Session& session, int threads, Product product) {
  return best_rate(session, threads, 2.0 * kSize * kSize * kSize, [product] {
    DeviceContext::current();  // limits BLAS to one thread
    return [product, a = std::vector<float>(kSize * kSize, 0.5f),
            b = std::vector<float>(kSize * kSize, 0.25f),
            c = std::vector<float>(kSize * kSize)]() mutable {
      product(a.data(), b.data(), c.data());
    };
  });
}

#ifdef OMNI_ONEDNN
void product_in_bf16(float* a, float* b, float* c) {
  std::array<void*, 3> buffers{a, b, c};
  conv_onednn<ConvForwardArgs>({.shape = {.h = kSize, .c = kSize, .filters = kSize}},
                               Buffers(buffers), DeviceContext::current());
}
#endif

double copy_rate(const Session& session, int threads) {
  const std::size_t floats = copy_floats(threads);
  return best_rate(session, threads, 2.0 * sizeof(float) * static_cast<double>(floats), [floats] {
    return [from = std::vector<float>(floats, 1.0f), to = std::vector<float>(floats)]() mutable {
      std::memcpy(to.data(), from.data(), sizeof(float) * from.size());
    };
  });
}

}  // namespace

double measure_cpu_gemm(const Session& session, int workers) {
  double best = gemm_rate(session, workers, product_of_gemm<gemm>);
#ifdef OMNI_ONEDNN
  best = std::max(best, gemm_rate(session, workers, product_of_gemm<onednn::gemm>));
  if (implementation_policy().precision == Precision::bf16)
    best = std::max(best, gemm_rate(session, workers, product_in_bf16));
#endif
  return best;
}

CpuPeaks measure_cpu_peaks(const Session& session, int workers) {
  return {.gemm_alone = measure_cpu_gemm(session, 1),
          .gemm_together = measure_cpu_gemm(session, workers),
          .copy_alone = copy_rate(session, 1),
          .copy_together = copy_rate(session, workers)};
}

}  // namespace omni
