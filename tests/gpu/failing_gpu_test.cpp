// These tests let a played GPU fail or give it little memory. Real GPUs cannot be told to fail.
#ifdef OMNI_PLAYED_GPU

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "scheduling/checkpoint/checkpoint_folder.hpp"
#include "tests/support/net_text.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Setting() { unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

// Returns the losses by iteration.
std::map<std::uint64_t, double> losses_in(const std::string& metrics) {
  std::map<std::uint64_t, double> losses;
  for (const auto& line : read_metrics(metrics))
    if (line.contains("loss")) losses[line["iteration"]] = line["loss"];
  return losses;
}

// The training is deterministic, so a wrong checkpoint would change the losses of the training that
// resumes from it.
TEST(FailingGpu, ends_with_status_five_and_keeps_what_was_saved) {
  const TemporaryDirectory folder;
  constexpr std::uint64_t kEvery = 5, kLast = 26;
  const auto arguments = [&](const std::string& out, const std::string& metrics) {
    return std::vector<std::string>{"--net",
                                    "lenet",
                                    "--no-test",
                                    "--max-batches",
                                    std::to_string(kLast),
                                    "--checkpoint-every",
                                    std::to_string(kEvery),
                                    "--out",
                                    out,
                                    "--metrics",
                                    metrics,
                                    "--display",
                                    "1",
                                    "--resume",
                                    "auto",
                                    "--deterministic",
                                    "--batch",
                                    "8",
                                    "-q"};
  };
  const std::string metrics = folder / "metrics";
  const Finished straight = omni_run(arguments(folder / "straight", metrics));
  ASSERT_EQ(straight.exit_code, 0) << straight.errors;
  const auto losses = losses_in(metrics);
  ASSERT_EQ(losses.size(), kLast);

  for (const char* launches : {"211", "300", "423", "500"}) {
    SCOPED_TRACE(launches);
    const std::string out = folder / ("run-" + std::string(launches));
    const std::string until_death = out + ".metrics", after = out + ".after";
    {
      const Setting dies("OMNI_PLAYED_GPU_DIES_AFTER", launches);
      const Finished run = omni_run(arguments(out, until_death));
      EXPECT_EQ(run.exit_code, 5) << run.errors;
      EXPECT_NE(run.errors.find("dies, as"), std::string::npos) << run.errors;
      EXPECT_NE(run.errors.find("error: "), std::string::npos) << run.errors;
      EXPECT_NE(run.errors.find("CUDA_LAUNCH_BLOCKING=1 names the "), std::string::npos)
          << run.errors;
    }
    const auto reported = losses_in(until_death);
    const auto saved = list_checkpoints(out);
    ASSERT_TRUE(saved) << saved.error().message();
    ASSERT_FALSE(saved->empty()) << "it died before the first checkpoint, so this proves nothing";
    ASSERT_FALSE(reported.empty());
    ASSERT_LT(reported.rbegin()->first, kLast) << "it ended before it died";
    std::uint64_t newest = 0;
    for (const CheckpointFolder& each : *saved) {
      const auto checkpoint = read_checkpoint(each.path);
      ASSERT_TRUE(checkpoint) << checkpoint.error().message();
      EXPECT_EQ(checkpoint->step % kEvery, 0u);
      newest = std::max(newest, checkpoint->step);
    }
    EXPECT_LE(newest, reported.rbegin()->first);
    const Finished resumed = omni_run(arguments(out, after));
    EXPECT_EQ(resumed.exit_code, 0) << resumed.errors;
    const auto gone_on = losses_in(after);
    const std::map<std::uint64_t, double> rest(losses.upper_bound(newest), losses.end());
    EXPECT_EQ(gone_on, rest);
  }
}

