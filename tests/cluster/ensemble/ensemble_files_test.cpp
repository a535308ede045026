// These tests look at what the members of an ensemble over ranks write besides their results.
#include <gtest/gtest.h>

#include <set>

#include "tests/cluster/ensemble/ensembles_over_ranks.hpp"

namespace omni::test {
namespace {

// Each member has a trace of its own, as in one process.
TEST_F(EnsemblesOverRanks, TraceEachMember) {
  const Finished run = on_ranks(2, ensemble("ranks") + Words{"--trace", file("traces")});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(entries_in(file("traces")), 4);
  for (const char* name : {"small-1", "small-2", "seven", "wide"}) {
    EXPECT_EQ(entries_in(folder_ / "traces" / name), 1) << name;
    std::istringstream trace(get(folder_ / "traces" / name / "rank-0.jsonl"));
    std::set<int> iterations;
    nlohmann::json last;
    for (std::string line; std::getline(trace, line);) {
      last = nlohmann::json::parse(line);
      if (line.starts_with("{\"iteration\":")) iterations.insert(last["iteration"].get<int>());
    }
    EXPECT_EQ(iterations.size(), 60u) << name;
    EXPECT_GT(last.value("tasks", 0), 60) << name;
  }
}

// The rank of a long training gets no other member. Only members of the first rank print lines.
TEST_F(EnsemblesOverRanks, AreSharedOutByTheirWork) {
  const std::string small = "--net " + file("small.cfg");
  put(file("members"), small + " --name short\n" + small + " --max-batches 400 --name long\n" +
                           small + " --name third\n" + small + " --name fourth\n");
  Words words{"ensemble", "--members", file("members"), "--out", file("run")};
  const Finished run = on_ranks(2, words + all());
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  for (const char* name : {"short", "long", "third", "fourth"})
    EXPECT_EQ(run.errors.find(std::string("\n") + name + ": ") != std::string::npos,
              name == std::string("long"))
        << name << " of\n"
        << run.errors;
}

// Samples are prepared as for a training, on the ranks that prepare, and nothing is trained.
TEST_F(EnsemblesOverRanks, OnlyPrepareTheirSamples) {
  Words words = ensemble("prepared") + Words{"--prepare-only", "300", "--share", "all", "--json"};
  const Finished run = on_ranks(2, words);
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(numbers_after(run.errors, "samples by rank: prepared"), (std::vector{300, 300}))
      << run.errors;
  std::set<std::string> names;
  const auto summary = nlohmann::json::parse(run.output);
  for (const auto& member : summary["members"]) {
    EXPECT_GT(member["samples_per_second"], 0) << member;
    names.insert(member["name"]);
  }
  EXPECT_EQ(names, (std::set<std::string>{"small-1", "small-2", "seven", "wide"}));
  EXPECT_FALSE(std::filesystem::exists(file("prepared")));
}

}  // namespace
}  // namespace omni::test
