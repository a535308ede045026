// These tests check learning rate schedules in trainings of another length than the net's
// max_batches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

constexpr const char* kEndless =
    "[net]\nbatch=4\nheight=6\nwidth=6\nchannels=1\nlearning_rate=0.01\n[connected]\noutput=3\n"
    "activation=linear\n[softmax]\n";

// The data have 48 images, so an epoch has twelve mini-batches.
class Schedule : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_ / name; }
  Finished train(const std::string& policy, Words words) const {
    put(at("net.cfg"), "[net]\nbatch=4\nheight=6\nwidth=6\nchannels=1\nlearning_rate=0.01\n" +
                           policy + "[connected]\noutput=3\nactivation=linear\n[softmax]\n");
    words.insert(words.begin(), {"--net", at("net.cfg"), "--data", "synthetic:48:3", "--display",
                                 "1", "--no-test", "--metrics", at("metrics")});
    if (std::ranges::find(words, "--resume") == words.end()) std::filesystem::remove(at("metrics"));
    return omni_run(std::move(words));
  }
  std::vector<double> rates() const {
    std::vector<double> all;
    for (const auto& line : read_metrics(at("metrics")))
      all.push_back(line["learning_rate"].get<double>());
    return all;
  }
  TemporaryDirectory folder_;
};

TEST_F(Schedule, poly_ends_with_the_training) {
  for (const char* length : {"max_batches=5\n", "max_batches=90000\n", ""}) {
    const Finished run = train("policy=poly\npower=1\n" + std::string(length), {"--epochs", "2"});
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    const std::vector<double> all = rates();
    ASSERT_EQ(all.size(), 24u) << length;
    for (std::size_t i = 0; i < all.size(); ++i)
      EXPECT_NEAR(all[i], 0.01 * (1 - static_cast<double>(i + 1) / 24), 1e-8) << length << i;
  }
  // Without --epochs, the length is the net's max_batches.
  ASSERT_EQ(train("policy=poly\npower=1\nmax_batches=8\n", {}).exit_code, 0);
  EXPECT_NEAR(rates().at(3), 0.005, 1e-8);
}

// omni-run slurm writes a job here, because the training itself would never end.
TEST_F(Schedule, without_an_end_is_told) {
  put(at("net.cfg"), kEndless);
  const Words words{"slurm", "--net", at("net.cfg"), "--data", "synthetic:48:3"};
  for (const Words& more : {Words{}, Words{"--epochs", "2"}, Words{"--max-batches", "9"}}) {
    Words all = words;
    all.insert(all.end(), more.begin(), more.end());
    const Finished run = omni_run(all);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    const std::string said =
        "warning: neither --epochs nor max_batches says how long this training is: it goes on "
        "until it is stopped (--epochs 10, say)\n";
    EXPECT_EQ(run.errors, more.empty() ? said : "");
  }
}

TEST_F(Schedule, sgdr_has_a_cycle_as_long_as_the_training) {
  const std::string policy = "policy=sgdr\nlearning_rate_min=0.002\n";
  ASSERT_EQ(train(policy + "max_batches=6\n", {"--epochs", "1"}).exit_code, 0);
  EXPECT_NEAR(rates().at(5), 0.006, 1e-8) << "half of it";
  EXPECT_NEAR(rates().at(11), 0.002, 1e-8);
  ASSERT_EQ(train(policy + "max_batches=6\nsgdr_cycle=6\n", {"--epochs", "1"}).exit_code, 0);
  EXPECT_NEAR(rates().at(5), 0.002, 1e-8) << "as the net says";
}

TEST_F(Schedule, that_becomes_0_is_refused_at_the_start) {
  for (const char* policy : {"policy=exp\ngamma=0.0001\n", "policy=step\nstep=3\nscale=0\n",
                             "policy=steps\nsteps=2,7\nscales=.1,0\n",
                             "policy=sigmoid\nstep=3\ngamma=99\n", "policy=exp\ngamma=0\n"}) {
    const Finished run = train(policy, {"--epochs", "2"});
    EXPECT_EQ(run.exit_code, 2) << policy;
    EXPECT_THAT(run.errors, HasSubstr("net.cfg:7: the learning rate is 0 from iteration "));
    EXPECT_THAT(run.errors, HasSubstr(" of 24 on: nothing is learned then ("));
    EXPECT_FALSE(std::filesystem::exists(at("metrics")));
  }
  const std::string seven = "policy=steps\nsteps=2,7\nscales=.1,0\n";
  EXPECT_THAT(train(seven, {"--epochs", "2"}).errors, HasSubstr("--max-batches 6 ends before"));
  EXPECT_EQ(train(seven, {"--max-batches", "6"}).exit_code, 0);
  EXPECT_EQ(train("learning_rate=0\n", {"--max-batches", "3"}).exit_code, 0) << "as it was meant";
}

TEST_F(Schedule, that_comes_close_to_0_is_told) {
  const Finished run = train("policy=exp\ngamma=0.2\n", {"--epochs", "2"});
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.errors, HasSubstr("warning: " + at("net.cfg:7: from iteration 12 of 24 on the "
                                                     "learning rate is less than 1e-08 of ")));
  EXPECT_THAT(train("policy=exp\ngamma=0.5\n", {"--epochs", "2"}).errors,
              Not(HasSubstr("next to nothing")));
}