// With CUDA_LAUNCH_BLOCKING the message names the operation that failed and has no hint. cuDNN's
// engine decides how many kernels an operation launches, so each launch of the first forward pass
// fails once. With a second batch, its images would be unpacked between any two layers.
TEST(FailingGpu, names_the_operation_where_launches_wait) {
  const Setting wait("CUDA_LAUNCH_BLOCKING", "1");
  std::vector<std::string> named;
  for (int launches = 0; launches < 12; ++launches) {
    SCOPED_TRACE(launches);
    const Setting dies("OMNI_PLAYED_GPU_DIES_AFTER", std::to_string(launches).c_str());
    const Finished run = omni_run({"--net", "lenet", "--no-test", "--max-batches", "1", "--batch",
                                   "8", "-q", "--deterministic"});
    EXPECT_EQ(run.exit_code, 5) << run.errors;
    EXPECT_EQ(run.errors.find("names the"), std::string::npos) << run.errors;
    std::smatch match;
    ASSERT_TRUE(std::regex_search(
        run.errors, match,
        std::regex("error: codelet (\\w+ \\(cuda\\)(?:, layer \\d+)?, slice 0): ")))
        << run.errors;
    if (named.empty() || named.back() != match[1]) named.push_back(match[1]);
  }
  ASSERT_GE(named.size(), 3u);
  EXPECT_EQ(named[0], "unpack_batch (cuda), slice 0");
  EXPECT_EQ(named[1], "conv_forward (cuda), layer 0, slice 0");
  EXPECT_EQ(named[2], "max_pool_forward (cuda), layer 1, slice 0");
}

TEST(FailingGpu, too_small_a_one_is_refused_with_what_would_fit) {
  // The limits, in MiB, are the GPU's memory, or the most that StarPU may use of it.
  for (const char* limit :
       {"OMNI_PLAYED_GPU_MEMORY", "STARPU_LIMIT_CUDA_MEM", "STARPU_LIMIT_CUDA_0_MEM"}) {
    SCOPED_TRACE(limit);
    const Setting small(limit, "200");
    const Finished run =
        omni_run({"--net", "cifar10-quick", "--batch", "1990", "--max-batches", "1", "--no-test"});
    EXPECT_EQ(run.exit_code, 4) << run.errors;
    EXPECT_NE(run.errors.find("GiB on a GPU, there are 0."), std::string::npos) << run.errors;
    EXPECT_GT(number_after(run.errors, "try --subdivisions "), 1) << run.errors;
  }
}

// This net needs much memory but little computing.
const std::string kWideNet = net(498, {32, 32, 3}) +
                             layer("convolutional", "filters=16\nsize=1\nactivation=relu\n") +
                             convolutional(8, "leaky") + layer("maxpool", "size=2\nstride=2\n") +
                             layer("connected", "output=10\n") + layer("softmax");

// The forecast must count decoded images, libraries' workspaces and StarPU's own memory, because
// StarPU would try again and again to allocate what does not fit.
TEST(FailingGpu, what_is_suggested_for_a_small_one_trains_there) {
  const TemporaryDirectory folder;
  const std::string wide = folder / "wide.cfg";
  put(wide, kWideNet);
  const Setting small("OMNI_PLAYED_GPU_MEMORY", "60");
  using Words = std::vector<std::string>;
  // A deterministic training does not measure cuDNN's algorithms, which takes minutes on a played
  // GPU.
  for (const Words& net :
       {Words{"--net", wide}, Words{"--net", "cifar10-quick", "--batch", "498", "--deterministic"},
        Words{"--net", "lenet", "--batch", "996", "--deterministic"}}) {
    SCOPED_TRACE(net[1]);
    const auto train = [&](const std::string& subdivisions) {
      Words arguments{"--max-batches", "1", "--no-test", "--subdivisions", subdivisions};
      arguments.insert(arguments.end(), net.begin(), net.end());
      return omni_run(arguments);
    };
    const Finished run = train("1");
    EXPECT_EQ(run.exit_code, 4) << run.errors;
    const int fits = number_after(run.errors, "try --subdivisions ");
    ASSERT_GT(fits, 1) << run.errors;
    const Finished smaller = train(std::to_string(fits));
    EXPECT_EQ(smaller.exit_code, 0) << smaller.errors;
    EXPECT_NE(smaller.errors.find(" on each GPU, "), std::string::npos) << smaller.errors;
  }
}

