// These tests compare trainings with Adam with the same few steps computed by hand.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "runtime/tasks/host_access.hpp"
#include "tests/support/group_training.hpp"
#include "tests/support/net_text.hpp"
#include "tests/support/with_session.hpp"

namespace omni {
namespace {

constexpr int kAdamBatch = 6, kInputs = 12, kClasses = 3;
const std::string kAdamNet =
    test::net(kAdamBatch, {3, 4, 1},
              "learning_rate=0.05\ndecay=0.01\nadam=1\nB1=0.8\nB2=0.95\neps=0.001\n") +
    test::connected(kClasses) + test::layer("softmax");

// ByHand is a softmax regression in double precision, which is updated as Darknet's adam_update_gpu
// does.
class ByHand {
 public:
  ByHand(std::vector<double> weights, std::vector<double> bias)
      : weights_(std::move(weights)), bias_(std::move(bias)) {}

  void update(const std::vector<std::vector<float>>& images, const std::vector<int>& labels) {
    std::vector<double> weights_diff(kClasses * kInputs), bias_diff(kClasses);  // sums, as there
    for (std::size_t image = 0; image < images.size(); ++image) {
      std::array<double, kClasses> exps{};
      double sum = 0;
      for (std::size_t k = 0; k < kClasses; ++k) {
        double logit = bias_[k];
        for (std::size_t i = 0; i < kInputs; ++i)
          logit += weights_[k * kInputs + i] * static_cast<double>(images[image][i]);
        sum += exps[k] = std::exp(logit);
      }
      for (std::size_t k = 0; k < kClasses; ++k) {
        const double diff = exps[k] / sum - (static_cast<int>(k) == labels[image] ? 1 : 0);
        bias_diff[k] += diff;
        for (std::size_t i = 0; i < kInputs; ++i)
          weights_diff[k * kInputs + i] += diff * static_cast<double>(images[image][i]);
      }
    }
    ++number_;
    step(weights_, weights_diff, weights_mean_, weights_square_, 0.01);
    step(bias_, bias_diff, bias_mean_, bias_square_, 0);
  }
  const std::vector<double>& weights() const { return weights_; }
  const std::vector<double>& bias() const { return bias_; }

 private:
  void step(std::vector<double>& values, std::vector<double>& diff, std::vector<double>& mean,
            std::vector<double>& square, double decay) const {
    constexpr double kB1 = 0.8, kB2 = 0.95, kEps = 0.001, kRate = 0.05;
    mean.resize(values.size());
    square.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      diff[i] += decay * kAdamBatch * values[i];
      mean[i] = kB1 * mean[i] + (1 - kB1) * diff[i];
      square[i] = kB2 * square[i] + (1 - kB2) * diff[i] * diff[i];
      const double mean_hat = mean[i] / (1 - std::pow(kB1, number_)),
                   square_hat = square[i] / (1 - std::pow(kB2, number_));
      values[i] -= kRate * mean_hat / (std::sqrt(square_hat) + kEps);
    }
  }
  std::vector<double> weights_, bias_;
  std::vector<double> weights_mean_, weights_square_, bias_mean_, bias_square_;
  int number_ = 0;
};

std::vector<double> doubles(const Tensor& tensor) {
  const std::vector<float> values = test::values(tensor);
  return {values.begin(), values.end()};
}

// Returns the images of a mini-batch and their labels.
std::pair<std::vector<std::vector<float>>, std::vector<int>> batch(DataFeed& feed,
                                                                   std::uint64_t number) {
  const std::uint64_t first = number * static_cast<std::uint64_t>(feed.batch());
  feed.submit(first);
  std::vector<std::vector<float>> images;
  std::vector<int> labels;
  for (const Tensor* slice : feed.slot(first).images) {
    const std::vector<float> values = test::values(*slice);
    for (std::size_t at = 0; at < values.size(); at += kInputs)
      images.emplace_back(values.begin() + static_cast<std::ptrdiff_t>(at),
                          values.begin() + static_cast<std::ptrdiff_t>(at) + kInputs);
  }
  for (const Tensor* slice : feed.slot(first).labels) {
    const HostAccess access(*slice, HostAccess::Mode::read);
    labels.insert(labels.end(), access.i32().begin(), access.i32().end());
  }
  feed.release(first);
  return {images, labels};
}

class Adam : public test::WithSession {
 protected:
  Adam() : WithSession(test::with_workers(2)) {}
};

TEST_F(Adam, a_tiny_net_learns_as_by_hand) {
  test::GroupTraining before(kAdamNet);
  const std::vector<Param*> params = before.groups.net().params();  // bias, weights
  ASSERT_EQ(params.size(), 2u);
  ByHand by_hand(doubles(*params[1]->master), doubles(*params[0]->master));
  for (std::uint64_t iterations = 1; iterations <= 5; ++iterations) {
    const auto [images, labels] = batch(*before.feed, iterations - 1);
    ASSERT_EQ(images.size(), static_cast<std::size_t>(kAdamBatch));
    by_hand.update(images, labels);

    test::GroupTraining run(kAdamNet);
    run.train({.iterations = iterations});
    const auto masters = run.masters();
    for (std::size_t i = 0; i < masters[0].size(); ++i)
      EXPECT_NEAR(masters[0][i], by_hand.bias()[i], 1e-5) << iterations << " updates";
    for (std::size_t i = 0; i < masters[1].size(); ++i)
      EXPECT_NEAR(masters[1][i], by_hand.weights()[i], 1e-5) << iterations << " updates";
    EXPECT_FLOAT_EQ(static_cast<float>(run.reports.back().momentum.explicit_part), 0.8f);
  }
}

// The convolution is replicated, so each group has a replica of its parameters, and gradients are
// stale.
TEST_F(Adam, groups_learn) {
  test::GroupTraining run(test::net(6, {8, 8, 1}, "learning_rate=0.005\nadam=1\n") +
                              test::convolutional(5, "tanh") + test::connected(3) +
                              test::layer("softmax"),
                          3);
  run.train({.iterations = 300, .strategy = async()});
  EXPECT_LT(run.reports.back().average_loss, 0.5 * run.reports.front().loss);
}

}  // namespace
}  // namespace omni
