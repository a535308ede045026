// These tests check elastic averaging: its rules as plain functions, and trainings on unequal
// devices. Trainings are compared with plain loops in double precision over the same mini-batches.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "runtime/tasks/task_errors.hpp"
#include "scheduling/forecast/machine/machine_file.hpp"
#include "scheduling/forecast/virtual_clock.hpp"
#include "scheduling/strategies/elastic.hpp"
#include "tests/support/deterministic_session.hpp"
#include "tests/support/group_training.hpp"
#include "tests/support/net_text.hpp"

namespace omni {
namespace {

// The next tests check the rules as plain functions.

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

TEST(MergeWeights, A1_equal_updates_weigh_by_batches) {
  const std::vector<double> updates{5, 5}, batches{10, 30};
  EXPECT_EQ(merge_weights(updates, batches), (std::vector<double>{0.25, 0.75}));
  EXPECT_EQ(merge_weights(updates, updates), (std::vector<double>{0.5, 0.5}));
}

TEST(MergeWeights, A2_follow_the_updates_and_add_up_to_1) {
  const std::vector<double> updates{30, 20, 10}, batches{1, 1, 1};
  const std::vector<double> weights = merge_weights(updates, batches);
  EXPECT_NEAR(weights[0], .5, 1e-12);
  EXPECT_NEAR(weights[1], 1.0 / 3, 1e-12);
  EXPECT_NEAR(weights[2], 1.0 / 6, 1e-12);
  for (double fast = 1; fast <= 40; ++fast)
    EXPECT_NEAR(sum_of(merge_weights(std::vector{fast, 1.0, 0.0}, std::vector{64.0, 8.0, 8.0})), 1,
                1e-12);
}

// Speeds are in samples per second, and a mega-batch takes 50 s.
TEST(BatchScaling, A4_batches_become_proportional_to_speeds) {
  const std::vector<double> speeds{40, 30, 22};
  const BatchScaling scaling{.least = 8, .most = 128, .step = 2, .unit = 1};
  std::vector<double> batches(3, 64);
  for (int meeting = 0; meeting < 300; ++meeting) {
    constexpr double kSeconds = 50;
    std::vector<double> updates;
    for (std::size_t i = 0; i < 3; ++i) updates.push_back(kSeconds * speeds[i] / batches[i]);
    const double mean = sum_of(updates) / 3;
    for (std::size_t i = 0; i < 3; ++i) batches[i] = scaling.next(batches[i], updates[i] - mean);
  }
  for (std::size_t i = 1; i < 3; ++i)
    EXPECT_NEAR(batches[i] / batches[0], speeds[i] / speeds[0], 0.06) << batches[i];
}

TEST(BatchScaling, A1_equal_speeds_leave_batches_alone) {
  EXPECT_EQ(BatchScaling({.least = 8, .most = 64, .step = 4, .unit = 2}).next(32, 0), 32);
}

TEST(BatchScaling, grows_by_a_step_for_each_update_ahead_within_its_bounds) {
  const BatchScaling scaling{.least = 8, .most = 64, .step = 4, .unit = 2};
  EXPECT_EQ(scaling.next(32, 3), 44);
  EXPECT_EQ(scaling.next(32, -3), 20);
  EXPECT_EQ(scaling.next(32, 0.6), 34) << "in units";
  EXPECT_EQ(scaling.next(32, 0.8), 36) << "the nearest one";
  EXPECT_EQ(scaling.next(32, 20), 64);
  EXPECT_EQ(scaling.next(32, -20), 8);
}

TEST(ElasticPass, is_a_sixteenth_or_the_next_smaller_size_that_divides) {
  const auto pass = [](int batch) {
    return (*find_strategy("elastic"))->sizes({}, batch, {true, false})->images_per_pass;
  };
  EXPECT_EQ(pass(64), (std::vector<int>{4, 4}));
  EXPECT_EQ(pass(100), (std::vector<int>{5, 5}));
  EXPECT_EQ(pass(8), (std::vector<int>{1, 1}));
}

// The tests from here on train.

constexpr int kElasticBatch = 32, kElasticPass = 2;
constexpr std::uint64_t kMegaBatch = 64;  // samples

std::string elastic_net(int batch, const std::string& solver = test::kSgd) {
  return test::net(batch, {8, 8, 1}, solver) + test::convolutional(4, "tanh", "") +
         test::connected(3) + test::layer("softmax");
}

class ElasticTest : public test::DeterministicSession {
 protected:
  using Run = test::GroupTraining;
  using Values = std::vector<std::vector<double>>;  // by parameter
  using Speeds = std::vector<double>;               // by group

  static MakeStrategy elastic(ElasticOptions options) {
    options.mega_batch = kMegaBatch;
    return [=](ComputeGroups& groups, const SolverOptions& solver) {
      return std::make_unique<Elastic>(groups, solver, true, options);
    };
  }

