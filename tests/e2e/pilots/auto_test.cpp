// These tests check what omni-run --auto prints and records, and that it can be stopped and
// resumed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <regex>
#include <thread>

#include "tests/support/net_text.hpp"
#include "tests/support/omni_perf.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

const std::string kAutoNet = net(8, {12, 12, 1}, "learning_rate=0.05\nmomentum=0.9\n") +
                             convolutional(6, "relu") + layer("maxpool", "size=2\nstride=2\n") +
                             connected(10) + layer("softmax");

class Auto : public testing::Test {
 protected:
  Auto() { put(folder_ / "net.cfg", kAutoNet); }

  std::vector<std::string> command(std::vector<std::string> more) {
    std::vector<std::string> all{
        "--net",  folder_ / "net.cfg", "--data", "synthetic:300:10", "--no-test",
        "--auto", "--groups",          "2"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Finished train(std::vector<std::string> more) { return omni_run(command(std::move(more))); }

  TemporaryDirectory folder_;
};

TEST_F(Auto, EveryTrialIsRecorded) {
  const fs::path metrics = folder_ / "metrics.jsonl";
  const Finished run = train({"--max-batches", "1900", "--metrics", metrics, "--display", "100"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.errors, HasSubstr("auto: per iteration "));
  std::size_t trials = 0, chosen = 0, chosen_groups = 0, others = 0;
  std::uint64_t discarded = 0;
  for (const auto& line : read_metrics(metrics)) {
    ASSERT_TRUE(line.contains("iteration"));
    for (const char* kind : {"timed_groups", "swept_from", "returned_to", "discarded_iterations"})
      others += line.contains(kind) ? 1 : 0;
    discarded = line.value("discarded_iterations", discarded);
    if (line.contains("timed_groups")) {
      EXPECT_GT(line["seconds_per_iteration"], 0);
      chosen_groups += line["chosen"].get<bool>() ? 1 : 0;
    }
    if (!line.contains("trial")) continue;
    EXPECT_EQ(line["trial"], ++trials);
    EXPECT_NE(line["reason"], "");
    EXPECT_GE(line["groups"], 1);
    EXPECT_LE(line["groups"], 2);
    EXPECT_TRUE(line["momentum"].is_number() && line["learning_rate"].is_number());
    EXPECT_TRUE(line["seconds"].is_number() && line["iterations"].is_number_unsigned());
    EXPECT_NE(line.contains("score"), line.contains("diverged") || line.contains("behind"));
    if (line["chosen"].get<bool>()) ++chosen;
    EXPECT_THAT(run.errors, HasSubstr("auto: trial " + std::to_string(trials) + ": "));
  }
  EXPECT_GE(trials, 3u);
  EXPECT_GE(chosen, 2u);
  EXPECT_EQ(chosen_groups, 1u);

  const Finished explained = omni_run({"explain", metrics});
  ASSERT_EQ(explained.exit_code, 0) << explained.errors;
  EXPECT_THAT(explained.output, HasSubstr("iteration 0: search"));
  EXPECT_THAT(explained.output, HasSubstr("the setting to beat"));
  EXPECT_THAT(explained.output, HasSubstr(std::to_string(trials) + " trials took "));
  // All outputs give the same number of discarded iterations.
  EXPECT_GT(discarded, 0u);
  const std::string cost = std::to_string(discarded) + " iterations";
  EXPECT_THAT(explained.output, HasSubstr("discarded " + cost));
  EXPECT_THAT(run.errors, HasSubstr("seconds, " + cost));
  EXPECT_EQ(nlohmann::json::parse(omni_run({"explain", metrics, "--json"}).output).size(),
            trials + others);
  put(folder_ / "other", "no metrics\n{}\n");
  const Finished refused = omni_run({"explain", folder_ / "other"});
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.errors, HasSubstr("other:1: is no line of metrics"));
  EXPECT_EQ(omni_run({"explain", folder_ / "none"}).exit_code, 2);
}

// With this learning rate, all outputs of this net's layers become 0 within two hundred iterations.
TEST_F(Auto, ANetThatDiesGoesBackToWhereItLived) {
  std::string net = "[net]\nbatch=32\nheight=28\nwidth=28\nchannels=1\n";
  for (const char* filters : {"16", "16", "32"})
    net += std::string("[convolutional]\nfilters=") + filters +
           "\nsize=3\npad=1\nactivation=relu\n[maxpool]\nsize=2\nstride=2\n";
  put(folder_ / "dies.cfg", net + "[connected]\noutput=10\nactivation=linear\n[softmax]\n");
  const Finished run = omni_run({"--net", folder_ / "dies.cfg", "--data", "synthetic:6400",
                                 "--max-batches", "900", "--learning-rate", "0.05", "--momentum",
                                 "0.9", "--workers", "1", "--groups", "1", "--auto", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_GT(nlohmann::json::parse(run.output)["test_accuracy"], 0.9) << run.errors;
}

// With a virtual clock no times are measured. Trials, choices and losses are the same with any
// number of workers.
TEST_F(Auto, OnAVirtualClockTwoRunsAreTheSame) {
  const auto run_with = [this](const char* workers) {
    const fs::path metrics = folder_ / (std::string("metrics") + workers);
    const Finished run =
        omni_run({"--net", folder_ / "net.cfg", "--data", "synthetic:300:10", "--auto",
                  "--arrivals", "virtual", "--machine", "8-gpus", "--max-batches", "1600",
                  "--workers", workers, "--gpus", "none", "--metrics", metrics, "--display", "50"});
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    std::vector<nlohmann::json> lines;
    for (nlohmann::json line : read_metrics(metrics)) {
      for (const char* measured : {"time", "images_per_second", "seconds"}) line.erase(measured);
      lines.push_back(line);
    }
    return lines;
  };
  const auto one = run_with("1"), two = run_with("2");
  EXPECT_EQ(one, two);
  const auto timed = [](const nlohmann::json& line) { return line.contains("timed_groups"); };
  EXPECT_GE(std::ranges::count_if(one, timed), 4);
  double before = 0;
  for (const nlohmann::json& line : one)
    if (line.contains("simulated_time")) {
      EXPECT_GE(line["simulated_time"].get<double>(), before);
      before = line["simulated_time"].get<double>();
    }
  EXPECT_GT(before, 0);
  EXPECT_TRUE(one.back().contains("test_accuracy") && one.back().contains("simulated_time"));
}

// The published optimizer's example named a file that does not exist.
TEST_F(Auto, ExamplesNameNetsThatExist) {
  const std::string help = omni_run({"--help"}).output;
  const std::regex name("--net ([a-z0-9-]+(.cfg)?)");
  const std::sregex_iterator first(help.begin(), help.end(), name), last;
  EXPECT_GE(std::distance(first, last), 3);
  for (auto match = first; match != last; ++match)
    EXPECT_EQ(omni_run({"--net", (*match)[1], "--dry-run"}).exit_code, 0) << (*match)[1];
}

// Only trials begin the same iteration several times, so their trace is special.
TEST_F(Auto, ItsTraceCanBeRead) {
  const fs::path trace = folder_ / "trace";
  ASSERT_EQ(train({"--max-batches", "1900", "--trace", trace}).exit_code, 0);
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"summary", trace}, {"report", trace, "--html", folder_ / "report.html"}}) {
    const Finished read = omni_perf(words);
    EXPECT_EQ(read.exit_code, 0) << read.errors;
  }
}

// In the published optimizer an assertion failed in this case.
TEST_F(Auto, WhenEveryTrialDivergesTheErrorSaysSo) {
  const Finished run = train({"--learning-rate", "1e30", "--max-batches", "1900"});
  EXPECT_EQ(run.exit_code, 6);
  EXPECT_THAT(run.errors, HasSubstr("error: --auto: all "));
  EXPECT_THAT(run.errors, HasSubstr("lower --learning-rate"));
}

TEST_F(Auto, ResumeGoesOnWithWhatWasFound) {
  const fs::path run = folder_ / "run", metrics = folder_ / "metrics.jsonl";
  const std::vector<std::string> common{"--out",     run,     "--checkpoint-every", "1900",
                                        "--metrics", metrics, "--resume",           "auto"};
  const auto with = [&](const char* max_batches) {
    std::vector<std::string> all = common;
    all.insert(all.end(), {"--max-batches", max_batches});
    return all;
  };
  ASSERT_EQ(train(with("1900")).exit_code, 0);
  nlohmann::json chosen;
  for (const auto& line : read_metrics(metrics))
    if (line.contains("chosen") && line["chosen"].get<bool>()) chosen = line;
  ASSERT_TRUE(chosen.is_object());

  const Finished longer = train(with("1950"));
  ASSERT_EQ(longer.exit_code, 0) << longer.errors;
  EXPECT_THAT(longer.errors, HasSubstr("at iteration 1900"));
  const int groups = chosen["groups"].get<int>();
  EXPECT_THAT(longer.errors, HasSubstr(fmt::format(
                                 "auto: goes on with {} group{}, momentum {:.3g}, rate {:.3g}",
                                 groups, groups == 1 ? "" : "s", chosen["momentum"].get<double>(),
                                 chosen["learning_rate"].get<double>())));
  EXPECT_THAT(longer.errors, Not(HasSubstr("auto: trial")));
  const auto last = read_metrics(metrics).back();
  EXPECT_EQ(last["iteration"], 1950);
  // The cooldown at the end of the training lowers the learning rate.
  EXPECT_LT(last["learning_rate"].get<double>(), 0.1 * chosen["learning_rate"].get<double>());

  std::vector<std::string> plain = with("1960");
  plain.insert(plain.begin(), {"--net", folder_ / "net.cfg", "--data", "synthetic:300:10"});
  const Finished without = omni_run(plain);
  ASSERT_EQ(without.exit_code, 0) << without.errors;
  EXPECT_THAT(without.errors, HasSubstr("was tuned by --auto; without it, momentum and learning"));
}

// If the first search was stopped, the resumed training searches again.
TEST_F(Auto, AStopInTheFirstSearchIsMadeUp) {
  const fs::path run = folder_ / "run", log = folder_ / "log";
  std::vector<std::string> words = command({"--max-batches", "20000", "--out", run});
  words.insert(words.begin(), kOmniRun);
  const pid_t child = start_program(words, "/dev/null", log);
  for (int i = 0; i < 6000 && get(log).find("with a step from") == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  kill(child, SIGTERM);
  ASSERT_EQ(wait_for_program(child), 75) << get(log);
  const std::string text = get(log);
  const std::string stopped = "stopped after iteration ";
  const auto at = text.find(stopped);
  ASSERT_NE(at, std::string::npos) << text;
  const int iteration = std::stoi(text.substr(at + stopped.size()));
  // On a busy machine the search may have ended. It may have gone back to iteration 0.
  const bool searching = text.find("auto: chose ") == std::string::npos &&
                         text.find("auto: no trial learns") == std::string::npos;
  const std::string until = std::to_string(searching ? 600 : iteration + 50);
  const Finished again = train({"--max-batches", until, "--out", run, "--resume", "auto"});
  EXPECT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_EQ(again.errors.find("auto: trial ") != std::string::npos, searching) << again.errors;
}

// A stop during a trial discards it. The checkpoint holds the state at the beginning of the search.
TEST_F(Auto, AStopDuringASearchLosesOnlyTheTrials) {
  const fs::path run = folder_ / "run", log = folder_ / "log";
  std::vector<std::string> words = command({"--max-batches", "20000", "--out", run});
  words.insert(words.begin(), kOmniRun);
  const pid_t child = start_program(words, "/dev/null", log);
  const auto said = [&](const std::string& text) {
    return get(log).find(text) != std::string::npos;
  };
  // The test waits for the second search, after an eighth of the training.
  for (int i = 0; i < 6000 && !said("auto: per iteration"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // until another process has written
  kill(child, SIGTERM);
  ASSERT_EQ(wait_for_program(child), 75) << get(log);
  const std::string text = get(log);
  // The first choice belongs to the cold start. On a busy machine, the second search may have
  // chosen before the signal came.
  const bool searching = text.find("auto: chose") == text.rfind("auto: chose");
  const auto at = text.find("stopped after iteration ");
  ASSERT_NE(at, std::string::npos) << text;
  const int iteration = std::stoi(text.substr(at + std::string("stopped after iteration ").size()));
  if (searching) {
    EXPECT_EQ(iteration, 2500) << text;
  }
  EXPECT_THAT(text, HasSubstr("--resume auto"));
  const Finished again = train({"--max-batches", std::to_string(iteration + 50), "--out", run,
                                "--resume", "auto", "--display", "10"});
  EXPECT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_THAT(again.errors, HasSubstr("at iteration " + std::to_string(iteration)));
}

}  // namespace
}  // namespace omni::test
