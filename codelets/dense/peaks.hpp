// These functions measure the peak rates of this machine's cores and GPUs. Rooflines use them as
// upper bounds.
#pragma once

#include <vector>

#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/session.hpp"

namespace omni {

struct CpuPeaks {
  double gemm_alone = 0, gemm_together = 0;  // flop/s of one worker; of all at the same time
  double copy_alone = 0, copy_together = 0;  // bytes/s; reading and writing both count
};

// Measures the session's first CPU workers on their cores, in the precision of the implementation
// policy. The workers must be idle. It takes about a second.
CpuPeaks measure_cpu_peaks(const Session& session, int workers);

// Measures only CpuPeaks::gemm_together. This takes some 12 MiB per worker; copying takes up to
// 122.
double measure_cpu_gemm(const Session& session, int workers);

// Returns the flop/s of a large matrix product, measured on one GPU after the other and added up.
// It exists only in a build with CUDA.
double measure_gpu_gemm(const std::vector<int>& devices, Precision precision);

}  // namespace omni
