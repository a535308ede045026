// What the CPU cores of this machine can do at best, measured: the roof of every roofline.
#pragma once

#include <vector>

#include "runtime/tasks/codelet.hpp"

namespace omni {

struct CpuPeaks {
  double gemm_alone = 0, gemm_together = 0;  // flop/s of one thread, of all at once
  double copy_alone = 0, copy_together = 0;  // bytes/s, reading and writing both counted
};

// In the precision of the implementation policy. Takes about a second of all those threads.
CpuPeaks measure_cpu_peaks(int threads);

// Only CpuPeaks::gemm_together, which takes 12 MiB per thread instead of hundreds.
double measure_cpu_gemm(int threads);

// flop/s of a large matrix product, measured on one GPU after the other and added up.
// In peaks.cu: only with OMNI_CUDA.
double measure_gpu_gemm(const std::vector<int>& devices, Precision precision);

}  // namespace omni