  static MakeClock clock_of(const Speeds& speeds) {
    std::string devices;
    for (const double speed : speeds)
      devices += fmt::format(R"({}{{"kind": "gpu", "seconds": {{"1": {}, "32": {}}}}})",
                             devices.empty() ? "" : ", ", 1e-3 / speed, 32e-3 / speed);
    const auto machine =
        parse_machine(R"({"name": "unequal", "devices": [)" + devices + "]}", "machine");
    EXPECT_TRUE(machine) << machine.error().message();
    const int groups = static_cast<int>(speeds.size());
    return [machine = *machine, groups](int) {
      return std::make_unique<VirtualClock>(machine, place_on(machine, groups, false),
                                            NetCosts{.flops = 1e6}, 7);
    };
  }

  static std::unique_ptr<Run> make(std::size_t groups,
                                   const std::string& net = elastic_net(kElasticBatch)) {
    return std::make_unique<Run>(
        net, static_cast<int>(groups),
        Sharing{
            .replicas = true, .own_models = true, .fully_connected = FullyConnected::replicated},
        BuildOptions(), std::vector<int>(groups, kElasticPass));
  }

  // Plain computes the same training with plain loops, over the mini-batches that the reports name.
  // Gradients come from a net of one group, pass by pass.
  class Plain {
   public:
    Plain(std::size_t groups, ElasticOptions options, std::uint64_t samples)
        : options_(options), samples_(samples), run_(elastic_net(kElasticPass)) {
      for (const Param* param : net().params()) {
        const std::vector<float> values = test::values(*param->master);
        z_.emplace_back(values.begin(), values.end());
        velocity_.emplace_back(values.size());
      }
      members_.resize(groups, {z_, velocity_, kElasticBatch, 0});
    }

    void take(const StepReport& report) {
      Member& own = members_[static_cast<std::size_t>(report.group)];
      const std::uint64_t end = std::min(samples_, (cursor_ / kMegaBatch + 1) * kMegaBatch);
      const double wanted = std::min(own.batch, static_cast<double>(end - cursor_));
      ASSERT_EQ(static_cast<double>(report.group_samples), wanted) << "update " << report.iteration;
      if (wanted < own.batch) ++cut_;
      step(own, report.group_samples);
      cursor_ += report.group_samples;
      ++own.updates;
      if (cursor_ % kMegaBatch == 0) meet();
    }
    void conclude() {
      if (cursor_ % kMegaBatch != 0) meet();
    }
    const Values& z() const { return z_; }
    const Values& w(std::size_t group) const { return members_[group].w; }
    int cut() const { return cut_; }                // mini-batches at the end of a mega-batch
    int by_updates() const { return by_updates_; }  // meetings with weights of both kinds
    int by_batches() const { return by_batches_; }

   private:
    struct Member {
      Values w, velocity;
      double batch, updates;
    };
    Net& net() { return run_.groups.net(); }

    void step(Member& own, std::uint64_t samples) {
      const std::vector<Param*> params = net().params();
      for (std::size_t i = 0; i < params.size(); ++i)
        test::set(*params[i]->master, {own.w[i].begin(), own.w[i].end()});
      Values gradient;
      for (const auto& values : z_) gradient.emplace_back(values.size());
      for (std::uint64_t first = cursor_; first < cursor_ + samples; first += kElasticPass) {
        run_.feed->submit(first);
        const Step pass{
            .training = true, .seed = 1, .first_sample = first, .slot = &run_.feed->slot(first)};
        net().forward(pass);
        net().backward(pass);
        EXPECT_TRUE(wait_for_tasks());
        run_.feed->release(first);
        for (std::size_t i = 0; i < params.size(); ++i) {
          const std::vector<float> diff = test::values(*params[i]->diff);
          test::set(*params[i]->diff, std::vector<float>(diff.size()));
          for (std::size_t at = 0; at < diff.size(); ++at)
            gradient[i][at] += static_cast<double>(diff[at]);
        }
      }
      const auto count = static_cast<double>(samples);
      const double rate = 0.05 * count / kElasticBatch;
      const double momentum = options_.momentum > 0 ? 0 : 0.9;
      for (std::size_t i = 0; i < params.size(); ++i)
        for (std::size_t at = 0; at < gradient[i].size(); ++at) {
          double &w = own.w[i][at], &velocity = own.velocity[i][at];
          velocity =
              momentum * velocity + gradient[i][at] / count + (params[i]->decay > 0 ? 0.01 * w : 0);
          w -= rate * velocity;
        }
    }

