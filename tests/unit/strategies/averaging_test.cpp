// These tests train groups with synchronous model averaging and with local SGD. They compare the
// parameters with plain loops in double precision over the same mini-batches.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/tasks/task_errors.hpp"
#include "scheduling/strategies/averaging.hpp"
#include "tests/support/deterministic_session.hpp"
#include "tests/support/group_training.hpp"
#include "tests/support/net_text.hpp"

namespace omni {
namespace {

constexpr int kAveragedBatch = 6;
const std::string kAveragedNet =
    test::net(kAveragedBatch, {8, 8, 1},
              std::string(test::kSgd) + "policy=steps\nsteps=10,17\nscales=.5,.95\n") +
    test::convolutional(5, "tanh", "pad=1\nbatch_normalize=1\n") + test::connected(9, "tanh") +
    test::connected(3) + test::layer("softmax");

using AveragedValues = std::vector<std::vector<double>>;  // by parameter

MakeStrategy averaging(AveragingOptions options) {
  return [=](ComputeGroups& groups, const SolverOptions& solver) {
    return std::make_unique<Averaging>(groups, solver, options);
  };
}

class AveragingTest : public test::DeterministicSession {
 protected:
  using Run = test::GroupTraining;
  static std::unique_ptr<Run> make(int groups) {
    return std::make_unique<Run>(
        kAveragedNet, groups,
        Sharing{
            .replicas = true, .own_models = true, .fully_connected = FullyConnected::replicated},
        BuildOptions());
  }
  static std::unique_ptr<Run> train(int groups, AveragingOptions options,
                                    std::uint64_t iterations) {
    auto run = make(groups);
    run->train({.iterations = iterations, .strategy = averaging(options)});
    return run;
  }

  static AveragedValues replicas(Run& run, int group) {
    AveragedValues all;
    for (const Param* param : run.groups.net(group).params()) {
      const std::vector<float> values =
          test::values(param->trainable ? *param->replica : *param->master);
      all.emplace_back(values.begin(), values.end());
    }
    return all;
  }

  // Plain computes the same training with plain loops. The gradients come from a net of one group.
  class Plain {
   public:
    Plain(int groups, AveragingOptions options)
        : options_(options), run_(std::make_unique<Run>(kAveragedNet)) {
      for (const Param* param : net().params()) {
        const std::vector<float> values = test::values(*param->master);
        z_.emplace_back(values.begin(), values.end());
        velocity_.emplace_back(values.size());
      }
      members_.resize(static_cast<std::size_t>(groups), {z_, velocity_});
    }

    void train(int iterations) {
      for (int round = 0; round < iterations / static_cast<int>(members_.size()); ++round) {
        const bool meets = (round + 1) % options_.every == 0;
        AveragedValues change = AveragedValues(z_.size());
        for (std::size_t i = 0; i < z_.size(); ++i) change[i].resize(z_[i].size());
        bool drops = false;
        for (Member& each : members_) {
          const double rate = rate_of(number_ + 1);
          drops = drops || is_drop(last_rate_, rate);
          last_rate_ = rate;
          step(each, rate, meets, change);
        }
        drops_ = drops_ || drops;
        if (meets) meet(change);
      }
    }
    const AveragedValues& z() const { return z_; }
    const AveragedValues& w(std::size_t member) const { return members_[member].w; }

   private:
    struct Member {
      AveragedValues w, velocity;
    };
    Net& net() { return run_->groups.net(); }
    static double rate_of(std::uint64_t iteration) {
      return 0.05 * (iteration >= 10 ? 0.5 : 1) * (iteration >= 17 ? 0.95 : 1);
    }

