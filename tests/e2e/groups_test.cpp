// These tests train compute groups from the command line, and check messages, metrics and losses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using nlohmann::json;

std::vector<json> json_lines(const std::string& text) {
  std::vector<json> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) found.push_back(json::parse(line));
  return found;
}

TEST(Groups, metrics_and_trace_have_every_update) {
  const TemporaryDirectory folder;
  const Finished run = omni_run(
      {"--net", "lenet", "--data", "synthetic:640", "--no-test", "--max-batches", "40", "--groups",
       "4", "--display", "1", "--metrics", folder / "metrics.jsonl", "--trace", folder / "trace"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_NE(run.errors.find("4 compute groups on workers "), std::string::npos) << run.errors;

  const std::vector<json> metrics = json_lines(get(folder / "metrics.jsonl"));
  ASSERT_EQ(metrics.size(), 40u);
  double staleness = 0;
  for (const json& update : metrics) {
    EXPECT_GE(update["group"], 0);
    EXPECT_LT(update["group"], 4);
    EXPECT_EQ(update["fc_staleness"], 0);
    EXPECT_NEAR(update["explicit_momentum"].get<double>(), 0.6, 1e-6);
    EXPECT_NEAR(update["implicit_momentum"].get<double>(), 0.75, 1e-6);
    EXPECT_NEAR(update["total_momentum"].get<double>(), 0.9, 1e-6);
    staleness += update["staleness"].get<double>();
  }
  EXPECT_NEAR(staleness / 40, 3, 0.5);

  std::size_t exchanges = 0;
  for (const json& record : json_lines(get(folder / "trace" / "rank-0.jsonl")))
    exchanges += record.contains("exchange");
  EXPECT_EQ(exchanges, 40u);
}

// The published optimizer named devices in a form that another part of it refused.
TEST(Groups, devices_are_named_as_options_take_them) {
  const auto train = [](const std::vector<std::string>& more) {
    std::vector<std::string> all{"--net",         "lenet", "--data",   "synthetic:64",
                                 "--max-batches", "4",     "--no-test"};
    all.insert(all.end(), more.begin(), more.end());
    const Finished run = omni_run(all);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    const std::string before = "compute groups on workers ";
    const auto at = run.errors.find(before);
    EXPECT_NE(at, std::string::npos) << run.errors;
    return run.errors.substr(at + before.size(), run.errors.find('\n', at) - at - before.size());
  };
  const std::string printed = train({"--groups", "3"});
  EXPECT_EQ(train({"--groups", "3", "--group-layout", printed}), printed);
  EXPECT_EQ(train({"--group-layout", printed}), printed) << "which says how many groups there are";

  const Finished devices = omni_run({"devices", "--json", "-q"});
  ASSERT_EQ(devices.exit_code, 0) << devices.errors;
  const json found = json::parse(devices.output);
  std::string all;
  for (const json& worker : found["workers"])
    all += (all.empty() ? "" : ",") + std::to_string(worker["number"].get<int>());
  train({"--groups", "2", "--group-layout", all + ";" + all});
}

TEST(Groups, metrics_have_no_staleness_of_what_is_not_merged) {
  const TemporaryDirectory folder;
  for (const char* fc : {"merged", "replicated"}) {
    const std::string metrics = folder / fc;
    const Finished run =
        omni_run({"--net", "lenet", "--data", "synthetic:640", "--no-test", "--max-batches", "4",
                  "--groups", "2", "--fc", fc, "--display", "1", "--metrics", metrics});
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    for (const json& update : json_lines(get(metrics)))
      EXPECT_EQ(update.contains("fc_staleness"), fc == std::string("merged")) << update;
  }
}

TEST(Groups, plan_predicts_every_number_of_groups) {
  const Finished run = omni_run({"plan", "--net", "lenet", "--most-groups", "4", "--iterations",
                                 "6", "--warm-up", "4", "--json", "-q"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const json plan = json::parse(run.output);
  ASSERT_EQ(plan["rows"].size(), 3u);
  for (const json& row : plan["rows"]) {
    EXPECT_GT(row["predicted_seconds"], 0);
    EXPECT_TRUE(row["measured_seconds"].is_null());
    for (const char* part : {"groups", "merged", "exchanges"})
      EXPECT_GT(row["work_seconds"][part], 0) << part;
  }
  EXPECT_EQ(plan["rows"][2]["groups"], 4);
  EXPECT_NEAR(plan["rows"][2]["explicit_momentum"].get<double>(), 0.6, 1e-6);
  EXPECT_GE(plan["saturating_groups"], 1);
}

TEST(Groups, plan_measures_in_rounds) {
  for (const auto& [rounds, wanted] : std::map<std::string, std::size_t>{{"2", 2}, {"", 3}}) {
    std::vector<std::string> words{"plan", "--net",     "lenet", "--most-groups",
                                   "2",    "--json",    "-q",    "--iterations",
                                   "6",    "--warm-up", "4",     "--measure"};
    if (!rounds.empty()) words.push_back(rounds);
    const Finished run = omni_run(words);
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    const json plan = json::parse(run.output);
    for (const json& row : plan["rows"]) {
      EXPECT_EQ(row["measured_rounds"].size(), wanted);
      EXPECT_GT(row["measured_seconds"], 0);
    }
  }
}

// How many more updates groups need is measured once, and later plans and trainings on these data
// use the result.
TEST(Groups, measured_updates_are_kept) {
  const TemporaryDirectory folder;
  put(folder / "net.cfg",
      "[net]\nbatch=16\nheight=12\nwidth=12\nchannels=1\nlearning_rate=0.05\nmomentum=0.9\n"
      "[convolutional]\nfilters=6\nsize=3\npad=1\nactivation=relu\n[maxpool]\nsize=2\nstride=2\n"
      "[connected]\noutput=10\nactivation=linear\n[softmax]\n");
  const std::vector<std::string> plan{"plan",
                                      "--net",
                                      folder / "net.cfg",
                                      "--most-groups",
                                      "4",
                                      "--json",
                                      "-q",
                                      "--iterations",
                                      "4",
                                      "--warm-up",
                                      "2",
                                      "--models",
                                      folder / "models",
                                      "--workers",
                                      "2"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> words = plan;
    words.insert(words.end(), more.begin(), more.end());
    return omni_run(words);
  };
  const auto rows = [&](const std::vector<std::string>& more) {
    const Finished run = with(more);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return json::parse(run.output)["rows"];
  };
  for (const json& row : rows({"--data", "synthetic:640:10"})) {
    EXPECT_TRUE(row["statistical_penalty_error"].is_null());
    EXPECT_EQ(row["statistical_penalty"].is_null(), row["groups"] != 1);
  }
  const json measured = rows({"--data", "synthetic:640:10", "--measure-updates", "128"});
  EXPECT_TRUE(measured[0]["statistical_penalty_error"].is_number());
  EXPECT_EQ(measured[0]["statistical_penalty"], 1);
  const json later = rows({"--data", "synthetic:640:10"});
  for (std::size_t i = 0; i < later.size(); ++i) {
    EXPECT_EQ(later[i]["statistical_penalty"], measured[i]["statistical_penalty"]);
    EXPECT_FALSE(later[i]["statistical_penalty_error"].is_null());
  }
  EXPECT_TRUE(rows({"--data", "synthetic:320:10"})[1]["statistical_penalty_error"].is_null());
  const Finished blind = with({"--measure-updates"});
  EXPECT_EQ(blind.exit_code, 2);
  EXPECT_THAT(blind.errors, testing::HasSubstr("--data"));
}

// `--groups auto` prints, records and uses the same number of groups.
TEST(Groups, auto_takes_what_the_plan_advises) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one core: nothing to choose";
  const TemporaryDirectory folder;
  const std::string metrics = folder / "metrics.jsonl", run_folder = folder / "run";
  const std::vector<std::string> common{"--net",
                                        "lenet",
                                        "--data",
                                        "synthetic:640",
                                        "--no-test",
                                        "--groups",
                                        "auto",
                                        "--workers",
                                        "2",
                                        "--json",
                                        "--out",
                                        run_folder,
                                        "--resume",
                                        "auto",
                                        "--metrics",
                                        metrics,
                                        "--checkpoint-every",
                                        "20",
                                        "--set",
                                        "mosaic=1"};
  const auto train = [&](const char* until) {
    std::vector<std::string> words = common;
    words.insert(words.end(), {"--max-batches", until});
    return omni_run(words);
  };
  const Finished first = train("20");
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_NE(first.errors.find("predicted time per iteration x updates needed: "), std::string::npos)
      << first.errors;
  const std::size_t warning = first.errors.find("'mosaic'");
  EXPECT_NE(warning, std::string::npos) << first.errors;
  EXPECT_EQ(first.errors.find("'mosaic'", warning + 1), std::string::npos) << first.errors;
  const int groups = json::parse(first.output)["groups"].get<int>();
  std::vector<int> planned;
  for (const json& line : json_lines(get(metrics))) {
    if (!line.contains("planned_groups")) continue;
    planned.push_back(line["planned_groups"]);
    EXPECT_EQ(line["chosen"].get<bool>(), planned.back() == groups);
    EXPECT_GT(line["predicted_seconds"], 0);
  }
  ASSERT_FALSE(planned.empty());
  EXPECT_EQ(planned.front(), 1);
  const std::string chose = "chose " + std::to_string(groups) + " compute group";
  EXPECT_NE(first.errors.find(chose), std::string::npos) << first.errors;

  const Finished second = train("40");
  ASSERT_EQ(second.exit_code, 0) << second.errors;
  EXPECT_NE(second.errors.find(chose), std::string::npos) << second.errors;
  EXPECT_NE(second.errors.find(": as in " + run_folder), std::string::npos) << second.errors;
  EXPECT_EQ(json::parse(second.output)["groups"], groups);
}

// With constant times, the simulated time per update must equal the prediction, whatever the speed
// of this machine.
TEST(Groups, auto_plans_for_a_simulated_machine) {
  const TemporaryDirectory folder;
  const std::string machine = folder / "machine.json", metrics = folder / "metrics.jsonl";
  put(machine, R"({"name": "slow links", "link": {"seconds": 0.02, "bytes_per_second": 1e9},
                   "devices": [{"kind": "node", "count": 6, "flops_per_second": 1e11}]})");
  const Finished run =
      omni_run({"--net", "lenet",           "--data",    "synthetic:640", "--no-test", "--groups",
                "auto",  "--arrivals",      "virtual",   "--machine",     machine,     "--guard",
                "off",   "--learning-rate", "0.001",     "--max-batches", "48",        "--display",
                "1",     "--json",          "--metrics", metrics});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const int groups = json::parse(run.output)["groups"].get<int>();
  EXPECT_GT(groups, 1) << run.errors;
  double predicted = 0, simulated = 0;
  std::vector<int> planned;
  for (const json& line : json_lines(get(metrics))) {
    if (line.contains("planned_groups")) {
      planned.push_back(line["planned_groups"]);
      if (line["chosen"].get<bool>()) predicted = line["predicted_seconds"];
    } else {
      simulated = line["simulated_time"];
    }
  }
  EXPECT_EQ(planned, (std::vector{1, 2, 4, 6}));
  // At the end some mini-batches are unfinished, so the times may differ by 5 %.
  EXPECT_NEAR(simulated / 48, predicted, 0.05 * predicted);
}

// A training with a cold start must equal one that stops after the cold start and resumes with all
// groups.
TEST(Groups, cold_start_is_a_training_in_one_group) {
  const TemporaryDirectory folder;
  const auto train = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--net", "lenet", "--data", "synthetic:640", "--no-test",
                             "--deterministic", "--display", "1"});
    const Finished run = omni_run(more);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
  };
  const std::string metrics = folder / "metrics.jsonl", run_folder = folder / "run";
  train({"--groups", "3", "--cold-start", "10", "--max-batches", "20", "--metrics", metrics,
         "--save-weights", folder / "at-once"});
  train({"--max-batches", "10", "--out", run_folder, "--checkpoint-every", "10"});
  train({"--groups", "3", "--max-batches", "20", "--out", run_folder, "--resume", "auto",
         "--save-weights", folder / "in-two"});
  EXPECT_EQ(get(folder / "at-once"), get(folder / "in-two"));

  const std::vector<json> updates = json_lines(get(metrics));
  ASSERT_EQ(updates.size(), 20u);
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const bool cold = i < 10;
    EXPECT_EQ(updates[i]["staleness"].get<std::size_t>(),
              cold ? 0 : std::min<std::size_t>(i - 10, 2));
    EXPECT_NEAR(updates[i]["explicit_momentum"].get<double>(), cold ? 0.9 : 0.7, 1e-6);
  }
}

