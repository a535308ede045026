// Preloaded into omni-run, it makes every matrix product of OpenBLAS and oneDNN take half as long
// again: a kernel that became slower, without a switch for it in the product.
#include <cblas.h>
#include <dlfcn.h>
#include <time.h>
#ifdef OMNI_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#endif

namespace {

// Of this thread: what a busy machine takes away is no part of the kernel.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class HalfAsLongAgain {
 public:
  ~HalfAsLongAgain() {
    const double late = start_ + 1.5 * (cpu_seconds() - start_);
    while (cpu_seconds() < late) {  // a sleep would free the core
    }
  }

 private:
  double start_ = cpu_seconds();
};

}  // namespace

extern "C" void cblas_sgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE transpose_a,
                            CBLAS_TRANSPOSE transpose_b, blasint m, blasint n, blasint k,
                            float alpha, const float* a, blasint lda, const float* b, blasint ldb,
                            float beta, float* c, blasint ldc) {
  static const auto real =
      reinterpret_cast<decltype(&cblas_sgemm)>(dlsym(RTLD_NEXT, "cblas_sgemm"));
  const HalfAsLongAgain slowly;
  real(order, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

#ifdef OMNI_ONEDNN
extern "C" dnnl_status_t dnnl_sgemm(char transpose_a, char transpose_b, dnnl_dim_t m, dnnl_dim_t n,
                                    dnnl_dim_t k, float alpha, const float* a, dnnl_dim_t lda,
                                    const float* b, dnnl_dim_t ldb, float beta, float* c,
                                    dnnl_dim_t ldc) {
  static const auto real = reinterpret_cast<decltype(&dnnl_sgemm)>(dlsym(RTLD_NEXT, "dnnl_sgemm"));
  const HalfAsLongAgain slowly;
  return real(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
#endif