    void step(Member& member, double rate, bool meets, AveragedValues& change) {
      const std::vector<Param*> params = net().params();
      for (std::size_t i = 0; i < params.size(); ++i)
        if (params[i]->trainable)
          test::set(*params[i]->master, {member.w[i].begin(), member.w[i].end()});
      const std::uint64_t first = kAveragedBatch * number_++;
      run_->feed->submit(first);
      const Step pass{
          .training = true, .seed = 1, .first_sample = first, .slot = &run_->feed->slot(first)};
      net().forward(pass);
      net().backward(pass);
      EXPECT_TRUE(wait_for_tasks());
      run_->feed->release(first);
      for (std::size_t i = 0; i < params.size(); ++i) {
        if (!params[i]->trainable) continue;
        const std::vector<float> diff = test::values(*params[i]->diff);
        test::set(*params[i]->diff, std::vector<float>(diff.size()));
        for (std::size_t at = 0; at < diff.size(); ++at) {
          double& w = member.w[i][at];
          const double pull = options_.pulls && meets ? options_.pull * (w - z_[i][at]) : 0;
          const double gradient = static_cast<double>(diff[at]) / kAveragedBatch +
                                  (params[i]->decay > 0 ? 0.01 * w : 0);
          member.velocity[i][at] = 0.9 * member.velocity[i][at] + gradient;
          w -= rate * member.velocity[i][at] + pull;
          change[i][at] += pull;
        }
      }
    }

    void meet(const AveragedValues& change) {
      const double momentum = fresh_ ? 0 : options_.momentum;
      for (std::size_t i = 0; i < z_.size(); ++i) {
        if (!net().params()[i]->trainable) continue;
        for (std::size_t at = 0; at < z_[i].size(); ++at) {
          double mean = 0;
          for (const Member& each : members_) mean += each.w[i][at] / size();
          const double wanted = options_.pulls ? change[i][at] : mean - z_[i][at];
          double& velocity = velocity_[i][at];
          velocity = momentum * velocity + wanted;
          z_[i][at] += options_.pulls ? velocity : options_.rate * (momentum * velocity + wanted);
        }
      }
      if (!options_.pulls || drops_)
        for (Member& each : members_) each.w = z_;
      fresh_ = drops_;
      drops_ = false;
    }
    double size() const { return static_cast<double>(members_.size()); }

    AveragingOptions options_;
    std::unique_ptr<Run> run_;
    std::vector<Member> members_;
    AveragedValues z_, velocity_;
    std::uint64_t number_ = 0;
    double last_rate_ = 0;
    bool drops_ = false, fresh_ = true;
  };

  static void expect_near(const AveragedValues& values, const AveragedValues& expected,
                          const std::string& what) {
    for (std::size_t i = 0; i < expected.size(); ++i)
      for (std::size_t at = 0; at < expected[i].size(); ++at)
        ASSERT_NEAR(values[i][at], expected[i][at], 2e-5) << what << ", " << i << ", " << at;
  }
  static AveragedValues masters(Run& run) {
    AveragedValues all;
    for (const auto& values : run.masters()) all.emplace_back(values.begin(), values.end());
    return all;
  }