// A resumed training with --groups auto uses the checkpoint's number of groups.
TEST(Groups, auto_goes_on_with_the_checkpoint_s_groups) {
  const TemporaryDirectory folder;
  const auto train = [&](const std::string& groups, const char* until) {
    return omni_run({"--net", "lenet", "--data", "synthetic:640", "--no-test", "--groups", groups,
                     "--out", folder / "run", "--resume", "auto", "--checkpoint-every", "10",
                     "--max-batches", until});
  };
  ASSERT_EQ(train("3", "10").exit_code, 0);
  const Finished goes_on = train("auto", "20");
  ASSERT_EQ(goes_on.exit_code, 0) << goes_on.errors;
  EXPECT_NE(goes_on.errors.find("chose 3 compute groups: as in "), std::string::npos)
      << goes_on.errors;
  EXPECT_EQ(goes_on.errors.find("every group starts from the shared model"), std::string::npos);
  EXPECT_NE(
      train("1", "30").errors.find("was trained by 3 compute groups, this run has 1 (--groups 3"),
      std::string::npos);
}

// Options without an effect are reported.
TEST(Groups, what_has_no_effect_is_said) {
  const TemporaryDirectory folder;
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all{"--net", "lenet", "--data", "synthetic:64", "--no-test"};
    all.insert(all.end(), more.begin(), more.end());
    const Finished run = omni_run(all);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return run.errors;
  };
  EXPECT_NE(train({"--max-batches", "2", "--async", "reproducible", "--fc", "replicated"})
                .find("warning: --async, --fc: no effect with one compute group"),
            std::string::npos);
  EXPECT_NE(train({"--max-batches", "2", "--guard", "off"})
                .find("warning: --guard: no effect with one compute group"),
            std::string::npos);
  EXPECT_NE(
      train({"--max-batches", "2", "--groups", "64"})
          .find("warning: the asynchrony of 64 groups adds more momentum than updates can give "
                "up: in total 0.984 instead of 0.9 "),
      std::string::npos);
  const std::string cold =
      train({"--max-batches", "4", "--groups", "2", "--cold-start", "2", "--out", folder / "run"});
  EXPECT_NE(cold.find("cold start: the first 2 iterations are in one group"), std::string::npos);
  EXPECT_EQ(cold.find("warning:"), std::string::npos) << cold;
  EXPECT_NE(train({"--max-batches", "4", "--groups", "2", "--cold-start", "9"})
                .find("warning: --cold-start 9: all 4 iterations are in one group"),
            std::string::npos);
  EXPECT_NE(cold.find("checkpoints: only when the run is stopped"), std::string::npos);
}

TEST(Groups, auto_of_what_is_merged_is_one) {
  const Finished run = omni_run({"--net", "mlp", "--data", "synthetic:640", "--no-test",
                                 "--workers", "2", "--groups", "auto", "--max-batches", "5"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_NE(run.errors.find("chose 1 compute group: all layers are fully connected and merged"),
            std::string::npos)
      << run.errors;
}

TEST(Groups, plan_of_a_net_that_learns_nothing_is_refused) {
  const TemporaryDirectory folder;
  put(folder / "none.cfg", "[net]\nbatch=4\nheight=8\nwidth=8\nchannels=1\n[avgpool]\n[softmax]\n");
  const Finished run = omni_run({"plan", "--net", folder / "none.cfg", "--iterations", "4"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.errors.find("has nothing to learn (add a layer with weights)"), std::string::npos)
      << run.errors;
}

}  // namespace
}  // namespace omni::test
