// Cores of these simulated machines take times that StarPU measured on a real one. recorded/ has
// the models of `omni-run time --net caffenet.cfg --batch 64 --slice 8 --workers 2`. They were
// measured on two cores of an AMD EPYC with AVX2 on 2026-11-22. The rates of GPUs are made up. The
// kernels were those of that day, under today's names. winograd_8x8, which never runs here, has no
// record.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "tests/simgrid/machine.hpp"

namespace omni::test {
namespace {

constexpr int kIterations = 4;
constexpr double kTook = 1.178;  // s per iteration there, the median of seven

double seconds_per_iteration(const Machine& machine, const char* scheduler) {
  const std::string source = OMNI_SOURCE_DIR;
  const nlohmann::json result = simulate(machine, {{"net", source + "/apps/nets/caffenet.cfg"},
                                                   {"batch", 64},
                                                   {"slice", 8},
                                                   {"iterations", kIterations},
                                                   {"recorded", source + "/tests/simgrid/recorded"},
                                                   {"scheduler", scheduler}});
  EXPECT_FALSE(result.contains("failed")) << result;
  return result.value("seconds", 0.0) / kIterations;
}

TEST(RecordedCores, take_as_long_as_the_real_ones) {
  EXPECT_NEAR(seconds_per_iteration({.cores = 2}, "omni") / kTook, 1, 0.05);
}

TEST(RecordedCores, omni_is_about_as_fast_as_the_best_of_the_others) {
  for (const Machine& machine : {Machine{.cores = 2}, Machine{.cores = 8},
                                 Machine{.cores = 8, .gpus = 1}, Machine{.cores = 8, .gpus = 4}}) {
    const double omni = seconds_per_iteration(machine, "omni");
    std::printf("%d recorded cores, %d GPUs: omni %.1f", machine.cores, machine.gpus, 1e3 * omni);
    for (const char* other : {"dmda", "dmdas", "lws", "heteroprio"}) {
      const double seconds = seconds_per_iteration(machine, other);
      std::printf(", %s %.1f", other, 1e3 * seconds);
      EXPECT_LE(omni, 1.02 * seconds) << other;
    }
    std::printf(" ms\n");
  }
}

}  // namespace
}  // namespace omni::test
