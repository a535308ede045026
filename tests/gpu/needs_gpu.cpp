// Without a GPU nothing here is tested, which is said and is no success.
#include "tests/support/gpu_copy.hpp"

const char* missing_for_tests() { return omni::gpu::present() ? nullptr : "GPU"; }
