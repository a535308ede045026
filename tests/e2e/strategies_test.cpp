// These tests use strategies from the command line. Any number of workers, and a resume, must give
// the same bits. The tests also check the metrics and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/support/net_text.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::string>;

// With dropout and batch normalisation the result depends on the samples and their order.
const std::string kNet = net(24, {14, 14, 1}, "learning_rate=0.02\nmomentum=0.5\ndecay=0.0005\n") +
                         convolutional(6, "leaky", "stride=2\npad=1\nbatch_normalize=1\n") +
                         layer("dropout", "probability=0.2\n") + connected(10) + layer("softmax");

const std::map<std::string, Words> kStrategies{
    {"sync", {"--strategy", "sync"}},
    {"async", {"--strategy", "async", "--groups", "3", "--guard", "off"}},
    {"sma", {"--strategy", "sma", "--groups", "3", "--sync-every", "2"}},
    {"local",
     {"--strategy", "local", "--groups", "2", "--sync-every", "3", "--outer-rate", "0.7",
      "--outer-momentum", "0.9"}},
    {"elastic", {"--strategy", "elastic", "--groups", "2", "--sync-every", "4"}},
    {"hogbatch", {"--strategy", "hogbatch", "--groups", "3", "--group-batches", "2x4,24"}},
    {"adaptive",
     {"--strategy", "adaptive", "--groups", "3", "--group-batches", "24:12-48,2x4:2-8"}},
};

class Strategies : public testing::Test {
 protected:
  Strategies() { put(folder_ / "net.cfg", kNet); }

  Words command(const std::string& weights, const Words& strategy, const Words& more) {
    Words all{"--net",
              folder_ / "net.cfg",
              "--data",
              "synthetic:480",
              "--save-weights",
              folder_ / weights,
              "-q",
              "--checkpoint-every",
              "20"};
    all.insert(all.end(), strategy.begin(), strategy.end());
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string train(const std::string& out, const Words& strategy, const Words& more) {
    Words all = command("weights", strategy, more);
    all.insert(all.end(), {"--out", folder_ / out});
    const Finished run = omni_run(all);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return get(folder_ / "weights");
  }
  // Compares 40 mini-batches on one worker with 40 on two workers, and with 20 that are resumed and
  // continue to 40.
  void expect_same_bits(const std::string& name, const Words& strategy, const Words& order) {
    const auto with = [&](Words more) {
      more.insert(more.end(), order.begin(), order.end());
      return more;
    };
    const std::string one =
        train(name + "-1", strategy, with({"--max-batches", "40", "--workers", "1"}));
    const std::string two =
        train(name + "-2", strategy, with({"--max-batches", "40", "--workers", "2"}));
    EXPECT_TRUE(one == two) << name;
    const std::string half =
        train(name + "-3", strategy, with({"--max-batches", "20", "--workers", "2"}));
    EXPECT_FALSE(half == two) << name;
    const std::string resumed = train(
        name + "-3", strategy, with({"--max-batches", "40", "--workers", "1", "--resume", "auto"}));
    EXPECT_TRUE(resumed == two) << name << " resumed";
  }

  TemporaryDirectory folder_;
};

TEST_F(Strategies, in_turn_have_the_same_bits_with_any_workers_and_resumed) {
  for (const auto& [name, words] : kStrategies) expect_same_bits(name, words, {"--deterministic"});
}

TEST_F(Strategies, by_a_virtual_clock_have_the_same_bits_with_any_workers_and_resumed) {
  put(folder_ / "machine.json", R"({"name": "uneven",
    "devices": [{"kind": "gpu", "seconds": {"2": 0.001, "24": 0.004}, "spread": "exponential"},
                {"kind": "cpu", "count": 2, "seconds": {"2": 0.002, "24": 0.02},
                 "spread": {"lognormal": 0.2}}],
    "link": {"seconds": 1e-4, "bytes_per_second": 1e9}})");
  for (const auto& [name, words] : kStrategies)
    expect_same_bits(
        name, words,
        {"--deterministic", "--arrivals", "virtual", "--machine", folder_ / "machine.json"});
}

TEST_F(Strategies, learn_as_tasks_end) {
  for (const auto& [name, words] : kStrategies) {
    Words all = command("weights", words, {"--max-batches", "100", "--json"});
    all.insert(all.end(), {"--out", folder_ / name, "--metrics", folder_ / (name + ".jsonl"),
                           "--display", "1"});
    const Finished run = omni_run(all);
    ASSERT_EQ(run.exit_code, 0) << name << run.errors;
    const auto summary = nlohmann::json::parse(run.output);
    EXPECT_EQ(summary["images"], 2400) << name;
    EXPECT_EQ(summary["strategy"], name);
    EXPECT_GT(summary["test_accuracy"], 0.25) << name;
    std::uint64_t samples = 0;
    for (const auto& line : read_metrics(folder_ / (name + ".jsonl")))
      if (line.contains("loss")) samples += line["group_samples"].get<std::uint64_t>();
    EXPECT_EQ(samples, 2400u) << name;
  }
}

