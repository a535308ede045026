// --log caffe prints lines that Caffe's tools/extra/parse_log.py reads. This test has its regular
// expressions and its rules. Snapshots of the solver are in the run folder.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <regex>
#include <sstream>

#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

struct ParsedLog {
  bool begins = false;  // a line has the time at which the training begins
  std::map<double, std::map<std::string, double>> train, test;  // by iteration, then by name
  std::map<double, double> rates;
};

ParsedLog parse_log(const std::string& text) {
  const std::regex iteration_of("Iteration (\\d+)"),
      train_output("Train net output #(\\d+): (\\S+) = ([\\.\\deE+-]+)"),
      test_output("Test net output #(\\d+): (\\S+) = ([\\.\\deE+-]+)"),
      rate_of("lr = ([-+]?[0-9]*\\.?[0-9]+([eE]?[-+]?[0-9]+)?)"),
      time("I(\\d\\d)(\\d\\d) (\\d\\d):(\\d\\d):(\\d\\d)\\.(\\d{6}) +\\d+ \\w+\\.cpp:\\d+\\] .*");
  ParsedLog log;
  double iteration = -1;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (line.find("Solving") != line.npos) log.begins = std::regex_match(line, time);
    if (std::regex_search(line, found, iteration_of)) iteration = std::stod(found[1]);
    if (iteration == -1) continue;
    const bool is_known = line.find("output #") != line.npos || line.find("lr = ") != line.npos ||
                          line.find("Iteration") != line.npos;
    EXPECT_TRUE(!is_known || std::regex_match(line, time)) << line;
    EXPECT_FALSE(line.empty()) << "the script cannot read such a line";
    if (std::regex_search(line, found, rate_of)) log.rates[iteration] = std::stod(found[1]);
    if (std::regex_search(line, found, train_output))
      log.train[iteration][found[2]] = std::stod(found[3]);
    if (std::regex_search(line, found, test_output))
      log.test[iteration][found[2]] = std::stod(found[3]);
  }
  return log;
}

class CaffeRun : public testing::Test {
 protected:
  CaffeRun() {
    put(folder_ / "n.prototxt",
        "name: 'n'\n"
        "layer { name: 'd' type: 'Input' top: 'data' top: 'label'\n"
        "  input_param { shape { dim: 10 dim: 3 dim: 8 dim: 8 } } }\n"
        "layer { name: 's' type: 'InnerProduct' bottom: 'data' top: 's'\n"
        "  inner_product_param { num_output: 4 weight_filler { type: 'xavier' } } }\n"
        "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'label' }\n");
  }
  void solver(const std::string& more) const {
    put(folder_ / "s.prototxt",
        "net: 'n.prototxt'\nbase_lr: 0.0001\nlr_policy: 'step' gamma: 0.5 stepsize: 4\n"
        "momentum: 0.9\nmax_iter: 10\n" +
            more);
  }
  Finished train(std::vector<std::string> words) const {
    words.insert(words.end(), {"--solver", folder_ / "s.prototxt", "--data", "synthetic:40:4",
                               "--test-every", "5", "--deterministic", "--out", folder_ / "run"});
    return omni_run(words);
  }
  bool is_there(const std::string& name) const {
    return std::filesystem::exists(folder_ / ("run/" + name));
  }
  TemporaryDirectory folder_;
};

