// These tests check that every shipped net builds, prints its layer table, and lowers its loss on
// synthetic images or vectors.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/support/equal_but_for_rounding.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

struct NetCase {
  const char* name;
  int batch, iterations;
  const char* learning_rate;
  std::string data = "synthetic:";  // and how many
};

class Nets : public testing::TestWithParam<NetCase> {};

TEST_P(Nets, LowersItsLoss) {
  const NetCase& net = GetParam();
  const TemporaryDirectory folder;
  const std::string metrics = folder / "metrics.jsonl";
  const std::string batch = std::to_string(net.batch);
  // The data set holds one mini-batch, so the loss on images that were seen before must fall.
  const Finished run = omni_run(
      {"--net", net.name, "--batch", batch, "--max-batches", std::to_string(net.iterations),
       "--learning-rate", net.learning_rate, "--data", net.data + batch, "--metrics", metrics,
       "--subdivisions=1", "--momentum=0.5", "--policy=constant", "--burn-in=0", "--display=1"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_NE(run.errors.find("parameters"), std::string::npos) << "no layer table";

  std::vector<double> losses;
  for (const auto& line : read_metrics(metrics))
    if (line.contains("loss")) losses.push_back(line["loss"]);
  ASSERT_EQ(losses.size(), static_cast<std::size_t>(net.iterations));
  const double late = (losses[losses.size() - 1] + losses[losses.size() - 2]) / 2;
  EXPECT_LT(late, 0.9 * losses.front());
  for (const double loss : losses) EXPECT_TRUE(std::isfinite(loss));
}

// Every implementation for CPUs must give these losses. Nets that take minutes are tested by hand,
// with --gtest_also_run_disabled_tests. Without --impl, measured times would choose the
// implementations. Two runs might then round differently.
class TenStepsOf : public testing::TestWithParam<TenSteps> {};

std::vector<double> ten_losses(const TenSteps& steps, const std::string& net,
                               const std::string& implementation) {
  const TemporaryDirectory folder;
  const std::string metrics = folder / "metrics.jsonl";
  std::vector<std::string> arguments = steps.arguments();
  arguments.insert(arguments.end(),
                   {"--net", net, "--slice", steps.batch, "--gpus", "none", "--no-test", "--impl",
                    implementation, "--deterministic", "--metrics", metrics, "--display", "1", "-q",
                    "--out", folder / "run"});
  const Finished run = omni_run(arguments);
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  std::vector<double> losses;
  for (const auto& line : read_metrics(metrics))
    if (line.contains("loss")) losses.push_back(line["loss"]);
  return losses;
}

TEST_P(TenStepsOf, differ_by_rounding_only) {
  const TenSteps& steps = GetParam();
  const auto one = ten_losses(steps, steps.net, "onednn"),
             other = ten_losses(steps, steps.net, "lowering_onednn");
  for (const char* implementation : {"lowering", "winograd", "winograd_8x8"}) {
    SCOPED_TRACE(implementation);
    expect_equal_but_for_rounding(ten_losses(steps, steps.net, implementation), one, other);
  }
}

TEST(TenStepsOfMutants, show_a_layer_that_does_not_learn) {
  const TemporaryDirectory folder;
  const std::string net = folder / "alexnet.cfg", section = "[convolutional]\n";
  std::string text = get(OMNI_SOURCE_DIR "/apps/nets/alexnet.cfg");
  const std::size_t second = text.find(section, text.find(section) + 1);
  put(net, text.insert(second + section.size(), "stopbackward=1\n"));
  const TenSteps steps{"alexnet"};
  const auto one = ten_losses(steps, steps.net, "onednn");
  EXPECT_NE(first_step_beyond_rounding(ten_losses(steps, net, "onednn"), one,
                                       ten_losses(steps, steps.net, "lowering_onednn")),
            0u);
}

INSTANTIATE_TEST_SUITE_P(Shipped, TenStepsOf, testing::ValuesIn(kTenSteps), [](const auto& each) {
  const bool large = each.param.size == TenSteps::Size::large;
  return (large ? "DISABLED_" : "") + each.param.test_name();
});

// CaffeNet has convolutions with groups and normalisation across channels. ResNet-18 has batch
// normalisation.
TEST(Time, IsTakenOfWhateverNet) {
  for (const char* net : {"caffenet", "resnet-18"}) {
    const Finished run = omni_run({"time", "--net", net, "--batch", "4", "--subdivisions", "1",
                                   "--warm-up", "1", "--iterations", "1", "--json"});
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_GT(nlohmann::json::parse(run.output)["images_per_second"], 0) << net;
  }
}

// Returns the MiB in the memory line that ends with `end`.
double memory_in(const std::string& text, const std::string& end) {
  const std::size_t at = text.find(end), line = text.rfind("memory: ", at);
  return at == text.npos ? NAN : std::stod(text.substr(line + 8));
}

// Each case trains long enough for every implementation to compute once, because the plan counts
// the memory of all of them.
struct MemoryCase {
  const char *net, *precision, *batch, *iterations;
};

TEST(Memory, IsWhatWasPlanned) {
  for (const MemoryCase& each :
       {MemoryCase{"lenet", "fp32", "32", "300"}, MemoryCase{"mlp", "fp32", "64", "300"},
        MemoryCase{"caffenet", "fp32", "32", "4"}, MemoryCase{"caffenet", "bf16", "32", "4"}}) {
    const Finished run =
        omni_run({"--net", each.net, "--precision", each.precision, "--batch", each.batch,
                  "--subdivisions", "1", "--max-batches", each.iterations, "--no-test", "--gpus",
                  "none", "--data", "synthetic:64"});
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    const double planned = memory_in(run.errors, " MiB planned"),
                 used = memory_in(run.errors, " MiB at most");
    EXPECT_NEAR(planned / used, 1, 0.05) << each.net << ", " << each.precision << "\n"
                                         << run.errors;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shipped, Nets,
    testing::Values(NetCase{"lenet", 32, 40, "0.02"}, NetCase{"mlp", 32, 30, "0.02"},
                    NetCase{"cifar10-quick", 32, 50, "0.01"},
                    NetCase{"small-photos", 32, 50, "0.01"}, NetCase{"alexnet", 8, 5, "0.005"},
                    NetCase{"caffenet", 8, 5, "0.005"}, NetCase{"vgg-16", 2, 5, "0.0005"},
                    NetCase{"resnet-18", 4, 4, "0.02"}, NetCase{"resnet-50", 4, 8, "0.02"},
                    NetCase{"darknet19", 4, 5, "0.02"}, NetCase{"resnet-18-32", 8, 6, "0.02"},
                    NetCase{"covtype-mlp", 32, 80, "0.03", "synthetic-vectors:"},
                    NetCase{"w8a-mlp", 32, 80, "0.03", "synthetic-vectors:"}),
    [](const auto& net) {
      std::string name = net.param.name;
      std::erase(name, '-');
      return name;
    });

}  // namespace
}  // namespace omni::test
