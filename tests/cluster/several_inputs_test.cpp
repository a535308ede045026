// These tests train nets with several inputs over two ranks.
#include "tests/support/caffe/several_inputs.hpp"

#include <gtest/gtest.h>

#include "tests/cluster/ranks.hpp"

namespace omni::test {
namespace {

// Ranks that share each mini-batch compute the parameters of one rank, bit for bit. Groups of one
// rank each learn, too.
TEST(SeveralInputsOverRanks, AreTrainedAsOnOne) {
  const TemporaryDirectory folder;
  for (const auto& words : {two_towers(folder), denoiser(folder)}) {
    const auto trained = [&](int ranks, const Words& more) {
      Words all = words;
      const std::string file = folder / "w.weights";
      all.insert(all.end(), {"--workers", "1", "--max-batches", "8", "--save-weights", file});
      all.insert(all.end(), more.begin(), more.end());
      const Finished run = on_ranks(ranks, all);
      EXPECT_EQ(run.exit_code, 0) << run.errors;
      return get(file);
    };
    const Words same{"--deterministic", "--slice", "8"};
    EXPECT_TRUE(trained(1, same) == trained(2, same));
    EXPECT_FALSE(trained(2, {"--groups", "2", "--fc", "replicated"}).empty());
    if (words[0] != "--net") continue;
    // A merged phase of the towers would read an input, which groups do not send. So groups have
    // copies of all layers.
    const std::string metrics = folder / "m.jsonl";
    EXPECT_FALSE(trained(2, {"--groups", "2", "--metrics", metrics, "--display", "1"}).empty());
    for (const auto& line : read_metrics(metrics)) EXPECT_FALSE(line.contains("fc_staleness"));
  }
}

}  // namespace
}  // namespace omni::test