// Other programs take the rest of the GPU's memory after StarPU's first allocation, which holds the
// small tensors. Then a kernel gets no workspace (lenet), or the second large tensor does not fit
// (wide.cfg). StarPU alone would try for ever.
TEST(FailingGpu, one_that_is_full_later_ends_with_what_would_fit) {
  const TemporaryDirectory folder;
  const std::string wide = folder / "wide.cfg";
  put(wide, kWideNet);
  ASSERT_EQ(omni_run({"devices"}).exit_code, 0);  // StarPU has measured what it copies to a GPU
  const Setting full("OMNI_PLAYED_GPU_FULL_AFTER", "1");
  for (const auto& [net, begin] :
       {std::pair{std::string("lenet"), "error: codelet conv_forward (cuda), layer 0, slice 0: "},
        std::pair{wide, "error: StarPU: a tensor needs "}}) {
    SCOPED_TRACE(net);
    const Finished run =
        omni_run({"--net", net, "--max-batches", "1", "--no-test", "--deterministic", "-q"});
    EXPECT_EQ(run.exit_code, 4) << run.errors;
    EXPECT_NE(run.errors.find(begin), std::string::npos) << run.errors;
    EXPECT_NE(run.errors.find("iB on GPU 0, 0 bytes are free"), std::string::npos) << run.errors;
    EXPECT_NE(run.errors.find("(try --subdivisions 2)"), std::string::npos) << run.errors;
  }
}

TEST(FailingGpu, one_too_small_to_measure_its_peak_says_so) {
  const Setting small("OMNI_PLAYED_GPU_MEMORY", "100");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"devices", "--peaks"},
        std::vector<std::string>{"time", "--net", "lenet"}}) {
    const Finished run = omni_run(arguments);
    EXPECT_EQ(run.exit_code, 4) << run.errors;
    EXPECT_NE(
        run.errors.find("error: measuring the peak needs 64.0 MiB on GPU 0, 36.0 MiB are free"),
        std::string::npos)
        << run.errors;
  }
}

TEST(FailingGpu, one_that_nothing_is_compiled_for_is_left_out) {
  const Setting old("OMNI_PLAYED_GPU_MAJOR", "7");
  const std::vector<std::string> short_run{"--net", "lenet", "--max-batches", "1", "--no-test"};
  const Finished without = omni_run(short_run);
  EXPECT_EQ(without.exit_code, 0) << without.errors;
  EXPECT_NE(without.errors.find("GPU 0 is left out: its compute capability is 7.0"),
            std::string::npos)
      << without.errors;
  std::vector<std::string> named = short_run;
  named.insert(named.end(), {"--gpus", "0"});
  EXPECT_EQ(omni_run(named).exit_code, 5);
}

// The program must print for each GPU why it is not used. The reasons differ.
TEST(FailingGpu, says_why_it_is_not_used) {
  const Setting two("OMNI_PLAYED_GPUS", "2");
  const auto unused = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "devices");
    const Finished run = omni_run(arguments);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    std::vector<std::string> reasons;
    std::istringstream lines(run.output);
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("GPU "))
        reasons.push_back(
            line.find("(unused: ") == std::string::npos ? "" : line.substr(line.find("(unused: ")));
    return reasons;
  };
  using Reasons = std::vector<std::string>;
  EXPECT_EQ(unused({}), (Reasons{"", ""}));
  EXPECT_EQ(unused({"--gpus", "1"}), (Reasons{"(unused: --gpus does not name it)", ""}));
  EXPECT_EQ(unused({"--gpus", "none"}),
            (Reasons{"(unused: --gpus none)", "(unused: --gpus none)"}));
  {
    const Setting one("STARPU_NCUDA", "1");
    EXPECT_EQ(unused({}), (Reasons{"", "(unused: STARPU_NCUDA is 1)"}));
  }
  const Setting old("OMNI_PLAYED_GPU_MAJOR", "7");
  const std::string reason =
      "(unused: its compute capability is 7.0, and this is compiled for 8.0 and later)";
  EXPECT_EQ(unused({}), (Reasons{reason, reason}));
}

}  // namespace
}  // namespace omni::test

#endif
