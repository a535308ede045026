#include "perf/comparison/comparison.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "perf/report/page.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni::perf {
namespace {

using testing::HasSubstr;

// Returns a training that reaches each of the accuracies one epoch and `seconds` after the previous
// one. An epoch has 10 updates of 20 images.
Training training(const std::string& strategy, int seed, double seconds,
                  const std::vector<double>& accuracies) {
  Training made{.strategy = strategy, .seed = seed};
  for (const double accuracy : accuracies) {
    const auto epoch = static_cast<double>(made.evaluations.size() + 1);
    made.evaluations.push_back({.iteration = 10 * epoch,
                                .seconds = seconds * epoch,
                                .test_accuracy = accuracy,
                                .epoch = epoch,
                                .images = 200 * epoch});
  }
  return made;
}

TEST(Comparison, ReadsEvaluationsFromMetrics) {
  const test::TemporaryDirectory folder;
  test::put(folder / "m",
            "{\"iteration\":5,\"epoch\":0.5,\"images\":50,\"time\":1,\"accuracy\":0.9}\n"
            "{\"iteration\":10,\"epoch\":1,\"images\":100,\"time\":2,\"test_accuracy\":0.4}\n"
            "{\"iteration\":15,\"epoch\":1.5,\"images\":150,\"time\":1}\n"
            "{\"iteration\":20,\"epoch\":2,\"images\":200,\"time\":2,\"simulated_time\":70,"
            "\"test_accuracy\":0.8}\n"
            "{\"iteration\":20,\"simulated_time\":70,\"test_accuracy\":0.8}\n");
  const auto metrics = read_metrics(folder / "m");
  ASSERT_TRUE(metrics);
  const Training read{.strategy = "sync", .evaluations = evaluations_in(*metrics)};
  ASSERT_EQ(read.evaluations.size(), 2u);
  EXPECT_EQ(read.evaluations[0].images, 100);
  EXPECT_EQ(read.reached(0.4, false), &read.evaluations[0]);
  EXPECT_EQ(read.reached(0.41, false), &read.evaluations[1]);
  EXPECT_EQ(read.reached(0.9, false), nullptr) << "accuracy on training images";
  EXPECT_EQ(read.evaluations[1].seconds, 4) << "of both starts";
  EXPECT_EQ(seconds_of(read.evaluations[0], false), 2);
  EXPECT_EQ(seconds_of(read.evaluations[1], true), 70) << "the virtual clock";
  EXPECT_TRUE(std::isnan(seconds_of(read.evaluations[0], true)));
  EXPECT_EQ(read.reached(0.4, true), &read.evaluations[1]) << "the first one on this clock";
}

// A file may hold a training with the virtual clock and one without it.
TEST(Comparison, NeverMixesRealAndSimulatedSeconds) {
  std::vector<Training> trainings{training("sync", 1, 1, {0.5, 0.9, 0.9}),
                                  training("async:4", 1, 1, {0.9, 0.9})};
  trainings[0].evaluations[0].simulated_seconds = 100;
  trainings[0].evaluations[2].simulated_seconds = 300;
  for (std::size_t i = 0; i < 2; ++i)
    trainings[1].evaluations[i].simulated_seconds = 50.0 * static_cast<double>(i + 1);
  const Comparison found = compare({"sync", "async:4"}, trainings, 0.9);
  EXPECT_TRUE(found.simulated);
  EXPECT_EQ(found.left_out, 1u);
  EXPECT_EQ(found.rows[0].seconds.max, 300) << "not the 2 real seconds of the line before";
  EXPECT_EQ(found.best, "async:4");
  EXPECT_EQ(found.leads[0].ahead, 1);
  EXPECT_EQ(found.rows[0].images_per_second.max, 2);
  trainings[0].evaluations.pop_back();
  const Comparison without_end = compare({"sync", "async:4"}, trainings, 0.9);
  EXPECT_EQ(without_end.rows[0].reached, 0);
  EXPECT_EQ(without_end.rows[0].images_per_second.count, 0u);
  const auto table = comparison_json(without_end, trainings);
  EXPECT_EQ(table["clock"], "virtual");
  EXPECT_EQ(table["left_out"], 1);
  EXPECT_TRUE(table["trainings"][0]["reached"].is_null());
  EXPECT_EQ(table["trainings"][0]["evaluations"].size(), 2u) << "the record keeps all";
}

TEST(Comparison, OfRealSecondsLeavesNothingOut) {
  const std::vector<Training> trainings{training("sync", 1, 2, {0.9})};
  const Comparison found = compare({"sync"}, trainings, 0.9);
  EXPECT_FALSE(found.simulated);
  EXPECT_EQ(found.left_out, 0u);
  EXPECT_EQ(comparison_json(found, trainings)["clock"], "real");
}

TEST(Comparison, SummarisesOverSeeds) {
  std::vector<Training> trainings{
      training("sync", 1, 2, {0.5, 0.9, 0.8}), training("sync", 2, 4, {0.95, 0.7}),
      training("async:4", 1, 1, {0.5, 0.6}), training("async:4", 2, 1, {0.9})};
  trainings[2].outcome = Outcome::diverged;
  const Comparison found = compare({"sync", "async:4"}, trainings, 0.9);
  const StrategyRow& sync = found.rows[0];
  EXPECT_EQ(sync.reached, 2);
  EXPECT_EQ(sync.epochs.mean, 1.5);
  EXPECT_EQ(sync.seconds.min, 4);
  EXPECT_EQ(sync.seconds.max, 4);
  EXPECT_EQ(sync.updates.max, 20);
  EXPECT_EQ(sync.images_per_second.mean, 75);
  EXPECT_EQ(sync.accuracy.mean, 0.75);
  EXPECT_EQ(sync.median_seconds, 4);
  const StrategyRow& async = found.rows[1];
  EXPECT_EQ(async.trainings, 2);
  EXPECT_EQ(async.reached, 1);
  EXPECT_EQ(async.diverged, 1);
  EXPECT_EQ(async.accuracy.count, 1u) << "what diverged has no final accuracy";
  EXPECT_TRUE(std::isinf(async.median_seconds)) << "half of the seeds never reached it";
  EXPECT_EQ(found.best, "sync");
  ASSERT_EQ(found.leads.size(), 1u);
  EXPECT_EQ(found.leads[0].ahead, 1);
  EXPECT_EQ(found.leads[0].behind, 1);
  EXPECT_EQ(found.leads[0].p, 1);
}

TEST(Comparison, WithOneSeedKnowsNotHowSure) {
  const std::vector<Training> trainings{training("a", 1, 1, {0.9}), training("b", 1, 2, {0.9})};
  const Comparison found = compare({"a", "b"}, trainings, 0.9);
  EXPECT_EQ(found.best, "a");
  EXPECT_EQ(found.leads[0].ahead, 1);
  EXPECT_TRUE(std::isnan(found.leads[0].p));
  EXPECT_EQ(compare({"a", "b"}, trainings, 0.95).best, "");
}

TEST(Comparison, SignTest) {
  EXPECT_NEAR(sign_test(3, 0), 0.25, 1e-12);
  EXPECT_NEAR(sign_test(0, 6), 2.0 / 64, 1e-12);
  EXPECT_NEAR(sign_test(7, 1), 2.0 * 9 / 256, 1e-12);
  EXPECT_EQ(sign_test(0, 0), 1);
  EXPECT_EQ(sign_test(2, 2), 1);
}

TEST(Comparison, TrainingsAreReadAgain) {
  Training made = training("async:4", 3, 1.5, {0.5, 0.9});
  made.outcome = Outcome::diverged;
  const auto text = training_json(made, 0.9, false).dump();
  const auto again = read_training(nlohmann::json::parse(text));
  ASSERT_TRUE(again);
  EXPECT_EQ(training_json(*again, 0.9, false).dump(), text);
  EXPECT_THAT(text, HasSubstr("\"reached\":{\"iteration\":20.0,\"epoch\":2.0"));
  for (const char* bad :
       {"[]", "{}", R"({"strategy":1,"seed":1,"outcome":"trained","evaluations":[]})",
        R"({"strategy":"a","seed":1,"outcome":"won","evaluations":[]})"})
    EXPECT_FALSE(read_training(nlohmann::json::parse(bad))) << bad;
}

TEST(Comparison, ThePageHoldsDataAndRefersToNothingOutside) {
  const std::string page =
      filled_page(kComparisonTemplate, "{\"net\":\"</script><b>\"}", kComparisonScript);
  EXPECT_EQ(page.find("</script><b>"), std::string::npos);
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* outside : {"src=", "href=\"http", "url(", "@import", "fetch(", "import(", "{{"})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
}

}  // namespace
}  // namespace omni::perf
