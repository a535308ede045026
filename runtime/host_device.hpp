// Marks functions that also run on a GPU.
#pragma once

#ifdef __CUDACC__
#define OMNI_HD __host__ __device__
#else
#define OMNI_HD
#endif
