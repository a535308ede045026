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

// Groups on several ranks tell each other of updates. The parts of a loss stay on their rank.
TEST(SeveralInputsOverRanks, GroupsTrainWithAnAuxiliaryLoss) {
  const TemporaryDirectory folder;
  put(folder / "n.cfg",
      "[net]\nbatch=8\ninputs=4\nlearning_rate=0.1\n[connected]\noutput=3\n"
      "[softmax]\nloss_weight=0.3\n[route]\nlayers=0\n[connected]\noutput=3\n[softmax]\n");
  for (const char* strategy : {"async", "local"}) {
    const Finished run = on_ranks(
        2, {"--net", folder / "n.cfg", "--data", "synthetic-vectors:40:4:3", "--workers", "1",
            "--groups", "2", "--strategy", strategy, "--max-batches", "20", "--log", "caffe"});
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_NE(run.errors.find("Train net output #0: "), std::string::npos) << run.errors;
  }
}

}  // namespace
}  // namespace omni::test
