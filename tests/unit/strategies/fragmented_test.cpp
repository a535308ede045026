// These tests train groups that meet about a fragment of the parameters at a time. They compare the
// parameters with plain loops in double precision over the same mini-batches.
#include "scheduling/strategies/averaging.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/tasks/task_errors.hpp"
#include "tests/support/deterministic_session.hpp"
#include "tests/support/group_training.hpp"
#include "tests/support/net_text.hpp"

namespace omni {
namespace {

constexpr int kFragmentedBatch = 6;
const std::string kFragmentedNet =
    test::net(kFragmentedBatch, {8, 8, 1},
              std::string(test::kSgd) + "policy=steps\nsteps=19\nscales=.5\n") +
    test::convolutional(5, "tanh") + test::connected(9, "tanh") + test::connected(3) +
    test::layer("softmax");

using Models = std::vector<std::vector<double>>;  // by parameter

MakeStrategy fragmented(AveragingOptions options, FragmentOptions fragments) {
  return [=](ComputeGroups& groups, const SolverOptions& solver) {
    return std::make_unique<Averaging>(groups, solver, options, fragments);
  };
}

class FragmentedTest : public test::DeterministicSession {
 protected:
  using Run = test::GroupTraining;
  static std::unique_ptr<Run> make(int groups) {
    return std::make_unique<Run>(
        kFragmentedNet, groups,
        Sharing{
            .replicas = true, .own_models = true, .fully_connected = FullyConnected::replicated},
        BuildOptions());
  }
  static Models models(Run& run, int group) {  // -1: the average
    Models all;
    for (const Param* param : run.groups.net(std::max(group, 0)).params()) {
      const std::vector<float> values = test::values(group < 0 ? *param->master : *param->replica);
      all.emplace_back(values.begin(), values.end());
    }
    return all;
  }
  static void expect_near(const Models& values, const Models& expected, const std::string& what) {
    for (std::size_t i = 0; i < expected.size(); ++i)
      for (std::size_t at = 0; at < expected[i].size(); ++at)
        ASSERT_NEAR(values[i][at], expected[i][at], 2e-5) << what << ", " << i << ", " << at;
  }

  // Plain computes the same training with plain loops. The gradients come from a net of one group.
  class Plain {
   public:
    Plain(int groups, AveragingOptions options, FragmentOptions fragments)
        : options_(options), parts_(fragments), run_(kFragmentedNet), z_(models(run_, -1)) {
      std::vector<std::size_t> sizes;
      for (const auto& each : z_) sizes.push_back(each.size());
      fragment_of_ = deal_fragments(sizes, parts_.count);
      velocity_ = zeros();
      w_.assign(static_cast<std::size_t>(groups), z_);
      speed_.assign(w_.size(), zeros());
      met_.assign(static_cast<std::size_t>(parts_.count), 0);
    }

    void train(int rounds) {
      for (int round = 1; round <= rounds; ++round) {
        Models change = zeros();
        for (std::size_t group = 0; group < w_.size(); ++group) update(group, round, change);
        for (std::size_t i = 0; i < z_.size(); ++i)
          if (is_due(i, round)) move(i, change[i]);
        for (int fragment = 0; fragment < parts_.count; ++fragment)
          met_[static_cast<std::size_t>(fragment)] += fragment_is_due(fragment, round) ? 1 : 0;
      }
    }
    const Models& z() const { return z_; }
    const Models& w(std::size_t group) const { return w_[group]; }

   private:
    Models zeros() const {
      Models all;
      for (const auto& each : z_) all.emplace_back(each.size());
      return all;
    }
    bool fragment_is_due(int fragment, int round) const {
      const int offset = (fragment + 1) * options_.every / parts_.count;
      return round >= offset && (round - offset) % options_.every == 0;
    }
    bool is_due(std::size_t i, int round) const { return fragment_is_due(fragment_of_[i], round); }