  static void expect_as_plain(int groups, AveragingOptions options, int iterations) {
    const auto run = train(groups, options, static_cast<std::uint64_t>(iterations));
    Plain plain(groups, options);
    plain.train(iterations);
    const auto params = run->groups.net().params();
    AveragedValues centre = masters(*run), expected = plain.z();
    for (std::size_t i = 0; i < params.size(); ++i)
      if (!params[i]->trainable) centre[i] = expected[i];  // running statistics
    expect_near(centre, expected, "the average");
    for (int group = 0; group < groups; ++group) {
      AveragedValues own = replicas(*run, group);
      for (std::size_t i = 0; i < params.size(); ++i)
        if (!params[i]->trainable) own[i] = plain.w(static_cast<std::size_t>(group))[i];
      expect_near(own, plain.w(static_cast<std::size_t>(group)), "group " + std::to_string(group));
    }
  }
};

// Each learner has momentum and decay, the average may have momentum, and the learning rate drops
// twice.
TEST_F(AveragingTest, sma_is_the_published_algorithm) {
  for (const int every : {1, 3})
    for (const double momentum : {0.0, 0.9})
      expect_as_plain(2, {.pulls = true, .every = every, .pull = 0.5, .momentum = momentum}, 24);
  expect_as_plain(3, {.pulls = true, .every = 1, .pull = 0.1, .momentum = 0.5}, 24);
}

TEST_F(AveragingTest, local_sgd_takes_outer_steps) {
  expect_as_plain(2, {.every = 3, .rate = 1}, 24);
  expect_as_plain(3, {.every = 2, .rate = 0.7, .momentum = 0.9}, 24);
  expect_as_plain(1, {.every = 4, .rate = 0.7, .momentum = 0.9}, 24);
}

TEST_F(AveragingTest, local_with_one_step_rate_1_and_no_momentum_averages) {
  const auto run = train(3, {.every = 1, .rate = 1}, 21);
  const auto centre = masters(*run);
  for (int group = 0; group < 3; ++group) {
    const AveragedValues own = replicas(*run, group);
    for (std::size_t i = 0; i < own.size(); ++i) EXPECT_EQ(own[i], centre[i]) << group;
  }
}

TEST_F(AveragingTest, S4_after_every_meeting_all_models_are_the_same_bits) {
  const AveragingOptions options{.every = 2, .rate = 0.7, .momentum = 0.9};
  const auto run = make(3);
  for (const std::uint64_t meeting : {6u, 12u, 18u, 24u}) {
    run->train({.iterations = 30, .strategy = averaging(options)}, meeting);
    run->state = run->done;
    for (int group = 0; group < 3; ++group)
      EXPECT_EQ(replicas(*run, group), masters(*run)) << meeting;
  }
  run->train({.iterations = 30, .strategy = averaging(options)}, 27);
  EXPECT_NE(replicas(*run, 0), replicas(*run, 1)) << "between two meetings each has its own";
}

// The learning rate drops in iteration 10, and all models become the average. After iteration 12,
// the next meeting, they differ again.
TEST_F(AveragingTest, S8_after_a_drop_of_the_rate_all_models_are_the_average) {
  const AveragingOptions options{.pulls = true, .every = 1, .pull = 0.3, .momentum = 0.9};
  const auto equal = [&](std::uint64_t iterations) {
    const auto run = train(2, options, iterations);
    return replicas(*run, 0) == masters(*run) && replicas(*run, 1) == masters(*run);
  };
  EXPECT_FALSE(equal(8));
  EXPECT_TRUE(equal(10));
  EXPECT_FALSE(equal(12));
}

TEST_F(AveragingTest, what_is_no_drop) {
  EXPECT_TRUE(is_drop(0.1, 0.01));
  EXPECT_TRUE(is_drop(0.1, 0.05));
  EXPECT_FALSE(is_drop(0.1, 0.1));
  EXPECT_TRUE(is_drop(0.1, 0.099));
  EXPECT_FALSE(is_drop(0.1, 0.1 * (1 - 1e-9)));
  EXPECT_FALSE(is_drop(0, 0.1));
  EXPECT_FALSE(is_drop(0.01, 0.1));
}

// Without meetings, each group trains a model of its own on every second mini-batch.
TEST_F(AveragingTest, S10_without_meetings_groups_train_alone) {
  auto run = make(2);
  run->train(
      {.iterations = 100, .strategy = averaging({.pulls = true, .every = 1000, .pull = 0.5})}, 8);
  Plain alone(2, {.pulls = true, .every = 1000, .pull = 0.5});
  alone.train(8);
  const auto fresh = make(2);
  EXPECT_EQ(masters(*run)[0], masters(*fresh)[0]) << "the average has not moved";
  const AveragedValues own = replicas(*run, 1);
  for (std::size_t i = 0; i < own.size(); ++i)
    for (std::size_t at = 0; at < own[i].size() && run->groups.net().params()[i]->trainable; ++at)
      ASSERT_NEAR(own[i][at], alone.w(1)[i][at], 2e-5);
}

TEST_F(AveragingTest, what_was_learnt_since_the_last_meeting_is_not_lost) {
  const auto never_met = train(2, {.every = 1000, .rate = 1}, 8);
  const AveragedValues centre = masters(*never_met), start = masters(*make(2));
  EXPECT_NE(centre[0], start[0]);
  EXPECT_EQ(replicas(*never_met, 0)[0], centre[0]);
  EXPECT_EQ(never_met->done.strategy.numbers.front(), 0) << "it was saved before";
  // 24 iterations are a whole number of meetings, so nothing is left to add at the end.
  expect_as_plain(2, {.every = 4, .rate = 0.5}, 24);
}

// A large connected layer is cut into blocks of neurons, and so are its velocity and its average.
TEST_F(AveragingTest, parameters_may_be_cut) {
  const std::string cfg =
      "[net]\nbatch=4\ninputs=1024\nlearning_rate=0.01\n[connected]\noutput=1024\n"
      "[connected]\noutput=2\nactivation=linear\n[softmax]\n";
  for (const bool pulls : {true, false}) {
    Run run(
        cfg, 2,
        Sharing{
            .replicas = true, .own_models = true, .fully_connected = FullyConnected::replicated},
        BuildOptions());
    ASSERT_GT(run.groups.net().params()[1]->master->parts(), 1u);
    const auto start = run.masters();
    run.train({.iterations = 8,
               .strategy = averaging({.pulls = pulls, .every = 1, .pull = 0.5, .rate = 1})});
    EXPECT_NE(run.masters(), start);
  }
}

// The training resumes with a shorter interval between meetings. No group's work is thrown away.
TEST_F(AveragingTest, a_shorter_interval_begins_anew) {
  auto run = make(2);
  run->train({.iterations = 100, .strategy = averaging({.every = 100, .rate = 1})}, 20);
  run->state = run->done;
  run->train({.iterations = 100, .strategy = averaging({.every = 4, .rate = 1})}, 22);
  EXPECT_EQ(run->done.strategy.numbers.front(), 0) << "one mini-batch each is no interval";
  run->state = run->done;
  run->train({.iterations = 100, .strategy = averaging({.every = 4, .rate = 1})}, 28);
  EXPECT_EQ(run->done.strategy.numbers.front(), 1);
}

// Of 7 mini-batches, group 0 has trained 4 and has contributed to the meeting. Group 1 has trained
// 3.
TEST_F(AveragingTest, another_interval_counts_no_model_twice) {
  const auto go_on = [](int every) {
    auto run = make(2);
    run->train({.iterations = 100, .strategy = averaging({.every = 4, .rate = 1})}, 7);
    run->state = run->done;
    run->train({.iterations = 100, .strategy = averaging({.every = every, .rate = 1})}, 11);
    return run;
  };
  const auto met = go_on(2), apart = go_on(1000);
  EXPECT_EQ(met->done.strategy.numbers.front(), 1);
  const AveragedValues first = replicas(*apart, 0), second = replicas(*apart, 1);
  AveragedValues mean = masters(*met);
  for (std::size_t i = 0; i < mean.size(); ++i)
    for (std::size_t at = 0; at < mean[i].size(); ++at)
      if (met->groups.net().params()[i]->trainable)
        mean[i][at] = (first[i][at] + second[i][at]) / 2;
  expect_near(masters(*met), mean, "the average");
}

TEST_F(AveragingTest, gives_the_same_bits_in_two_pieces) {
  for (const AveragingOptions& options :
       {AveragingOptions{.pulls = true, .every = 2, .pull = 0.5, .momentum = 0.9},
        AveragingOptions{.every = 3, .rate = 0.7, .momentum = 0.9}}) {
    const auto whole = train(2, options, 20);
    auto pieces = make(2);
    pieces->train({.iterations = 20, .strategy = averaging(options)}, 7);
    pieces->state = pieces->done;
    pieces->train({.iterations = 20, .strategy = averaging(options)});
    EXPECT_EQ(pieces->masters(), whole->masters());
    EXPECT_EQ(replicas(*pieces, 1), replicas(*whole, 1));
  }
}

}  // namespace
}  // namespace omni
