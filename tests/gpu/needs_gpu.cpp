// Without a GPU the tests are skipped, and ctest says so.
#include "tests/support/gpu_copy.hpp"

const char* missing_for_tests() { return omni::gpu::present() ? nullptr : "GPU"; }