    void meet() {
      double updates = 0, batches = 0;
      bool alike = true;
      for (const Member& each : members_) {
        updates += each.updates;
        batches += each.batch;
        alike = alike && each.updates == members_[0].updates;
      }
      ++(alike ? by_batches_ : by_updates_);
      for (std::size_t i = 0; i < z_.size(); ++i)
        for (std::size_t at = 0; at < z_[i].size(); ++at) {
          double merged = 0;
          for (const Member& each : members_)
            merged += (alike ? each.batch / batches : each.updates / updates) * each.w[i][at];
          double& velocity = velocity_[i][at];
          velocity = options_.momentum * velocity + merged - z_[i][at];
          z_[i][at] += velocity;
        }
      for (Member& each : members_) {
        const double ahead = each.updates - updates / static_cast<double>(members_.size());
        each.batch = std::clamp(each.batch + 2 * std::round(2 * ahead / 2), 4.0, 32.0);
        each.updates = 0;
        each.w = z_;
      }
    }

    ElasticOptions options_;
    std::uint64_t samples_;
    Run run_;
    std::vector<Member> members_;
    Values z_, velocity_;
    std::uint64_t cursor_ = 0;
    int cut_ = 0, by_updates_ = 0, by_batches_ = 0;
  };

  static void expect_near(const std::vector<float>& values, const std::vector<double>& expected,
                          const std::string& what) {
    for (std::size_t at = 0; at < expected.size(); ++at)
      ASSERT_NEAR(static_cast<double>(values[at]), expected[at], 2e-5) << what << ", " << at;
  }

  // The training takes the samples of 15 mini-batches, so that it ends in the middle of a
  // mega-batch.
  static Plain expect_as_plain(const Speeds& speeds, ElasticOptions options) {
    constexpr std::uint64_t kIterations = 15;
    const auto run = make(speeds.size());
    // An earlier strategy has left a velocity, which the first meeting forgets.
    for (const Param* param : run->groups.net().params())
      test::set(*param->centre_velocity,
                std::vector<float>(test::values(*param->master).size(), 0.5f));
    run->train(
        {.iterations = kIterations, .strategy = elastic(options), .make_clock = clock_of(speeds)});
    Plain plain(speeds.size(), options, kIterations * kElasticBatch);
    for (const StepReport& report : run->reports) plain.take(report);
    plain.conclude();
    const auto centre = run->masters();
    for (std::size_t i = 0; i < centre.size(); ++i) {
      const std::string what = "parameter " + std::to_string(i);
      expect_near(centre[i], plain.z()[i], what);
      for (std::size_t group = 0; group < speeds.size(); ++group)
        expect_near(test::values(*run->groups.net(static_cast<int>(group)).params()[i]->replica),
                    plain.w(group)[i], what + " of group " + std::to_string(group));
    }
    return plain;
  }
};

TEST_F(ElasticTest, on_unequal_devices_is_the_algorithm) {
  int by_updates = 0, by_batches = 0, cut = 0;
  for (const Speeds& speeds :
       {Speeds{1, 0.05}, Speeds{1, 0.5, 0.25}, Speeds{1, 0.6, 0.5}, Speeds{1, 0.9, 0.8, 0.7}}) {
    const Plain plain = expect_as_plain(speeds, {});
    by_updates += plain.by_updates();
    by_batches += plain.by_batches();
    cut += plain.cut();
  }
  EXPECT_GT(by_updates, 10);
  EXPECT_GT(by_batches, 0);
  EXPECT_GT(cut, 0);
}

TEST_F(ElasticTest, on_equal_devices_is_the_algorithm) {
  const Plain plain = expect_as_plain({1, 1}, {});
  EXPECT_GT(plain.by_batches(), 5);
}

// If the average has momentum, the groups' models step without momentum.
TEST_F(ElasticTest, takes_momentum_once) {
  expect_as_plain({1, 0.05}, {.momentum = 0.9});
  expect_as_plain({1, 0.9, 0.8, 0.7}, {.momentum = 0.5});
}

// With a learning rate of 0 the models stay alike, and merging must not change them, whatever the
// weights are.
TEST_F(ElasticTest, A3_models_that_are_alike_merge_to_themselves) {
  for (const Speeds& speeds : {Speeds{1, 0.05}, Speeds{1, 0.9, 0.8, 0.7}})
    for (const double momentum : {0.0, 0.9}) {
      const auto run =
          make(speeds.size(), elastic_net(kElasticBatch, "learning_rate=0\nmomentum=0.9\n"));
      const auto start = run->masters();
      run->train({.iterations = 8,
                  .strategy = elastic({.momentum = momentum}),
                  .make_clock = clock_of(speeds)});
      EXPECT_EQ(run->done.strategy.numbers.front(), 4);
      EXPECT_EQ(run->masters(), start);
    }
}

TEST_F(ElasticTest, A5_mega_batches_are_used_up) {
  const auto run = make(2);
  run->train({.iterations = 6, .strategy = elastic({})});
  ASSERT_FALSE(run->reports.back().figures.empty());
  EXPECT_STREQ(run->reports.back().figures[0].name, "meetings");
  // The last update is reported before the third meeting.
  EXPECT_EQ(run->reports.back().figures[0].value, 2);
  EXPECT_EQ(run->done.strategy.numbers.front(), 3);
}

}  // namespace
}  // namespace omni