    void update(std::size_t group, int round, Models& change) {
      Net& net = run_.groups.net();
      Models& w = w_[group];
      for (std::size_t i = 0; i < w.size(); ++i)
        test::set(*net.params()[i]->master, {w[i].begin(), w[i].end()});
      const std::uint64_t first = kFragmentedBatch * number_++;
      const double rate = number_ >= 19 ? 0.025 : 0.05;
      run_.feed->submit(first);
      const Step pass{
          .training = true, .seed = 1, .first_sample = first, .slot = &run_.feed->slot(first)};
      net.forward(pass);
      net.backward(pass);
      EXPECT_TRUE(wait_for_tasks());
      run_.feed->release(first);
      for (std::size_t i = 0; i < w.size(); ++i) {
        const std::vector<float> diff = test::values(*net.params()[i]->diff);
        test::set(*net.params()[i]->diff, std::vector<float>(diff.size()));
        for (std::size_t at = 0; at < diff.size(); ++at) {
          double &own = w[i][at], &speed = speed_[group][i][at];
          const double pull =
              options_.pulls && is_due(i, round) ? options_.pull * (own - z_[i][at]) : 0;
          speed = 0.9 * speed + static_cast<double>(diff[at]) / kFragmentedBatch +
                  (net.params()[i]->decay > 0 ? 0.01 * own : 0);
          own -= rate * speed + pull;
          if (options_.pulls) {
            change[i][at] += pull;
            continue;
          }
          if (is_due(i, round)) change[i][at] += (own - z_[i][at]) / static_cast<double>(w_.size());
          if (is_due(i, round - parts_.delay))
            own = parts_.keeps * own + (1 - parts_.keeps) * z_[i][at];
        }
      }
    }

    void move(std::size_t i, const std::vector<double>& change) {
      const bool first = met_[static_cast<std::size_t>(fragment_of_[i])] == 0;
      const double momentum = first ? 0 : options_.momentum;
      for (std::size_t at = 0; at < change.size(); ++at) {
        double& velocity = velocity_[i][at];
        velocity = momentum * velocity + change[at];
        z_[i][at] += options_.pulls ? velocity : options_.rate * (momentum * velocity + change[at]);
      }
    }

    AveragingOptions options_;
    FragmentOptions parts_;
    Run run_;
    Models z_, velocity_;
    std::vector<int> fragment_of_, met_;
    std::vector<Models> w_, speed_;  // by group
    std::uint64_t number_ = 0;
  };