TEST_F(Strategies, tell_their_figures) {
  const auto last_line = [&](const std::string& name) {
    Words all = command(
        "weights", kStrategies.at(name),
        {"--max-batches", "40", "--display", "1", "--arrivals", "virtual", "--machine",
         "48-threads-fast-gpu", "--out", folder_ / name, "--metrics", folder_ / (name + ".jsonl")});
    const Finished run = omni_run(all);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    const auto lines = read_metrics(folder_ / (name + ".jsonl"));
    double time = 0;
    for (const auto& line : lines) {
      EXPECT_GE(line["simulated_time"].get<double>(), time);
      time = line["simulated_time"];
    }
    return lines.at(lines.size() - 2);  // the last is an evaluation
  };
  EXPECT_GT(last_line("sma")["meetings"], 3);
  EXPECT_GT(last_line("hogbatch")["update_share"], 0);
  EXPECT_TRUE(last_line("async").contains("staleness"));
}

// With a rate of 1e-9 nothing is learned, so the models must not change either.
TEST_F(Strategies, elastic_as_it_comes_leaves_models_on_unequal_devices_alone) {
  put(folder_ / "machine.json", R"({"name": "20 : 1", "devices": [
    {"kind": "gpu", "seconds": {"1": 0.001, "24": 0.024}},
    {"kind": "gpu", "seconds": {"1": 0.02, "24": 0.48}}]})");
  const auto trained = [&](const std::string& name, const char* rate, const Words& more) {
    Words all = command(
        name, {"--strategy", "elastic", "--groups", "2", "--sync-every", "2"},
        {"--max-batches", "100", "--learning-rate", rate, "--arrivals", "virtual", "--machine",
         folder_ / "machine.json", "--out", folder_ / ("run-" + name), "--json"});
    all.insert(all.end(), more.begin(), more.end());
    const Finished run = omni_run(all);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return std::pair(nlohmann::json::parse(run.output)["test_loss"].get<double>(),
                     get(folder_ / name));
  };
  EXPECT_NEAR(trained("still", "1e-9", {}).first, 2.3, 0.2) << "guessing among ten classes";
  const auto usual = trained("usual", "0.02", {});
  EXPECT_LT(usual.first, 2.3);
  EXPECT_TRUE(trained("zero", "0.02", {"--central-momentum", "0"}).second == usual.second);
  EXPECT_FALSE(trained("other", "0.02", {"--central-momentum", "0.9"}).second == usual.second);
}

// In 40 mini-batches, sma's 3 groups meet after 2 each, 6 times. local's 2 groups meet after 3 each
// and at the end, 7 times. elastic's 2 groups meet after 4 each, 5 times.
TEST_F(Strategies, leave_their_meetings_in_the_trace) {
  const auto async = [&](const std::string& name) {
    Words all = command(
        "weights", kStrategies.at(name),
        {"--max-batches", "40", "--out", folder_ / name, "--trace", folder_ / ("trace-" + name)});
    const Finished run = omni_run(all);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    const Finished said = run_program(
        {beside_this_program("omni-perf"), "async", folder_ / ("trace-" + name), "--json"});
    EXPECT_EQ(said.exit_code, 0) << said.errors;
    return nlohmann::json::parse(said.output);
  };
  for (const auto& [name, meetings] : {std::pair{"sma", 6}, {"local", 7}, {"elastic", 5}}) {
    const auto said = async(name);
    EXPECT_EQ(said["meetings"], meetings) << name;
    EXPECT_TRUE(said["staleness"]["expected"].is_null()) << name;
  }
  const auto said = async("async");
  EXPECT_EQ(said["meetings"], 0);
  EXPECT_EQ(said["staleness"]["expected"], 2);
  EXPECT_EQ(said["groups"].size(), 3u);
}

TEST_F(Strategies, other_strategies_go_on_from_the_average) {
  train("run", kStrategies.at("sma"), {"--max-batches", "20"});
  Words all = command("weights", kStrategies.at("async"),
                      {"--max-batches", "40", "--resume", "auto", "--out", folder_ / "run"});
  std::erase(all, "-q");
  const Finished run = omni_run(all);
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.errors, HasSubstr("was trained by --strategy 'sma', this run has async"));
}

struct Refused {
  Words words;
  std::string text;
};

