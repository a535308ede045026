// These tests check what every command of omni-perf writes, and its exit code.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/hand_trace.hpp"
#include "tests/support/omni_perf.hpp"

namespace omni::test {
namespace {

using Json = nlohmann::json;

const std::vector<std::string> kReaders = {"summary", "idle",     "kernels", "critical-path",
                                           "bounds",  "roofline", "models",  "transfers",
                                           "async",   "memory"};

HandTrace sample(trace::Nanoseconds length = 100) {
  HandTrace hand(2);
  hand.add(trace::Layer{.id = 0, .type = "conv", .detail = "a, \"b\""});
  hand.add(trace::Peak{.what = "gemm", .kind = "CPU", .per_worker = 1e11, .together = 2e11});
  hand.add(trace::Peak{.what = "copy", .kind = "CPU", .per_worker = 1e10, .together = 2e10});
  for (int i = 0; i < 30; ++i)
    hand.task({.codelet = "conv",
               .worker = i % 2,
               .times = times(0, 0, 1000 * i, 1000 * i + length + i % 3),
               .updates = {"w"},
               .iteration = i / 2,
               .layer = 0,
               .flops = 1000,
               .bytes = 100,
               .predicted = 90});
  hand.add(
      trace::Transfer{.from_node = 0, .to_node = 0, .bytes = 9, .count = 1, .from = 5, .to = 9});
  hand.add(trace::Exchange{.iteration = 0, .group = 0, .staleness = 1, .at = 15});
  hand.add(trace::Counter{.name = "memory.resident", .at = 5, .value = 1e6});
  hand.add(trace::Counter{.name = "feed.decoded", .at = 5, .value = 1});
  return hand;
}

class CommandLine : public testing::Test {
 protected:
  void SetUp() override { put(path_, sample().text()); }
  Finished run(std::vector<std::string> arguments) {
    arguments.push_back(path_);
    return omni_perf(std::move(arguments));
  }
  TemporaryDirectory folder_;
  std::string path_ = folder_ / "rank-0.jsonl";
};

void expect_described(const Json& json, const std::string& help, const std::string& command) {
  for (const auto& [key, value] : json.items()) {
    EXPECT_NE(help.find('"' + key + '"'), help.npos) << command << " --help does not name " << key;
    if (value.is_object()) expect_described(value, help, command);
    if (value.is_array() && !value.empty()) expect_described(value[0], help, command);
  }
}

TEST_F(CommandLine, EveryCommandWritesTextJsonAndCsv) {
  for (const std::string& command : kReaders) {
    const Finished text = run({command});
    EXPECT_EQ(text.exit_code, 0) << command << text.errors;
    EXPECT_GT(text.output.size(), 20u) << command;
    EXPECT_EQ(text.errors, "") << command;
    const Finished json = run({command, "--json"});
    ASSERT_EQ(json.exit_code, 0) << command << json.errors;
    const Json parsed = Json::parse(json.output);
    EXPECT_EQ(parsed["complete"], true);
    expect_described(parsed, omni_perf({command, "--help"}).output, command);
    const Finished csv = run({command, "--csv"});
    ASSERT_EQ(csv.exit_code, 0) << command << csv.errors;
    EXPECT_NE(csv.output.find(','), std::string::npos) << command;
  }
}

TEST_F(CommandLine, IdleOfNoIterations) {
  const Finished refused = run({"idle", "--skip", "15"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.errors.find("--skip: the trace has no more than 15 iterations (skip fewer"),
            std::string::npos)
      << refused.errors;
  EXPECT_EQ(run({"idle", "--skip", "14"}).exit_code, 0);
}

TEST_F(CommandLine, IdleInJson) {
  const Json idle = Json::parse(run({"idle", "--json"}).output);
  ASSERT_EQ(idle["workers"].size(), 2u);
  const Json& worker = idle["workers"][0];
  EXPECT_EQ(worker["name"], "CPU 0");
  double sum = 0;
  for (const char* part : {"compute", "data", "scheduling", "other_workers", "nothing_ready",
                           "submission_late", "barrier", "other_nodes", "start_up"})
    sum += worker["parts"].at(part).get<double>();
  EXPECT_EQ(worker["parts"].size(), 9u);
  EXPECT_NEAR(sum, worker["wall"].get<double>(), 1e-15);
  EXPECT_NEAR(worker["wall"].get<double>(), 29102e-9, 1e-15);
}

TEST_F(CommandLine, CsvQuotesAndChoosesATable) {
  const Finished csv = run({"kernels", "--by", "layer", "--csv"});
  EXPECT_NE(csv.output.find("codelet,implementation,kind,layer,tasks,"), std::string::npos);
  EXPECT_NE(csv.output.find("conv,plain,CPU,\"0 conv a, \"\"b\"\"\",30,"), std::string::npos)
      << csv.output;
  EXPECT_EQ(run({"memory", "--csv", "--table", "feed"}).output.find("name,rank,samples"), 0u);
  const Finished unknown = run({"memory", "--csv", "--table", "fed"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_EQ(unknown.errors,
            "error: --table: there is no table fed (one of: memory, feed, other, largest)\n");
}

TEST_F(CommandLine, WithoutAnArgumentItListsTheCommands) {
  const Finished bare = omni_perf({});
  EXPECT_EQ(bare.exit_code, 2);
  EXPECT_EQ(bare.output, "");
  EXPECT_NE(bare.errors.find("One screen: what ran"), bare.errors.npos) << bare.errors;
  EXPECT_NE(bare.errors.find("\nerror: no command given (one of: summary"), bare.errors.npos);
  EXPECT_EQ(omni_perf({"-h"}).exit_code, 0);
}

TEST_F(CommandLine, WhereTheRowsAreThatTextLeavesOut) {
  HandTrace hand(1);
  for (int i = 0; i < 9; ++i)
    hand.task({.codelet = "codelet" + std::to_string(i),
               .times = times(0, 0, 10 * i, 10 * i + 9),
               .flops = i == 0 ? 1e4 : 1,
               .bytes = 1e6});
  hand.add(trace::Peak{.what = "gemm", .kind = "CPU", .per_worker = 1e12, .together = 1e12});
  hand.add(trace::Peak{.what = "copy", .kind = "CPU", .per_worker = 1e11, .together = 1e11});
  put(path_, hand.text());
  const Finished summary = run({"summary"});
  EXPECT_NE(summary.output.find("... and 1 more (all with --json, or --csv --table kernels)\n"),
            summary.output.npos)
      << summary.output;
  const std::string all = run({"summary", "--csv", "--table", "kernels"}).output;
  for (int i = 0; i < 9; ++i) EXPECT_NE(all.find("codelet" + std::to_string(i)), all.npos) << all;
}

TEST_F(CommandLine, MoreThanTheRoofIsMarkedAndExplainedNotClamped) {
  const auto roofline = [&](double copy) {
    HandTrace hand(1);
    hand.task({.codelet = "k", .times = times(0, 0, 0, 1000), .flops = 1000, .bytes = 1000});
    hand.add(trace::Peak{.what = "gemm", .kind = "CPU", .per_worker = 1e12, .together = 1e12});
    hand.add(trace::Peak{.what = "copy", .kind = "CPU", .per_worker = copy, .together = copy});
    put(path_, hand.text());
    return run({"roofline"}).output;
  };
  const std::string above = roofline(4e8);
  EXPECT_NE(above.find("  250.0 % *  memory"), above.npos) << above;
  EXPECT_NE(above.find("\n* more than the measured roof."), above.npos) << above;
  const Json json = Json::parse(run({"roofline", "--json"}).output);
  EXPECT_NEAR(json["codelets"][0]["fraction"], 2.5, 1e-9);
  const std::string below = roofline(4e9);
  EXPECT_NE(below.find("  25.0 %    memory"), below.npos) << below;
  EXPECT_EQ(below.find('*'), below.npos) << below;
}

TEST_F(CommandLine, RowsOfTwoRanksAreToldApart) {
  std::filesystem::create_directory(folder_ / "ranks");
  for (const int rank : {0, 1}) {
    HandTrace hand(1, rank);
    hand.task({.times = times(0, 0, 0, 9), .writes = {"w"}});
    hand.add(trace::Counter{.name = "feed.decoded", .at = 5, .value = 1.0 + rank});
    put(folder_ / fmt::format("ranks/rank-{}.jsonl", rank), hand.text());
  }
  const std::string ranks = folder_ / "ranks";
  const std::string text = omni_perf({"summary", ranks}).output;
  EXPECT_NE(text.find("feed.decoded     0     1"), text.npos) << text;
  EXPECT_NE(text.find("feed.decoded     1     2"), text.npos) << text;
  const Json summary = Json::parse(omni_perf({"summary", ranks, "--json"}).output);
  EXPECT_EQ(summary["feed"][1]["rank"], 1);
  const Json memory = Json::parse(omni_perf({"memory", ranks, "--json"}).output);
  EXPECT_EQ(memory["largest"][0]["rank"], 0);
  EXPECT_EQ(memory["largest"][1]["rank"], 1);
  const std::string alone = run({"summary"}).output;
  EXPECT_EQ(alone.find("  rank  "), alone.npos) << "a single rank needs no column\n" << alone;
}

TEST_F(CommandLine, WhatATaskHasNotIsNull) {
  HandTrace hand(1);
  for (int i = 0; i < 9; ++i)
    hand.task({.times = times(0, 0, 100 * i, 100 * i + 10 + i / 8 * 70),
               .iteration = -1,
               .flops = 8,
               .predicted = 5});
  put(path_, hand.text());
  const Json models = Json::parse(run({"models", "--json"}).output);
  for (const char* table : {"worst", "outliers"})
    for (const char* key : {"layer", "iteration"}) EXPECT_EQ(models[table][0][key], nullptr);
  const std::string text = run({"models"}).output;
  EXPECT_EQ(text.find("-1"), text.npos) << text;
  EXPECT_EQ(Json::parse(run({"critical-path", "--json"}).output)["path"][0]["layer"], nullptr);
  const std::string kernels = run({"kernels", "--json"}).output;
  EXPECT_NE(kernels.find("\"flops\": 72,"), kernels.npos) << "a count has no fraction\n" << kernels;
}

// The report reads the metrics file that the traced command line names, in whichever folder
// omni-perf runs.
TEST_F(CommandLine, TheReportFindsTheMetricsOfTheRun) {
  std::filesystem::create_directories(folder_ / "runs/traces/run1");
  const auto page = [&](const std::string& options) {
    std::string text = sample().text();
    const std::size_t at = text.find("\"command\":\"") + 11;
    text.replace(at, text.find('"', at) - at, "omni-run --net toy " + options);
    put(folder_ / "runs/traces/run1/rank-0.jsonl", text);
    return omni_perf({"report", folder_ / "runs/traces/run1", "--html", folder_ / "page.html"});
  };
  put(folder_ / "runs/own metrics.jsonl", R"({"iteration":1,"time":1,"loss":0.12345}
)");
  const auto shows_curves = [&] {
    return get(folder_ / "page.html").find("0.12345") != std::string::npos;
  };
  const Finished found = page("--trace traces/run1 --metrics 'own metrics.jsonl'");
  EXPECT_EQ(found.exit_code, 0) << found.errors;
  EXPECT_TRUE(shows_curves());
  page("--trace ./traces//run1/ --metrics='own metrics.jsonl' --seed 1");
  EXPECT_TRUE(shows_curves());
  page("--trace " + (folder_ / "runs/traces/run1").string() + " --metrics '" +
       (folder_ / "runs/own metrics.jsonl").string() + "'");
  EXPECT_TRUE(shows_curves());
  const Finished lost = page("--trace traces/run1 --metrics gone.jsonl");
  EXPECT_EQ(lost.exit_code, 0);
  EXPECT_NE(lost.errors.find("the run wrote its metrics to 'gone.jsonl', which is not there"),
            std::string::npos)
      << lost.errors;
  EXPECT_FALSE(shows_curves());
}

TEST_F(CommandLine, UsageErrors) {
  const auto refused = [](const std::vector<std::string>& words, const std::string& said) {
    const Finished run = omni_perf(words);
    EXPECT_EQ(run.exit_code, 2) << said;
    EXPECT_EQ(run.errors.find("error: " + said), 0u) << run.errors;
    EXPECT_EQ(run.output, "");
  };
  refused({"idle"}, "trace is required (omni-perf idle --help)");
  refused({"idel", path_}, "unknown command 'idel' (did you mean 'idle'?)");
  refused({"idle", path_, "--jsno"}, "unknown option '--jsno' (did you mean '--json'?)");
  refused({"idle", path_, path_}, "unexpected argument '");
  // The message must say that --json stands at the wrong place, not that the trace is missing.
  refused({"--json", "idle", path_}, "--json stands before 'idle' (options of a subcommand come");
  refused({"--by", "layer", "kernels", path_}, "--by stands before 'kernels' (");
  refused({"idle", "--json", "--csv", path_}, "--json excludes --csv (omni-perf idle --help)");
  refused({"critical-path", "--factor", "0", path_}, "--factor: 0 is no number from ");
  const Finished unknown = run({"critical-path", "--codelet", "cnov"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.errors.find("no codelet cnov (omni-perf kernels lists them)"),
            std::string::npos);
  EXPECT_EQ(omni_perf({"--help"}).exit_code, 0);
  EXPECT_EQ(omni_perf({"--version"}).output.find("omni-perf "), 0u);
}

// A file that does not exist gives exit code 2. A file with wrong contents gives exit code 3.
TEST_F(CommandLine, FilesThatAreNotThereOrWrong) {
  put(folder_ / "wrong", "no trace\n");
  const std::string wrong = folder_ / "wrong", page = folder_ / "page";
  const auto expect = [](std::vector<std::string> words, int code, const std::string& said) {
    const Finished run = omni_perf(words);
    EXPECT_EQ(run.exit_code, code) << words[0] << run.errors;
    EXPECT_EQ(run.errors.find("error: " + said), 0u) << run.errors;
    EXPECT_EQ(run.output, "");
  };
  for (const std::string& command : kReaders) {
    expect({command, "/nowhere"}, 2, "/nowhere: cannot open: No such file or directory");
    expect({command, wrong}, 3, wrong + ": is no Omnivore trace");
  }
  for (const auto& [trace, code] : {std::pair(std::string("/nowhere"), 2), {wrong, 3}}) {
    expect({"diff", trace, path_}, code, trace);
    expect({"diff", path_, trace}, code, trace);
    expect({"report", trace, "--html", page}, code, trace);
    expect({"report", path_, "--html", page, "--metrics", trace}, code, trace);
    expect({"export", trace, "--chrome", page}, code, trace);
    expect({"import", trace, folder_ / "imported"}, code, trace);
  }
  expect({"report", path_, "--html", "/nowhere/page"}, 2, "/nowhere/page: cannot create: No such");
  expect({"report", "/nowhere", "--html", "/dev/full"}, 2,
         "/dev/full: exists and is not a regular");
  expect({"export", path_, "--chrome", folder_.path()}, 2,
         folder_.path().string() + ": exists and");
  expect({"import", folder_.path(), folder_ / "imported"}, 3, folder_ / "tasks.rec");
  EXPECT_FALSE(std::filesystem::exists(page));
}

TEST_F(CommandLine, NumbersAreFinite) {
  for (const char* number : {"nan", "-nan", "NAN", "inf", "-inf", "1e999", "", "x", "-1", "2e6"}) {
    EXPECT_EQ(omni_perf({"diff", path_, path_, "--threshold", number}).exit_code, 2) << number;
    EXPECT_EQ(omni_perf({"diff", path_, path_, "--matters", number}).exit_code, 2) << number;
    EXPECT_EQ(run({"critical-path", "--factor", number}).exit_code, 2) << number;
  }
  const Finished refused = omni_perf({"diff", path_, path_, "--threshold", "nan"});
  EXPECT_NE(refused.errors.find("nan is no number from 0 to 1e+06"), std::string::npos)
      << refused.errors;
  EXPECT_EQ(omni_perf({"diff", path_, path_, "--threshold", "0", "--matters", "100"}).exit_code, 0);
}

TEST_F(CommandLine, AKilledRunIsSaid) {
  const std::string part = folder_ / "rank-1.jsonl.part";
  put(part, sample().text_so_far() + "{\"task\":");
  const Finished text = omni_perf({"summary", part});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_NE(text.errors.find("the run was killed"), std::string::npos);
  EXPECT_EQ(Json::parse(omni_perf({"summary", "--json", part}).output)["complete"], false);
  const Finished diff = omni_perf({"diff", path_, part});
  EXPECT_EQ(diff.exit_code, 3);
  EXPECT_NE(diff.errors.find("compare runs that ended"), std::string::npos);
}

TEST_F(CommandLine, DiffForContinuousIntegration) {
  const std::string slow = folder_ / "slow.jsonl";
  put(slow, sample(150).text());
  EXPECT_EQ(omni_perf({"diff", path_, path_}).exit_code, 0);
  const Finished slower = omni_perf({"diff", path_, slow});
  EXPECT_EQ(slower.exit_code, 1);
  EXPECT_NE(slower.output.find("slower"), std::string::npos) << slower.output;
  EXPECT_EQ(omni_perf({"diff", slow, path_}).exit_code, 0);
  EXPECT_EQ(omni_perf({"diff", slow, path_, "--both"}).exit_code, 1);
  EXPECT_EQ(omni_perf({"diff", path_, slow, "--threshold", "60"}).exit_code, 0);
  const Json json = Json::parse(omni_perf({"diff", path_, slow, "--json"}).output);
  EXPECT_EQ(json["slower"], true);
  expect_described(json, omni_perf({"diff", "--help"}).output, "diff");
}

TEST_F(CommandLine, ResultsThatAreNotWrittenAreNoSuccess) {
  const int code = wait_for_program(
      start_program({beside_this_program("omni-perf"), "summary", path_}, "/dev/full"));
  EXPECT_EQ(code, 1);
}

TEST_F(CommandLine, LongNamesEndBetweenLetters) {
  const std::string start(119, 'x');
  HandTrace hand(1);
  hand.task({.codelet = start + "\xc3\xa4\xc3\xa4", .times = times(0, 0, 0, 9)});
  put(path_, hand.text());
  const Finished kernels = run({"kernels"});
  EXPECT_NE(kernels.output.find(start + "..."), std::string::npos) << kernels.output;
}

}  // namespace
}  // namespace omni::test
