// Preloaded into omni-run, it makes every matrix product of OpenBLAS take half as long again: a
// kernel that became slower, without a switch for it in the product.
#include <cblas.h>
#include <dlfcn.h>
#include <time.h>

namespace {

// Of this thread: what a busy machine takes away is no part of the kernel.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

extern "C" void cblas_sgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE transpose_a,
                            CBLAS_TRANSPOSE transpose_b, blasint m, blasint n, blasint k,
                            float alpha, const float* a, blasint lda, const float* b, blasint ldb,
                            float beta, float* c, blasint ldc) {
  static const auto real =
      reinterpret_cast<decltype(&cblas_sgemm)>(dlsym(RTLD_NEXT, "cblas_sgemm"));
  const double start = cpu_seconds();
  real(order, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  const double late = start + 1.5 * (cpu_seconds() - start);
  while (cpu_seconds() < late) {  // a sleep would free the core
  }
}