TEST_F(Strategies, refuse_what_does_not_go_together) {
  for (const Refused& each : std::vector<Refused>{
           {{"--strategy", "smaa"}, "--strategy: there is no strategy 'smaa' (did you mean sma?)"},
           {{"--strategy", "bulk"},
            "--strategy: there is no strategy 'bulk' (one of: adaptive async"},
           {{"--strategy", "sma", "--groups", "2", "--async", "free"},
            "--async: --strategy sma does not use it (it belongs to adaptive, async, elastic, "},
           {{"--strategy", "async", "--groups", "2", "--alpha", "0.5"},
            "--alpha: --strategy async does not use it (it belongs to sma)"},
           {{"--strategy", "sync", "--groups", "2"}, "--strategy sync: has 1 group at most"},
           {{"--strategy", "sma", "--auto"}, "--strategy sma: --auto searches for asynchronous"},
           {{"--strategy", "local", "--groups", "auto"}, "--groups auto is for async and sma"},
           {{"--strategy", "hogbatch", "--groups", "2", "--set", "adam=1"},
            "--strategy hogbatch: it adds plain steps to one model"},
           {{"--strategy", "hogbatch", "--groups", "3", "--group-batches", "4,24"},
            "--group-batches: names 2 groups, there are 3"},
           {{"--strategy", "hogbatch", "--groups", "2", "--group-batches", "4,zwei"},
            "--group-batches: 'zwei' is no number of samples"},
           {{"--strategy", "elastic", "--groups", "2", "--guard", "on"},
            "--guard: --strategy elastic does not use it (it belongs to async)"},
           {{"--strategy", "hogbatch", "--groups", "2", "--group-batches", "6,4"},
            "computed at once, which do not divide each other"},
           {{"--strategy", "adaptive", "--groups", "2", "--group-batches", "4:8-16,24"},
            "'4:8-16' is no number of samples"},
           {{"--strategy", "adaptive", "--groups", "2", "--group-batches", "4:2-8"},
            "--strategy adaptive: all groups are of one kind"},
           {{"--arrivals", "virtual", "--machine", "no-such"}, "no-such"},
           {{"--machine", "8-gpus"}, "--machine: has no effect on real arrivals"}}) {
    Words all = command("weights", each.words, {"--max-batches", "20"});
    const Finished run = omni_run(all);
    EXPECT_EQ(run.exit_code, 2) << each.text << run.errors;
    EXPECT_THAT(run.errors, HasSubstr(each.text));
  }
}

TEST_F(Strategies, sma_finds_its_number_of_groups_and_keeps_it) {
  const auto train_to = [&](const char* batches) {
    Words all = command("weights", {"--strategy", "sma", "--groups", "auto", "--workers", "2"},
                        {"--max-batches", batches, "--out", folder_ / "run", "--resume", "auto"});
    std::erase(all, "-q");
    const Finished run = omni_run(all);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return run.errors;
  };
  const std::string first = train_to("1000");
  EXPECT_THAT(first, HasSubstr("groups: 2 train "));
  EXPECT_THAT(first, HasSubstr(" are kept"));
  EXPECT_THAT(train_to("1100"), testing::Not(HasSubstr("are tried")));
}

// `--auto` and `--cold-start` assume that every iteration had the net's mini-batch. So they refuse
// a checkpoint of smaller mini-batches. A training without them counts samples, and resumes.
TEST_F(Strategies, iterations_of_other_sizes_are_not_taken_for_the_nets) {
  const auto train_on = [&](Words words, const char* epochs) {
    words.insert(words.begin(),
                 {"--net", "lenet", "--data", "synthetic:320", "--no-test", "--epochs", epochs,
                  "--out", folder_ / "run", "--resume", "auto", "-q"});
    return omni_run(words);
  };
  EXPECT_EQ(
      train_on({"--strategy", "hogbatch", "--groups", "2", "--group-batches", "4"}, "2").exit_code,
      0);
  for (const Words& words :
       std::vector<Words>{{"--groups", "2"},
                          {"--auto"},
                          {"--groups", "2", "--cold-start", "9", "--guard", "off"}}) {
    const Finished refused = train_on(words, "4");
    EXPECT_EQ(refused.exit_code, 2) << refused.errors;
    EXPECT_THAT(refused.errors,
                HasSubstr("its 160 iterations took mini-batches of other sizes than 64"));
  }
  EXPECT_EQ(train_on({"--groups", "2", "--guard", "off"}, "4").exit_code, 0);
}

TEST_F(Strategies, sma_with_one_group_is_plain_training) {
  const std::string plain = train("plain", {}, {"--max-batches", "20", "--deterministic"});
  const std::string sma = train("sma", {"--strategy", "sma", "--groups", "1"},
                                {"--max-batches", "20", "--deterministic"});
  EXPECT_TRUE(plain == sma);
}

}  // namespace
}  // namespace omni::test