  static void expect_as_plain(int groups, AveragingOptions options, FragmentOptions fragments,
                              int rounds) {
    const auto run = make(groups);
    run->train({.iterations = 1000, .strategy = fragmented(options, fragments)},
               static_cast<std::uint64_t>(groups * rounds));
    Plain plain(groups, options, fragments);
    plain.train(rounds);
    expect_near(models(*run, -1), plain.z(), "the average");
    for (int group = 0; group < groups; ++group)
      expect_near(models(*run, group), plain.w(static_cast<std::size_t>(group)),
                  "group " + std::to_string(group));
  }
};

TEST_F(FragmentedTest, local_sgd_is_the_plain_loop) {
  expect_as_plain(2, {.restarts = false, .every = 4}, {.count = 2, .delay = 1, .keeps = 0.5}, 18);
  expect_as_plain(3, {.restarts = false, .every = 5, .rate = 0.7, .momentum = 0.9},
                  {.count = 3, .delay = 2, .keeps = 0}, 17);
  expect_as_plain(2, {.restarts = false, .every = 3}, {.count = 3, .delay = 2, .keeps = 0.25}, 14);
}

TEST_F(FragmentedTest, sma_is_the_plain_loop) {
  expect_as_plain(2, {.pulls = true, .restarts = false, .every = 2, .pull = 0.5, .momentum = 0.5},
                  {.count = 2}, 15);
  expect_as_plain(3, {.pulls = true, .restarts = false, .every = 4, .pull = 0.2, .momentum = 0.9},
                  {.count = 3}, 15);
}

// The rate drops in iteration 19, in round 10. At its next meeting each fragment of the models
// becomes the average.
TEST_F(FragmentedTest, models_become_the_average_after_a_drop_of_the_rate) {
  const AveragingOptions options{.pulls = true, .every = 2, .pull = 0.3, .momentum = 0.9};
  const auto equal = [&](std::uint64_t iterations) {
    const auto run = make(2);
    run->train({.iterations = 1000, .strategy = fragmented(options, {.count = 2})}, iterations);
    const Models z = models(*run, -1), w = models(*run, 1);
    int count = 0;
    for (std::size_t i = 0; i < z.size(); ++i) count += z[i] == w[i] ? 1 : 0;
    return count;
  };
  EXPECT_EQ(equal(18), 0);
  EXPECT_GT(equal(20), 0);
  EXPECT_EQ(equal(26), 0);
}

TEST_F(FragmentedTest, a_group_waits_for_a_meeting_that_is_a_restart) {
  const auto run = make(2);
  Averaging strategy(run->groups, run->solver, {.pulls = true, .every = 4, .pull = 0.3},
                     {.count = 2});
  const auto end = [&](int group, float rate) {
    GroupUpdate update;
    update.batch.group = group;
    update.rule.learning_rate = rate;
    strategy.end(update);
  };
  for (int i = 0; i < 2; ++i) end(0, 0.1f);
  EXPECT_TRUE(strategy.may_begin(0));
  end(1, 0.05f);
  EXPECT_FALSE(strategy.may_begin(0));
  EXPECT_TRUE(strategy.may_begin(1));
  end(1, 0.05f);
  EXPECT_TRUE(strategy.may_begin(0));
  EXPECT_TRUE(wait_for_tasks());
}

TEST_F(FragmentedTest, goes_on_with_the_same_bits_at_any_iteration) {
  for (const bool pulls : {false, true}) {
    const AveragingOptions options{
        .pulls = pulls, .every = 4, .pull = pulls ? 0.5 : 0, .momentum = 0.5};
    const FragmentOptions fragments{.count = 3, .delay = 2, .keeps = 0.5};
    const auto whole = make(2);
    whole->train({.iterations = 34, .strategy = fragmented(options, fragments)});
    for (const std::uint64_t stop : {5u, 7u, 10u, 16u}) {
      const auto pieces = make(2);
      pieces->train({.iterations = 34, .strategy = fragmented(options, fragments)}, stop);
      pieces->state = pieces->done;
      pieces->train({.iterations = 34, .strategy = fragmented(options, fragments)});
      EXPECT_EQ(pieces->masters(), whole->masters()) << stop;
      EXPECT_EQ(models(*pieces, 1), models(*whole, 1)) << stop;
    }
  }
}

// Contributions to a meeting that will not be are not counted twice.
TEST_F(FragmentedTest, another_number_of_fragments_begins_anew) {
  const AveragingOptions options{.every = 4};
  const auto run = make(2);
  run->train({.iterations = 100, .strategy = fragmented(options, {.count = 2})}, 3);
  run->state = run->done;
  run->train({.iterations = 100, .strategy = fragmented({.every = 40}, {.count = 4})}, 4);
  for (const Param* param : run->groups.net().params())
    EXPECT_THAT(test::values(*param->change), testing::Each(testing::FloatEq(0))) << param->name;
}

// Models have been pulled already, so the average still gets the pulls. The steps are counted on.
TEST_F(FragmentedTest, pulls_and_steps_outlast_another_number_of_fragments) {
  using Numbers = std::vector<double>;
  const std::vector<std::pair<int, int>> fragments{{2, 4}, {2, 1}, {1, 2}};
  for (const auto& [first, after] : fragments) {
    const auto sma = [](int every, int count) -> MakeStrategy {
      const AveragingOptions options{.pulls = true, .every = every, .pull = 0.3};
      if (count > 1) return fragmented(options, {.count = count});
      return [=](ComputeGroups& groups, const SolverOptions& solver) {
        return std::make_unique<Averaging>(groups, solver, options);
      };
    };
    const auto contributed = [](Run& run) {
      double sum = 0;
      for (const Param* param : run.groups.net().params())
        for (const float value : test::values(*param->change)) sum += std::abs(value);
      return sum;
    };
    const auto run = make(2);
    run->train({.iterations = 100, .strategy = sma(2, first)}, 3);
    run->state = run->done;
    const double sum = contributed(*run);
    EXPECT_GT(sum, 0);
    run->train({.iterations = 100, .strategy = sma(40, after)}, 4);
    EXPECT_EQ(contributed(*run), sum);
    const Numbers numbers = run->done.strategy.numbers;
    EXPECT_THAT(Numbers(numbers.begin() + 5, numbers.begin() + 9), testing::ElementsAre(0, 2, 1, 2))
        << first << " to " << after;
  }
}

TEST_F(FragmentedTest, what_was_learnt_since_the_last_meeting_is_not_lost) {
  const auto run = make(2);
  run->train({.iterations = 8, .strategy = fragmented({.every = 1000}, {.count = 4})});
  Models mean = models(*run, 0), other = models(*run, 1);
  for (std::size_t i = 0; i < mean.size(); ++i)
    for (std::size_t at = 0; at < mean[i].size(); ++at)
      mean[i][at] = (mean[i][at] + other[i][at]) / 2;
  expect_near(models(*run, -1), mean, "the average");
}

TEST(Fragments, are_dealt_evenly) {
  EXPECT_EQ(deal_fragments(std::vector<std::size_t>{5, 100, 60, 50, 1}, 2),
            (std::vector{0, 0, 1, 1, 0}));
  EXPECT_EQ(deal_fragments(std::vector<std::size_t>{7, 7}, 3), (std::vector{0, 1}));
}

}  // namespace
}  // namespace omni