TEST_F(CaffeRun, lines_are_those_that_caffes_script_reads) {
  solver("snapshot: 6\nsnapshot_prefix: 'examples/mine'\n");
  const Finished run =
      train({"--log", "caffe", "--display", "3", "--metrics", folder_ / "metrics.jsonl"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const ParsedLog log = parse_log(run.errors);
  EXPECT_TRUE(log.begins) << run.errors;
  ASSERT_EQ(log.train.size(), 4u) << run.errors;  // 0, 3, 6, 9: before the updates
  ASSERT_EQ(log.test.size(), 2u) << run.errors;
  const std::map<double, double> rates{{0, 1e-4}, {3, 1e-4}, {6, 5e-5}, {9, 2.5e-5}};
  for (const auto& [iteration, rate] : rates) {
    ASSERT_TRUE(log.rates.contains(iteration)) << iteration;
    EXPECT_NEAR(log.rates.at(iteration), rate, 1e-9) << iteration;
  }
  std::size_t tests = 0, steps = 0;
  for (const auto& line : read_metrics(folder_ / "metrics.jsonl")) {
    const double at = line["iteration"];
    if (line.contains("test_loss")) {
      ++tests;
      const double loss = line["test_loss"];
      EXPECT_NEAR(log.test.at(at).at("loss"), loss, 1e-5 * loss) << "six digits";
      EXPECT_NEAR(log.test.at(at).at("accuracy"), line["test_accuracy"], 1e-4);
    } else if (line.contains("loss")) {
      steps += log.train.contains(at - 1);
      const double loss = line["loss"];
      EXPECT_NEAR(log.train.at(at - 1).at("loss"), loss, 1e-5 * loss);
    }
  }
  EXPECT_EQ(tests, 2u);
  EXPECT_EQ(steps, 4u);
  for (const std::string said :
       {"Iteration 3 (", " iter/s, ", "s/3 iters), loss = ", "Testing net (#0)",
        "] Snapshotting to binary proto file ", "mine_iter_6.caffemodel\n",
        "] Snapshotting solver state to binary proto file ", "] Optimization Done.\n"})
    EXPECT_NE(run.errors.find(said), std::string::npos) << said << run.errors;
}

// Without options, reports, tests and the seed are those of the solver.
TEST_F(CaffeRun, solvers_say_what_is_reported_and_tested) {
  const auto trained = [&](const std::string& fields, std::vector<std::string> words) {
    solver(fields);
    words.insert(words.end(), {"--solver", folder_ / "s.prototxt", "--data", "synthetic:40:4",
                               "--log", "caffe", "--deterministic", "--out", folder_ / "run"});
    const Finished run = omni_run(words);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return parse_log(run.errors);
  };
  const auto iterations = [](const auto& lines) {
    std::vector<double> all;
    for (const auto& [at, numbers] : lines) all.push_back(at);
    return all;
  };
  const std::string fields = "test_interval: 3 display: 4 random_seed: 7\n";
  const ParsedLog own = trained(fields, {});
  EXPECT_EQ(iterations(own.train), (std::vector<double>{0, 4, 8}));
  EXPECT_EQ(iterations(own.test), (std::vector<double>{0, 3, 6, 9, 10}));
  EXPECT_EQ(iterations(trained(fields + "test_initialization: false\n", {}).test),
            (std::vector<double>{3, 6, 9, 10}));
  const ParsedLog commanded =
      trained(fields, {"--test-every", "5", "--display", "5", "--seed", "8"});
  EXPECT_EQ(iterations(commanded.train), (std::vector<double>{0, 5}));
  EXPECT_EQ(iterations(commanded.test), (std::vector<double>{5, 10}));
  const ParsedLog silent = trained("display: 0\n", {"--seed", "7"});
  EXPECT_EQ(iterations(silent.train), (std::vector<double>{0}));
  EXPECT_EQ(iterations(silent.test), (std::vector<double>{10}));
  EXPECT_EQ(silent.train.at(0), own.train.at(0)) << "random_seed is --seed";
  EXPECT_NE(commanded.train.at(0), own.train.at(0)) << "--seed replaces random_seed";
}

// The line of an iteration has the mean of the last losses; the line of the output has the last
// one.
TEST_F(CaffeRun, losses_are_averaged_as_the_solver_says) {
  solver("average_loss: 3\n");
  const Finished run = train({"--log", "caffe", "--display", "1"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  std::vector<double> losses, means;
  const std::regex output("Train net output #0: loss = (\\S+)"), line("iters\\), loss = (\\S+)");
  const auto all = [&](const std::regex& of, std::vector<double>& into) {
    for (std::sregex_iterator at(run.errors.begin(), run.errors.end(), of), end; at != end; ++at)
      into.push_back(std::stod((*at)[1]));
  };
  all(output, losses);
  all(line, means);
  ASSERT_EQ(losses.size(), 10u) << run.errors;
  ASSERT_EQ(means.size(), 10u);
  for (std::size_t i = 0; i < means.size(); ++i) {
    double sum = 0;
    const std::size_t first = i < 2 ? 0 : i - 2;
    for (std::size_t k = first; k <= i; ++k) sum += losses[k];
    const double mean = sum / static_cast<double>(i - first + 1);
    EXPECT_NEAR(means[i], mean, 2e-5 * mean) << i;
  }
  EXPECT_NE(losses[9], means[9]);
}

// Every loss is an output, in the order of names. The sum of their weighted values is the loss.
TEST_F(CaffeRun, every_loss_is_an_output) {
  put(folder_ / "n.prototxt",
      "layer { name: 'd' type: 'Input' top: 'data' top: 'label'\n"
      "  input_param { shape { dim: 10 dim: 3 dim: 8 dim: 8 } } }\n"
      "layer { name: 's' type: 'InnerProduct' bottom: 'data' top: 's'\n"
      "  inner_product_param { num_output: 4 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 't' type: 'InnerProduct' bottom: 'data' top: 't'\n"
      "  inner_product_param { num_output: 4 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'z' type: 'HingeLoss' bottom: 's' bottom: 'label' top: 'z/hinge'\n"
      "  loss_weight: 0.25 }\n"
      "layer { name: 'own' type: 'SoftmaxWithLoss' bottom: 't' bottom: 'label' loss_weight: 2 }\n");
  solver("");
  for (const char* slice : {"10", "3"}) {
    const Finished run = train({"--log", "caffe", "--display", "4", "--slice", slice});
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    const std::regex lines(
        "loss = (\\S+)\n.*Train net output #0: own = (\\S+) \\(\\* 2 = (\\S+) loss\\)\n"
        ".*Train net output #1: z/hinge = (\\S+) \\(\\* 0.25 = (\\S+) loss\\)\n");
    int found = 0;
    for (std::sregex_iterator at(run.errors.begin(), run.errors.end(), lines), end; at != end;
         ++at) {
      const auto value = [&](int number) { return std::stod((*at)[number]); };
      EXPECT_NEAR(value(1), value(3) + value(5), 2e-5 * value(1));
      EXPECT_NEAR(2 * value(2), value(3), 2e-5 * value(3));
      EXPECT_NEAR(0.25 * value(4), value(5), 2e-5 * value(5));
      EXPECT_GT(value(4), 1) << "four margins of about 1";
      ++found;
    }
    EXPECT_EQ(found, 3) << run.errors;
    const ParsedLog log = parse_log(run.errors);
    EXPECT_EQ(log.train.at(0).size(), 2u);
    EXPECT_TRUE(log.test.at(5).contains("own")) << run.errors;
    std::filesystem::remove_all(folder_ / "run");
  }
}

// A layer of a stage is in the net if the command line names the stage.
TEST_F(CaffeRun, stages_and_levels_of_the_command_line_choose_layers) {
  std::string net = get(folder_ / "n.prototxt");
  net.insert(net.find("layer { name: 'loss'"),
             "layer { name: 'extra' type: 'Power' bottom: 's' top: 's'\n"
             "  include { stage: 'more' min_level: 2 } }\n");
  put(folder_ / "n.prototxt", net);
  const auto layers = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--net", folder_ / "n.prototxt", "--dry-run", "--json", "-q"});
    const Finished run = omni_run(words);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return nlohmann::json::parse(run.output)["layers"].size();
  };
  EXPECT_EQ(layers({}), 2u);
  EXPECT_EQ(layers({"--net-stage", "more"}), 2u);
  EXPECT_EQ(layers({"--net-stage", "other", "--net-stage", "more", "--net-level", "2"}), 3u);
  for (const char* option : {"--net-stage", "--net-level"}) {
    const Finished refused = omni_run({"--net", "lenet", "--dry-run", option, "1"});
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_NE(refused.errors.find(std::string("error: ") + option + ": "), std::string::npos)
        << refused.errors;
  }
}

TEST_F(CaffeRun, snapshots_are_in_the_run_folder_and_go_on) {
  solver("snapshot: 6\nsnapshot_prefix: 'examples/mine'\n");
  const Finished whole = train({"--save-weights", folder_ / "whole.caffemodel"});
  ASSERT_EQ(whole.exit_code, 0) << whole.errors;
  for (const std::string name : {"mine_iter_6", "mine_iter_10"}) {
    EXPECT_TRUE(is_there(name + ".caffemodel")) << whole.errors;
    EXPECT_TRUE(is_there(name + ".solverstate"));
  }
  EXPECT_FALSE(is_there("mine_iter_12.caffemodel"));
  EXPECT_EQ(get(folder_ / "run/mine_iter_10.caffemodel"), get(folder_ / "whole.caffemodel"));
  const Finished rest = train({"--snapshot", folder_ / "run/mine_iter_6.solverstate",
                               "--save-weights", folder_ / "rest.caffemodel"});
  ASSERT_EQ(rest.exit_code, 0) << rest.errors;
  EXPECT_NE(rest.errors.find("goes on at iteration 6"), std::string::npos) << rest.errors;
  EXPECT_EQ(get(folder_ / "run/mine_iter_10.caffemodel"), get(folder_ / "rest.caffemodel"))
      << "written anew, as in Caffe";
}

TEST_F(CaffeRun, snapshots_are_those_that_the_solver_asks_for) {
  struct {
    const char* fields;
    std::vector<const char*> there, absent;
  } const kCases[] = {
      {"", {}, {"s_iter_10.caffemodel"}},
      {"snapshot: 5\n", {"s_iter_5.solverstate", "s_iter_10.solverstate"}, {"_iter_5.solverstate"}},
      {"snapshot_prefix: 'a/b/'\n", {"s_iter_10.solverstate"}, {"s_iter_5.solverstate"}},
      {"snapshot: 4 snapshot_after_train: false\n",
       {"s_iter_4.caffemodel", "s_iter_8.caffemodel"},
       {"s_iter_10.caffemodel"}},
      {"snapshot: 5 snapshot_after_train: false\n", {"s_iter_10.caffemodel"}, {}},
      {"snapshot_prefix: 'x' snapshot_after_train: false\n", {}, {"x_iter_10.caffemodel"}},
  };
  for (const auto& each : kCases) {
    SCOPED_TRACE(each.fields);
    std::filesystem::remove_all(folder_ / "run");
    solver(each.fields);
    const Finished run = train({"--slice", "5"});
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    for (const char* name : each.there) EXPECT_TRUE(is_there(name)) << name;
    for (const char* name : each.absent) EXPECT_FALSE(is_there(name)) << name;
  }
}

}  // namespace
}  // namespace omni::test
