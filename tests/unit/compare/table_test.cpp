// These tests check the table of `omni-run compare`: its rows, the best strategy, and how certain
// the order is.
#include "apps/omni-run/compare/record.hpp"

#include <gtest/gtest.h>

namespace omni {
namespace {

perf::Training training(const char* strategy, int seed, double seconds, double accuracy) {
  return {.strategy = strategy,
          .seed = seed,
          .evaluations = {{.iteration = 10,
                           .seconds = seconds,
                           .test_accuracy = accuracy,
                           .epoch = 1,
                           .images = 100}}};
}

TEST(ComparisonTable, SaysWhichIsBestAndHowSure) {
  std::vector<perf::Training> trainings;
  for (int seed = 1; seed <= 3; ++seed) {
    trainings.push_back(training("sync", seed, seed, 0.9));
    trainings.push_back(training("async:2", seed, 0.5 * seed, 0.95));
  }
  EXPECT_EQ(comparison_table(perf::compare({"sync", "async:2"}, trainings, 0.9)),
            R"(to a test accuracy of 0.9, mean over seeds (lowest to highest)
strategy  reached  epochs                   time  updates         images/s  final accuracy
sync      3 of 3        1       2 s (1 s to 3 s)       10   61 (33 to 100)         90.00 %
async:2   3 of 3        1  1 s (500 ms to 1.5 s)       10  122 (67 to 200)         95.00 %

best by median time: async:2, 1 s
  ahead of sync in 3 of 3 seeds (sign test: p = 0.25)
)");
}

TEST(ComparisonTable, SaysWhichSecondsAreSimulated) {
  std::vector<perf::Training> trainings{training("sync", 1, 7, 0.9),
                                        training("async:2", 1, 7, 0.9)};
  for (perf::Training& each : trainings) each.evaluations[0].simulated_seconds = 0.25;
  EXPECT_EQ(comparison_table(perf::compare({"sync", "async:2"}, trainings, 0.9)),
            R"(to a test accuracy of 0.9, mean over seeds (lowest to highest)
strategy  reached  epochs  simulated time  updates  images/simulated s  final accuracy
sync      1 of 1        1          250 ms       10                 400         90.00 %
async:2   1 of 1        1          250 ms       10                 400         90.00 %

best by median simulated time: sync, 250 ms
  ahead of async:2 in 0 of 1 seeds (how sure: not known)
)");
  trainings[1].evaluations[0].simulated_seconds = perf::kAbsent;
  const std::string text = comparison_table(perf::compare({"sync", "async:2"}, trainings, 0.9));
  EXPECT_NE(text.find("async:2   0 of 1 "), std::string::npos) << text;
  EXPECT_NE(text.find("left out: evaluations without a simulated time: 1; a target may have been "
                      "reached in one of them\n"),
            std::string::npos)
      << text;
}

TEST(ComparisonTable, SaysWhatIsNotKnown) {
  const std::vector<perf::Training> one{training("sync", 1, 1, 0.9),
                                        training("async:2", 1, 2, 0.9)};
  const std::string text = comparison_table(perf::compare({"sync", "async:2"}, one, 0.9));
  EXPECT_NE(text.find("ahead of async:2 in 1 of 1 seeds (how sure: not known)"), std::string::npos)
      << text;
  const std::string none = comparison_table(perf::compare({"sync", "async:2"}, one, 0.95));
  EXPECT_NE(none.find("no strategy reached the target with most of its seeds"), std::string::npos)
      << none;
}

}  // namespace
}  // namespace omni
