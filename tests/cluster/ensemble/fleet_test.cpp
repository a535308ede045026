// These tests train members of unequal length over ranks. Long members have several ranks, and
// members move to ranks that become free. They learn the same bits as alone.
#include <gtest/gtest.h>

#include <ranges>
#include <set>

#include "tests/cluster/ensemble/ensembles_over_ranks.hpp"

namespace omni::test {
namespace {

namespace fs = std::filesystem;

class MembersThatMove : public testing::Test {
 protected:
  MembersThatMove() {
    put(file("small.cfg"),
        net(8, {8, 8, 1}, kSgd) + convolutional(4, "relu") + connected(3) + layer("softmax"));
  }
  std::string file(const std::string& name) const { return folder_ / name; }
  // Each mini-batch has four slices, which one to four ranks may share.
  Words all() const {
    return {"--data",
            "synthetic:60:3",
            "--slice",
            "2",
            "--test-every",
            "0",
            "--data-seed",
            "1",
            "--workers",
            "1",
            "--deterministic",
            "--gpus",
            "none"};
  }
  // `lengths` are numbers of mini-batches. A member is called "m" and its length, and its seed is
  // the length, too.
  Words ensemble(const std::vector<int>& lengths, const char* out, const Words& more = {}) {
    std::string text;
    for (const int each : lengths)
      text += fmt::format("--net {} --seed {} --max-batches {} --name m{}\n", file("small.cfg"),
                          each, each, each);
    put(file("members"), text);
    return Words{"ensemble", "--members", file("members"), "--out", file(out),
                 "--spread", "fleet",     "--move-gain",   "0"} +
           all() + more;
  }
  std::string weights_of(const char* out, int length) const {
    return get(folder_ / out / fmt::format("m{}", length) / "net.weights");
  }
  void expect_as_alone(const char* out, const std::vector<int>& lengths) {
    for (const int each : lengths) {
      const std::string number = std::to_string(each);
      if (!fs::exists(file("alone" + number))) {
        const Words words{"--net",          file("small.cfg"),      "--seed",
                          number,           "--max-batches",        number,
                          "--save-weights", file("alone" + number), "-q"};
        ASSERT_EQ(omni_run(words + all()).exit_code, 0);
      }
      EXPECT_TRUE(weights_of(out, each) == get(file("alone" + number))) << out << " m" << each;
    }
  }
  // Returns the numbers of ranks that the member had, in this order. Each iteration is recorded at
  // most once.
  std::vector<int> ranks_of(const char* out, const std::string& name) const {
    std::vector<int> all;
    std::set<int> iterations;
    for (const auto& line : read_metrics(folder_ / out / name / "metrics.jsonl")) {
      if (!line.contains("ranks")) continue;
      EXPECT_TRUE(iterations.insert(line["iteration"].get<int>()).second) << line;
      const int ranks = line["ranks"];
      if (all.empty() || all.back() != ranks) all.push_back(ranks);
    }
    return all;
  }

  // Several ranks that turn out to be slower than one are given back later.
  static bool begins(const std::vector<int>& ranks, const std::vector<int>& with) {
    return std::ranges::equal(ranks | std::views::take(with.size()), with);
  }

