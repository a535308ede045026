// These tests give each option for an input file three gigabytes of zeros as a sparse file. The
// file is refused, and is never read into memory as a whole.
#include <gtest/gtest.h>

#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using Words = std::vector<std::string>;

constexpr std::size_t kMost = 500'000'000;  // with all libraries; a quarter of it in most builds

TEST(HugeFiles, AreRefusedInLittleMemory) {
  const TemporaryDirectory folder;
  const std::string zeros = folder / "zeros", jpeg = folder / "a.jpg", list = folder / "a.data";
  for (const std::string& file : {zeros, jpeg}) put(file, "");
  for (const std::string& file : {zeros, jpeg})
    std::filesystem::resize_file(file, std::uintmax_t{3} << 30);
  put(list, "classes=2\ntrain=" + zeros + "\nvalid=" + zeros + "\n");
  const std::string data = "synthetic:8";
  for (const Words& words : std::vector<Words>{
           {"explain", zeros},
           {"--net", zeros},
           {"--net", "lenet", "--data", zeros + "," + zeros},
           {"--net", "lenet", "--data", list},
           {"--net", "lenet", "--data", zeros},
           {"--net", "lenet", "--data", data, "--weights", zeros},
           {"--net", "lenet", "--data", data, "--resume", zeros},
           {"--net", "lenet", "--data", data, "--resume", "auto", "--metrics", zeros},
           {"--net", "lenet", "--data", data, "--arrivals", "virtual", "--machine", zeros},
           {"valid", "--net", "lenet", "--data", data, "--weights", zeros},
           {"valid", "--net", "lenet", "--data", data, "--weights", zeros, "--names", zeros},
           {"predict", "--net", "lenet", "--weights", zeros, jpeg},
           {"slurm", "--template", zeros, "--net", "lenet"}}) {
    Words all = words;
    if (words[0] == "--net")
      all.insert(all.end(),
                 {"--batch", "8", "--max-batches", "1", "--no-test", "--out", folder / "run"});
    const Finished run = omni_run(all);
    const std::string shown = words[0] + ' ' + words.back() + '\n' + run.errors;
    EXPECT_TRUE(run.exit_code == 2 || run.exit_code == 3) << run.exit_code << ' ' << shown;
    EXPECT_NE(run.errors.find("error: "), std::string::npos) << shown;
    EXPECT_LT(run.most_memory, kMost) << shown;
  }
}

}  // namespace
}  // namespace omni::test