TEST_F(Schedule, of_another_length_is_told) {
  const std::string policy = "policy=steps\nsteps=300,450\nscales=.1,.1\nmax_batches=600\n";
  const std::string text =
      "net.cfg:8: steps=300,450 goes beyond this training of 24 iterations (--set steps=12,18 "
      "would be the same share of it as in the net)\n";
  EXPECT_THAT(train(policy, {"--epochs", "2"}).errors, HasSubstr("warning: " + at(text)));
  const Finished tried = train(policy, {"--max-batches", "24"});
  EXPECT_THAT(tried.errors, HasSubstr(at(text)));
  EXPECT_THAT(tried.errors, Not(HasSubstr("warning: ")));
  EXPECT_THAT(train(policy, {"--epochs", "2", "--set", "steps=12,18"}).errors,
              Not(HasSubstr("steps=")));
  EXPECT_THAT(
      train("policy=steps\nsteps=4,5\nscales=.1,.1\nmax_batches=6\n", {"--epochs", "2"}).errors,
      HasSubstr("steps=4,5 is early in this training of 24 iterations (--set "
                "steps=16,20 would"));
  EXPECT_THAT(train("burn_in=1000\n", {"--epochs", "2"}).errors,
              HasSubstr("warning: " + at("net.cfg:7: burn_in=1000 goes beyond")));
  EXPECT_THAT(train("policy=step\nstep=40\nscale=.1\n", {"--epochs", "2"}).errors,
              HasSubstr("step=40 goes beyond this training of 24 iterations\n"));
}

// An epoch has 48 samples in 12 mini-batches of 4.
class SolverSchedule : public Schedule {
 protected:
  Finished train(const std::string& policy, Words words) const {
    put(at("n.prototxt"),
        "input: 'data' input: 'label' input_shape { dim: 4 dim: 1 dim: 6 dim: 6 }\n"
        "layer { name: 's' type: 'InnerProduct' bottom: 'data' top: 's'\n"
        "  inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }\n"
        "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'label' }\n");
    put(at("s.prototxt"), "net: 'n.prototxt'\nbase_lr: 0.00001\n" + policy);
    words.insert(words.begin(), {"--solver", at("s.prototxt"), "--data", "synthetic:48:3",
                                 "--display", "1", "--no-test", "--metrics", at("metrics")});
    std::filesystem::remove(at("metrics"));
    return omni_run(std::move(words));
  }
};

TEST_F(SolverSchedule, ends_where_the_command_line_says) {
  const char* const policy = "lr_policy: 'fixed' max_iter: 90000\n";
  for (const Words& more : {Words{"--set", "max_iter=5"}, {"--max-batches", "5"}}) {
    Words words{"--epochs", "2"};
    words.insert(words.end(), more.begin(), more.end());
    ASSERT_EQ(train(policy, words).exit_code, 0);
    EXPECT_EQ(rates().size(), 5u);
  }
  ASSERT_EQ(train(policy, {"--epochs", "1"}).exit_code, 0);
  EXPECT_EQ(rates().size(), 12u);
}

// The warning names the keys of the solver file, which --set accepts.
TEST_F(SolverSchedule, of_another_length_is_told_in_its_own_words) {
  const auto said = [&](const std::string& policy, Words more = {}) {
    more.insert(more.end(), {"--epochs", "2"});
    return train(policy, more).errors;
  };
  const std::string steps =
      "lr_policy: 'multistep' gamma: 0.1\nmax_iter: 600\nstepvalue: 300 stepvalue: 450\n";
  EXPECT_THAT(said(steps), HasSubstr("s.prototxt:5: stepvalue=300,450 goes beyond this training of "
                                     "24 iterations (--set stepvalue=12,18 would"));
  EXPECT_THAT(said(steps, {"--set", "stepvalue=12,18"}), Not(HasSubstr("stepvalue=")));
  const std::string step = "lr_policy: 'step' gamma: 0.1\nmax_iter: 600\nstepsize: 300\n";
  EXPECT_THAT(said(step), HasSubstr("s.prototxt:5: stepsize=300 goes beyond this training of 24 "
                                    "iterations (--set stepsize=12 would"));
  EXPECT_THAT(said(step, {"--set", "stepsize=12"}), Not(HasSubstr("stepsize=")));
  EXPECT_THAT(said(step, {"--burn-in", "500"}), HasSubstr("(--burn-in 20 would"));
  EXPECT_THAT(said(step, {"--burn-in", "20"}), Not(HasSubstr("burn_in=")));
}

TEST_F(Schedule, that_changes_at_a_resume_is_told) {
  const std::string policy = "policy=poly\npower=1\n";
  const Words common{"--out", at("run"), "--resume", "auto", "--epochs"};
  const auto go_on = [&](const char* epochs) {
    Words words = common;
    words.push_back(epochs);
    return train(policy, words);
  };
  ASSERT_EQ(go_on("1").exit_code, 0);
  EXPECT_THAT(go_on("1").errors, Not(HasSubstr("the schedule of")));
  const Finished longer = go_on("2");
  EXPECT_EQ(longer.exit_code, 0) << longer.errors;
  EXPECT_THAT(longer.errors,
              HasSubstr("warning: the schedule of the learning rate now ends at iteration 24; up "
                        "to 12 it was that of a training of 12\n"));
  EXPECT_NEAR(rates().back(), 0, 1e-9);
  EXPECT_NEAR(rates().at(17), 0.0025, 1e-8);
}

}  // namespace
}  // namespace omni::test
