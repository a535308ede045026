// These tests run omni-run with too little memory. It must end with exit code 4 and a message,
// never by a signal, and never hang.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "runtime/data/images/image.hpp"
#include "runtime/memory/memory_limits.hpp"
#include "tests/support/images/jpeg_writer.hpp"
#include "tests/support/images/png_writer.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

// Address and thread sanitizers reserve terabytes of address space.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

rlim_t mapped_memory() {
  std::ifstream sizes("/proc/self/statm");
  rlim_t pages = 0;
  sizes >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

constexpr int kNoLibraries = 127;  // exit code of the loader, which runs before any of our code

Finished with_address_space(std::size_t mebibytes, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(),
                   {"/usr/bin/prlimit", "--as=" + std::to_string(mebibytes << 20), kOmniRun});
  return run_program(arguments);
}

std::vector<std::string> short_training(const char* net, const char* batch) {
  return {"--net", net,         "--batch", batch,          "--max-batches",
          "2",     "--no-test", "--data",  "synthetic:64", "--gpus",
          "none",  "--workers", "2"};
}

// Tries the limits of a bisection for the smallest address space that suffices, which differs
// between machines. OMNI_LIMIT_STEP=20 also tries every multiple of 20 MiB below `enough`.
void sweep(const char* net, const char* batch, std::size_t enough) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs all address space";
  int refused = 0;
  const auto suffices = [&](std::size_t limit) {
    const Finished run = with_address_space(limit, short_training(net, batch));
    EXPECT_TRUE(run.exit_code == 0 || run.exit_code == 4 || run.exit_code == kNoLibraries)
        << limit << " MiB: " << run.exit_code << "\n"
        << run.errors;
    if (run.exit_code == 4) {
      ++refused;
      EXPECT_NE(run.errors.find("error: "), std::string::npos) << run.errors;
    }
    return run.exit_code == 0;
  };
  if (const char* step = std::getenv("OMNI_LIMIT_STEP"); step != nullptr)
    for (std::size_t limit = std::stoul(step); limit < enough; limit += std::stoul(step))
      suffices(limit);
  std::size_t too_little = 0;
  ASSERT_TRUE(suffices(enough));
  for (constexpr std::size_t kStep = 32; enough - too_little > kStep;) {
    const std::size_t middle = (too_little + enough) / 2;
    (suffices(middle) ? enough : too_little) = middle;
  }
  EXPECT_GT(refused, 0);
}

TEST(MemoryLimits, of_LeNet_end_in_order) { sweep("lenet", "64", 2100); }
TEST(MemoryLimits, of_AlexNet_end_in_order) { sweep("alexnet", "4", 2100); }

// Returns the least address space in which a command works, in MiB, up to 2 MiB too much.
std::size_t least_space(const std::vector<std::string>& command) {
  std::size_t least = 0, most = 4096;
  while (most - least > 2) {
    const std::size_t middle = (least + most) / 2;
    (with_address_space(middle, command).exit_code == 0 ? most : least) = middle;
  }
  return most;
}

// Runs the command with the option in address spaces up to 160 MiB larger than the command needs
// without the option. At least one of them must be too small.
void sweep_option(const std::vector<std::string>& without, const std::vector<std::string>& option) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs all address space";
  std::vector<std::string> with = without;
  with.insert(with.end(), option.begin(), option.end());
  const std::size_t least = least_space(without);
  int refused = 0;
  for (const std::size_t more : {0, 4, 32, 64, 96, 128, 160}) {
    const Finished run = with_address_space(least + more, with);
    EXPECT_TRUE(run.exit_code == 0 || run.exit_code == 4)
        << least << " + " << more << " MiB: " << run.exit_code << "\n"
        << run.errors;
    if (run.exit_code != 4) continue;
    ++refused;
    EXPECT_NE(run.errors.find("error: "), std::string::npos) << run.errors;
  }
  EXPECT_GT(refused, 0);
}

TEST(MemoryLimits, of_measured_peaks_end_in_order) {
  sweep_option({"devices", "--gpus", "none", "--workers", "1"}, {"--peaks"});
}
TEST(MemoryLimits, of_traces_end_in_order) {
  const TemporaryDirectory folder;
  sweep_option(short_training("lenet", "64"), {"--trace", folder / "trace"});
}

TEST(MemoryLimits, are_asked_by_the_plan) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs all address space";
  const Finished run = with_address_space(4096, short_training("vgg-16", "64"));
  EXPECT_EQ(run.exit_code, 4) << run.errors;
  EXPECT_NE(run.errors.find("GiB of address space (ulimit -v), there are "), std::string::npos)
      << run.errors;
  EXPECT_NE(run.errors.find("try --subdivisions "), std::string::npos) << run.errors;
}

class ControlGroups : public testing::Test {
 protected:
  void write(const char* file, const char* text) {
    const std::filesystem::path path = root_ / file;
    std::filesystem::create_directories(path.parent_path());
    put(path, text);
  }
  TemporaryDirectory root_;
};

TEST_F(ControlGroups, of_both_versions_limit_what_is_planned) {
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  EXPECT_EQ(control_group_memory(root_.path()), kNone);
  write("proc/self/cgroup", "4:memory:/jobs/7\n3:cpu:/jobs/7\n0::/user/slice\n");
  EXPECT_EQ(control_group_memory(root_.path()), kNone);
  write("sys/fs/cgroup/user/slice/memory.max", "max\n");
  EXPECT_EQ(control_group_memory(root_.path()), kNone);
  write("sys/fs/cgroup/user/memory.max", "9000000000\n");  // of the group around it
  EXPECT_EQ(control_group_memory(root_.path()), 9000000000u);
  write("sys/fs/cgroup/memory.max", "8000000000\n");  // a container's own root
  EXPECT_EQ(control_group_memory(root_.path()), 8000000000u);
  write("sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "7000000000\n");
  EXPECT_EQ(control_group_memory(root_.path()), 7000000000u);
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "6000000000\n");
  EXPECT_EQ(control_group_memory(root_.path()), 6000000000u);
  struct sysinfo machine {};
  ASSERT_EQ(sysinfo(&machine), 0);
  EXPECT_EQ(physical_memory(),
            std::min(machine.totalram * machine.mem_unit, control_group_memory("/")));
}

// Two rows of the PNG file take 16 MB, and the coefficients of the JPEG file 54 MB. The files
// themselves are small.
TEST(MemoryLimits, are_not_taken_for_a_damaged_image) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs all address space";
  const std::vector<std::uint8_t> pixels(27000000, 90);
  const auto check = [](const std::string& file) {
    const auto refuses = [&] {
      constexpr rlim_t kLittle = 12 << 20;
      const rlimit limit{mapped_memory() + kLittle, RLIM_INFINITY};
      setrlimit(RLIMIT_AS, &limit);
      const Result<Image> image = parse_image(file, "a", {});
      return !image && image.error().kind == ErrorKind::out_of_memory;
    };
    EXPECT_EQ(in_a_copy(refuses), 0);
    EXPECT_TRUE(parse_image(file, "a", {}));
  };
  // The PNG file is read first, because reading the JPEG file leaves memory that is free but
  // mapped.
  check(make_png(1, 1000000, pixels, {.depth = 16, .colours = PNG_COLOR_TYPE_RGBA}));
  check(make_jpeg(3000, 3000, pixels, {.progressive = true}));
}

}  // namespace
}  // namespace omni::test