  TemporaryDirectory folder_;
};

TEST_F(MembersThatMove, HaveSeveralRanksFromTheBeginningIfTheyAreFew) {
  const std::vector<int> lengths{60, 240};
  for (int ranks = 3; ranks <= 4; ++ranks) {
    const std::string out = "run" + std::to_string(ranks);
    const Finished run = on_ranks(ranks, ensemble(lengths, out.c_str(), {"--display", "1"}));
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_EQ(ranks_of(out.c_str(), "m60").front(), 1);
    EXPECT_EQ(ranks_of(out.c_str(), "m240").front(), ranks - 1) << run.errors;
    expect_as_alone(out.c_str(), lengths);
  }
  const Finished one = on_ranks(2, ensemble({40}, "one"));
  ASSERT_EQ(one.exit_code, 0) << one.errors;
  EXPECT_EQ(ranks_of("one", "m40"), (std::vector{2}));
  expect_as_alone("one", {40});
}

TEST_F(MembersThatMove, TakeTheRanksOfThoseThatHaveEnded) {
  for (const char* share : {"all", "off"}) {
    const Finished run =
        on_ranks(2, ensemble({20, 10000}, share, {"--share", share, "--display", "1"}));
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_EQ(ranks_of(share, "m20"), (std::vector{1}));
    // It may not have begun before the short member ends.
    const std::vector<int> ranks = ranks_of(share, "m10000");
    EXPECT_TRUE(begins(ranks, {1, 2}) || begins(ranks, {2})) << run.errors;
    expect_as_alone(share, {20, 10000});
    const auto record = nlohmann::json::parse(get(folder_ / share / "ensemble.json"));
    for (const auto& member : record["members"]) EXPECT_EQ(member["state"], "finished") << member;
    EXPECT_EQ(record["state"], "finished");
  }
}

TEST_F(MembersThatMove, MoveOftenAndLearnTheSame) {
  const std::vector<int> lengths{20, 500, 1500, 25, 6000};
  for (int ranks = 2; ranks <= 4; ++ranks) {
    const std::string out = "run" + std::to_string(ranks);
    const Finished run = on_ranks(ranks, ensemble(lengths, out.c_str()));
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_GT(std::ranges::max(ranks_of(out.c_str(), "m6000")), 1) << run.errors;
    expect_as_alone(out.c_str(), lengths);
  }
}

// With --spread work nobody moves, and a rank without members prepares samples alone.
TEST_F(MembersThatMove, StayWithSpreadWork) {
  Words words = ensemble({20, 2000}, "run");
  *std::ranges::find(words, "fleet") = "work";
  const Finished run = on_ranks(3, words);
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(ranks_of("run", "m2000"), (std::vector{1}));
  expect_as_alone("run", {20, 2000});
}

// A member whose groups are tied to a rank moves, but never has several ranks.
TEST_F(MembersThatMove, AreNamedIfTheyCannotHaveSeveralRanks) {
  const Words words = ensemble({}, "run") + Words{"--max-batches", "40"};
  put(file("members"), "--net " + file("small.cfg") + " --strategy sma --groups 2 --name groups\n");
  const Finished run = on_ranks(2, words);
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_NE(run.errors.find("groups never has several ranks: its strategy has groups"),
            std::string::npos)
      << run.errors;
  EXPECT_EQ(ranks_of("run", "groups"), (std::vector{1}));
  put(file("members"), "--net " + file("small.cfg") + " --slice 8 --name whole\n");
  Words undivided = words;
  *std::ranges::find(undivided, file("run")) = file("undivided");
  const Finished whole = on_ranks(2, undivided);
  ASSERT_EQ(whole.exit_code, 0) << whole.errors;
  EXPECT_NE(whole.errors.find("whole never has several ranks: 2 ranks cannot share slices of 8 of "
                              "8 images (--slice 4, say)"),
            std::string::npos)
      << whole.errors;
  EXPECT_EQ(ranks_of("undivided", "whole"), (std::vector{1}));
}

// The loser of a sweep is dropped, and its rank helps the other one. Both have several ranks at
// times, and are compared at rungs.
TEST_F(MembersThatMove, TakeTheRanksOfThoseThatHaveLost) {
  put(file("plain.cfg"), net(8, {8, 8, 1}, "learning_rate=0.2\nmomentum=0.5\n") +
                             convolutional(4, "relu") + connected(3) + layer("softmax"));
  const auto words = [&](const char* out) {
    const std::string plain = "--net " + file("plain.cfg");
    Words all = ensemble({}, out, {"--stop", "asha:50:2", "--max-batches", "6400", "--json"});
    put(file("members"), plain + " --name good\n" + plain + " --learning-rate 1e-7 --name bad\n");
    *std::ranges::find(all, "synthetic:60:3") = "synthetic:600:3";
    return all;
  };
  for (const int ranks : {2, 4}) {
    const std::string out = "run" + std::to_string(ranks);
    const Finished run = on_ranks(ranks, words(out.c_str()));
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    const auto summary = nlohmann::json::parse(run.output);
    EXPECT_EQ(summary["best"], "good") << summary;
    EXPECT_EQ(summary["members"][0]["state"], "finished") << summary;
    EXPECT_EQ(summary["members"][1]["state"], "dropped") << summary;
    EXPECT_TRUE(begins(ranks_of(out.c_str(), "good"), {ranks / 2, ranks})) << run.errors;
  }
  const Words alone{
      "--net", file("plain.cfg"), "--max-batches", "6400", "--save-weights", file("good"), "-q"};
  Words options = all();
  *std::ranges::find(options, "synthetic:60:3") = "synthetic:600:3";
  ASSERT_EQ(omni_run(alone + options).exit_code, 0);
  for (const char* out : {"run2", "run4"})
    EXPECT_TRUE(get(folder_ / out / "good/net.weights") == get(file("good"))) << out;
}

// Rank 1 is killed while both ranks train the long member. The run goes on on another number.
TEST_F(MembersThatMove, GoOnAfterAKillOnAnotherNumberOfRanks) {
  const std::vector<int> lengths{20, 30, 4000};
  for (const int ranks : {1, 3}) {
    const std::string out = "run" + std::to_string(ranks);
    const Words words =
        ensemble(lengths, out.c_str(), {"--checkpoint-every", "100", "--resume", "auto"});
    const pid_t job = start_program(mpiexec(2, words));
    wait_for_text(file(out + "/m4000/metrics.jsonl"), "\"ranks\":2");
    const pid_t process = process_of_rank(1, file(out));
    ASSERT_GT(process, 0) << "the job ended before rank 1 was killed";
    kill(process, SIGKILL);
    EXPECT_NE(wait_for_program(job), 0);
    ASSERT_FALSE(fs::exists(file(out + "/m4000/net.weights"))) << "nothing is left to do";
    const Finished last = on_ranks(ranks, words);
    ASSERT_EQ(last.exit_code, 0) << last.errors;
    expect_as_alone(out.c_str(), lengths);
  }
}

// A request to stop in a phase with a moved member saves all members.
TEST_F(MembersThatMove, StopInOrder) {
  const pid_t job = start_program(mpiexec(2, ensemble({20, 1000000}, "run")));
  wait_for_text(file("run/m1000000/metrics.jsonl"), "\"ranks\":2");
  kill(process_of_rank(1, file("run")), SIGTERM);
  EXPECT_EQ(wait_for_program(job), 75);
  const auto record = nlohmann::json::parse(get(folder_ / "run/ensemble.json"));
  EXPECT_EQ(record["members"][0]["state"], "finished") << record;
  EXPECT_EQ(record["members"][1]["state"], "stopped") << record;
}

}  // namespace
}  // namespace omni::test
