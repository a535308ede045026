// What the CPU cores of this machine can do at best, measured: the roof of every roofline.
#pragma once

namespace omni {

struct CpuPeaks {
  double gemm_alone = 0, gemm_together = 0;  // flop/s of one thread, of all at once
  double copy_alone = 0, copy_together = 0;  // bytes/s, reading and writing both counted
};

// Takes about a second of all those threads.
CpuPeaks measure_cpu_peaks(int threads);

}  // namespace omni
