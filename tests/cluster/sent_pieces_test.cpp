// These tests train over ranks with coded messages (--send), where parameters have several pieces
// and where contributions to meetings move between ranks.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/formats/parameters.hpp"
#include "scheduling/groups/compute_groups.hpp"
#include "tests/cluster/small_training.hpp"
#include "tests/support/group_training.hpp"

namespace omni::test {
namespace {

class SentPieces : public SmallTraining {
 protected:
  static std::vector<float> values_in(const std::string& weights, const std::string& cfg) {
    ComputeGroups groups(
        std::move(*Net::build(*read_darknet_cfg(cfg), {.training = true, .slice = 2})));
    EXPECT_TRUE(groups.allocate());
    EXPECT_TRUE(load_parameter_files(groups.net(), parameter_files(weights)));
    std::vector<float> all;
    for (const Param* param : groups.net().params()) {
      const std::vector<float> own = test::values(*param->master);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }
  std::vector<float> trained_on(int ranks, const std::string& net, int iterations, Words more) {
    const std::string weights = folder_ / "weights";
    more.insert(more.end(), {"--save-weights", weights});
    const Finished run = on_ranks(ranks, training(net, iterations, more));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return values_in(weights, net);
  }
};

// On two ranks the first of two groups has contributed to the next meeting. On four ranks, the
// first rank has that contribution, also to pieces that other ranks contribute. The learning rate
// is so small then that further meetings only send what was left out. So all of it arrives.
TEST_F(SentPieces, contributions_arrive_on_more_ranks) {
  const std::string net = net_of(2 * kHalf), out = folder_ / "run", kept = folder_ / "kept";
  const Words how{"--strategy", "local", "--sync-every", "3"};
  Words first = how;
  first.insert(first.end(), {"--groups", "2", "--out", kept, "--checkpoint-every", "5"});
  trained_on(2, net, 5, first);
  const auto values = [&](const char* send) {
    std::filesystem::remove_all(out);
    std::filesystem::copy(kept, out, std::filesystem::copy_options::recursive);
    Words more = how;
    more.insert(more.end(), {"--group-layout", "0-1:0;2-3:0", "--learning-rate", "1e-12", "--send",
                             send, "--out", out, "--resume", "auto"});
    return trained_on(4, net, 60, more);
  };
  const std::vector<float> whole = values("fp32"), coded = values("top:20%");
  for (std::size_t i = 0; i < whole.size(); ++i) ASSERT_NEAR(coded[i], whole[i], 1e-6) << i;
}

}  // namespace
}  // namespace omni::test
