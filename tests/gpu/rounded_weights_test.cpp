// These tests check the copies of weights in bf16, for products: which weights have a copy, and
// that copies are updated.
#include <starpu.h>

#include <set>

#include "codelets/elementwise/exchange.hpp"
#include "layers/formats/darknet/darknet.hpp"
#include "layers/net.hpp"
#include "runtime/tasks/host_access.hpp"
#include "runtime/tasks/session.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "tests/gpu/training.hpp"

namespace omni::test {
namespace {

std::vector<float> values_of(const Tensor& tensor) {
  return HostAccess(tensor, HostAccess::Mode::read).values();
}

// The copy in bf16 must change when the host writes the weights, and with every update.
TEST(RoundedWeights, follow) {
  const TemporaryDirectory models;
  SessionOptions options;
  options.cpu_workers = 1;
  options.gpus = {0};
  options.gpus_alone = true;
  options.models = models.path();
  const auto session = Session::start(options);
  ASSERT_TRUE(session) << session.error().message();
  constexpr std::size_t kCount = 1001;
  Tensor master("master", kCount), diff("diff", kCount), velocity("velocity", kCount),
      copy("copy", kCount, DataType::bf16);
  master.round_into(copy);
  for (Tensor* tensor : {&master, &diff, &velocity, &copy}) ASSERT_TRUE(tensor->allocate());
  const auto write = [](const Tensor& tensor, float factor) {
    const HostAccess access(tensor, HostAccess::Mode::write);
    for (std::size_t i = 0; i < kCount; ++i)
      access.f32()[i] = factor * (1 + static_cast<float>(i) / 7);
  };
  const auto expect_rounded = [&] {
    const auto exact = values_of(master), rounded = values_of(copy);
    for (std::size_t i = 0; i < kCount; ++i)
      EXPECT_EQ(rounded[i], static_cast<float>(Bf16(exact[i]))) << i;
    return exact[kCount / 2];
  };
  for (const float factor : {1.0f, -3.0f}) {
    write(master, factor);
    const float before = expect_rounded();
    write(diff, 1);
    const Exchange update{{.learning_rate = 0.5f}, {master, diff, velocity}};
    submit_exchanges({&update, 1}, ExchangeOrder::submission);
    ASSERT_TRUE(wait_for_tasks());
    EXPECT_NE(expect_rounded(), before);
  }
}

// Found has the names of weights with a copy in bf16, and of tensors that products read as weights.
struct Found {
  std::set<std::string> copied, read;
};
Found found_in(BuildOptions build, bool gpus_alone = true) {
  set_implementation_policy({.preferred = "",
                             .gpu_workers = {1},
                             .precision = Precision::bf16,
                             .gpus_alone = gpus_alone});
  auto net = Net::build(*parse_darknet_cfg("[net]\nbatch=8\nheight=16\nwidth=16\nchannels=1\n"
                                           "[convolutional]\nfilters=4\nsize=3\npad=1\n"
                                           "[deconvolutional]\nfilters=4\nsize=2\nstride=2\n"
                                           "[connected]\noutput=3\n[softmax]\n",
                                           "net"),
                        build);
  EXPECT_TRUE(net) << net.error().message();
  Found found;
  for (const Param* param : (*net)->params())
    if (param->master->rounded() != nullptr) found.copied.insert(param->name);
  for (const CapturedTask& task : (*net)->capture_tasks(task_capture::Working::unknown))
    if (task.codelet.starts_with("conv") || task.codelet.starts_with("connected"))
      found.read.insert(task.uses[1].part.tensor->name());
  set_implementation_policy({});
  return found;
}

constexpr DataType kBf16 = DataType::bf16;

TEST(RoundedWeights, are_what_products_of_a_group_of_gpus_read) {
  for (const int gpus : {1, 2}) {
    const Found found = found_in({.training = true, .gpus = gpus, .values = kBf16});
    EXPECT_EQ(found.copied,
              (std::set<std::string>{"000.convolutional.weights", "001.deconvolutional.weights",
                                     "002.connected.weights"}));
    for (const std::string& name : found.copied) EXPECT_FALSE(found.read.contains(name)) << name;
  }
}

TEST(RoundedWeights, are_nowhere_else) {
  EXPECT_TRUE(found_in({.training = true, .gpus = 1}).copied.empty());
  EXPECT_TRUE(found_in({.training = false, .gpus = 1, .values = kBf16}).copied.empty());
  EXPECT_TRUE(found_in({.training = true, .cores = 1, .values = kBf16}).copied.empty());
  EXPECT_TRUE(found_in({.training = true, .gpus = 1, .shares = {.ranks = 2}, .values = kBf16})
                  .copied.empty());
  EXPECT_TRUE(
      found_in({.training = true, .gpus = 1, .values = kBf16, .sharing = {.replicas = true}})
          .copied.empty());
  EXPECT_TRUE(found_in({.training = true, .gpus = 1, .values = kBf16}, false).copied.empty());
}

// A checkpoint holds only floats. The learning rate is so large that products of the initial
// weights would give other losses.
TEST_F(Training, in_bf16_goes_on_from_a_checkpoint) {
  const auto train = [&](const char* most, Words more) {
    more.insert(more.end(), {"--max-batches", most, "--impl", "cuda", "--deterministic",
                             "--precision", "bf16", "--learning-rate", "0.05"});
    return losses(mixed(), more, "8");
  };
  const auto all = train("6", {});
  std::filesystem::remove_all(folder_ / "run");
  train("3", {"--checkpoint-every", "3"});
  const auto rest = train("6", {"--resume", "auto"});
  ASSERT_EQ(rest.size(), 3u);
  EXPECT_EQ(rest, std::vector<double>(all.begin() + 3, all.end()));
}

}  // namespace
}  // namespace omni::test
