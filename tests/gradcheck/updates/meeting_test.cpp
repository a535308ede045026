// These tests check the codelets of the groups' meetings. All implementations are compared with
// double precision, and synchronous model averaging is tested as a whole on quadratics, by known
// properties.
#include "codelets/elementwise/meeting.hpp"

#include "codelets/elementwise/exchange.hpp"
#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

template <class Args>
std::vector<Case<Args>> of_counts(Args args) {
  std::vector<Case<Args>> cases;
  for (const auto& [what, count] : std::initializer_list<std::pair<const char*, std::int64_t>>{
           {"usual", 1000}, {"one value", 1}, {"odd", 37}, {"none", 0}, {"many", 70001}}) {
    args.count = count;
    cases.push_back({what, args});
  }
  return cases;
}

TEST(Contribute, implementations_agree) {
  check_implementations<ContributeArgs>(
      contribute, of_counts(ContributeArgs{.weight = 0.3f}),
      {.operands = [](const ContributeArgs& args) -> std::vector<Operand> {
         return {in_place(size(args.count)), input(size(args.count)), input(size(args.count))};
       },
       .reference =
           [](const ContributeArgs& args, const Buffers& buffers) {
             for (std::int64_t i = 0; i < args.count; ++i)
               buffers.get<double>(0)[i] += static_cast<double>(args.weight) *
                                            (buffers.get<double>(1)[i] - buffers.get<double>(2)[i]);
           }});
}

TEST(MoveCentre, implementations_agree) {
  for (const MoveCentreArgs& args :
       {MoveCentreArgs{}, MoveCentreArgs{.momentum = 0.9f},
        MoveCentreArgs{.rate = 0.7f, .momentum = 0.9f, .nesterov = true}})
    check_implementations<MoveCentreArgs>(
        move_centre, of_counts(args),
        {.operands = [](const MoveCentreArgs& each) -> std::vector<Operand> {
           return {in_place(size(each.count)), in_place(size(each.count)),
                   in_place(size(each.count))};
         },
         .reference =
             [](const MoveCentreArgs& each, const Buffers& buffers) {
               const CentreStep<double> step(each);
               for (std::int64_t i = 0; i < each.count; ++i)
                 step(buffers.get<double>(0)[i], buffers.get<double>(1)[i],
                      buffers.get<double>(2)[i]);
             }});
}

TEST(Publish, implementations_agree) {
  for (const float keeps : {0.0f, 0.25f})
    check_implementations<PublishArgs>(
        publish, of_counts(PublishArgs{.keeps = keeps}),
        {.operands = [](const PublishArgs& args) -> std::vector<Operand> {
           return {args.keeps == 0 ? output(size(args.count)) : in_place(size(args.count)),
                   input(size(args.count))};
         },
         .reference =
             [](const PublishArgs& args, const Buffers& buffers) {
               const auto own = static_cast<double>(args.keeps);
               for (std::int64_t i = 0; i < args.count; ++i) {
                 double& model = buffers.get<double>(0)[i];
                 model = (own == 0 ? 0 : own * model) + (1 - own) * buffers.get<double>(1)[i];
               }
             }});
}

// On the gradient g = -change, PyTorch's SGD with nesterov=True computes buf = m buf + g and p -=
// lr (g + m buf).
TEST(MoveCentre, is_nesterov_s_step_by_hand) {
  const CentreStep<double> step({.rate = 0.5f, .momentum = 0.5f, .nesterov = true});
  double centre = 1, change = 2, velocity = 4;
  step(centre, change, velocity);
  EXPECT_EQ(velocity, 4);  // 4/2 + 2
  EXPECT_EQ(centre, 3);    // 1 + (2 + 4/2) / 2
  EXPECT_EQ(change, 0);
}

// Learners has k learners with the losses curvature/2 (w - target)^2. The codelets'
// double-precision references train them.
struct Learners {
  std::vector<double> w, target;
  double z = 1, z_before = 1, curvature = 1;
  std::vector<double> velocity = std::vector<double>(w.size());
  double change = 0, centre_velocity = 0;

  void step(float rate, float pull, float momentum) {
    for (std::size_t j = 0; j < w.size(); ++j) take_step(j, rate, pull, change);
    z_before = z;
    CentreStep<double>({.momentum = momentum})(z, change, centre_velocity);
  }
  // Updates learner j and pulls it towards z. The pull is added to `into`.
  void take_step(std::size_t j, float rate, float alpha, double& into) {
    double gradient = curvature * (w[j] - target[j]);
    reference::exchange<double>(
        {.count = 1, .learning_rate = rate, .corrects = true, .pull = alpha},
        {&w[j], &gradient, &velocity[j], nullptr, nullptr, &z, &into});
  }
  // Sets z to the mean of all models, as groups do that meet without pulls.
  double move_to_mean() {
    for (const double each : w) change += (each - z) / static_cast<double>(w.size());
    CentreStep<double>({})(z, change, centre_velocity);
    return z;
  }
  double slope() const {  // mean gradient
    double all = 0;
    for (std::size_t j = 0; j < w.size(); ++j) all += curvature * (w[j] - target[j]);
    return all / static_cast<double>(w.size());
  }
  double sum() const {
    double all = z;
    for (const double each : w) all += each;
    return all;
  }
};

constexpr double kRounding = 2e-7;  // of 0.1f, and what comes of it

TEST(ModelAveraging, S1_changes_the_sum_by_the_gradients_alone) {
  for (const float momentum : {0.0f, 0.75f}) {
    Learners learners{.w = {1, 0.3, -0.7}, .target = {0, 1, 5}};
    double moved = 0;  // of z, in the step before
    for (int step = 0; step < 50; ++step) {
      const double before = learners.sum();
      double gradients = 0;
      for (std::size_t j = 0; j < 3; ++j) gradients += learners.w[j] - learners.target[j];
      learners.step(0.125f, 0.25f, momentum);
      ASSERT_NEAR(learners.sum() - before,
                  -0.125 * gradients + static_cast<double>(momentum) * moved, 1e-12);
      moved = learners.z - learners.z_before;
    }
  }
}

TEST(ModelAveraging, S2_with_alpha_1_over_k_the_centre_is_the_mean_of_before_the_step) {
  Learners learners{.w = {1, 2, 3, 6}, .target = {0, 0, 0, 0}, .z = -40};
  learners.step(0.5f, 0.25f, 0);
  EXPECT_NEAR(learners.z, 3, 1e-12);
}

// Learners on one device first add up their own pulls. The result must be the same as with one sum
// over all learners, and as with an all-reduce.
TEST(ModelAveraging, S3_flat_hierarchical_and_all_reduce_are_one) {
  const std::vector<double> start{1, 0.3, -0.7, 4, 2.5, -3}, target{0, 1, 5, -2, 0.5, 1};
  const std::size_t k = start.size();
  constexpr float kRate = 0.125f, kPull = 0.125f, kMomentum = 0.75f;
  Learners flat{.w = start, .target = target};
  Learners reduced = flat;
  std::vector<std::pair<std::vector<std::size_t>, Learners>> split;
  for (const std::vector<std::size_t>& devices :
       {std::vector<std::size_t>{3, 3}, {2, 2, 2}, {1, 5}, {1, 1, 1, 1, 1, 1}})
    split.emplace_back(devices, flat);
  double moved = 0;  // of the reduced centre, in the step before
  for (int step = 0; step < 100; ++step) {
    flat.step(kRate, kPull, kMomentum);
    for (auto& [devices, learners] : split) {
      std::size_t j = 0;
      double all = 0;
      for (const std::size_t count : devices) {
        double own = 0;  // of this device
        for (const std::size_t last = j + count; j < last; ++j)
          learners.take_step(j, kRate, kPull, own);
        all += own;
      }
      CentreStep<double>({.momentum = kMomentum})(learners.z, all, learners.centre_velocity);
    }
    double mean = 0;
    for (const double w : reduced.w) mean += w / static_cast<double>(k);
    const double z = reduced.z;
    double ignored = 0;
    for (std::size_t j = 0; j < k; ++j) reduced.take_step(j, kRate, kPull, ignored);
    moved = static_cast<double>(k) * static_cast<double>(kPull) * (mean - z) +
            static_cast<double>(kMomentum) * moved;
    reduced.z += moved;
    for (const auto& [devices, learners] : split) {
      ASSERT_NEAR(learners.z, flat.z, 1e-12) << devices.size() << " devices, step " << step;
      for (std::size_t j = 0; j < k; ++j) ASSERT_NEAR(learners.w[j], flat.w[j], 1e-12);
    }
    ASSERT_NEAR(reduced.z, flat.z, 1e-12) << step;
  }
}

// In this variant the centre is the mean of all models, so only gradients move the mean.
TEST(ModelAveraging, S12_pulls_to_the_mean_leave_it_to_the_gradients) {
  for (const float pull : {0.125f, 0.5f, 1.0f}) {
    Learners learners{.w = {1, -2, 0.5, 7}, .target = {0, 1, 2, -3}};
    for (int step = 0; step < 50; ++step) {
      const double before = learners.move_to_mean(), expected = before - 0.125 * learners.slope();
      double ignored = 0;
      for (std::size_t j = 0; j < 4; ++j) learners.take_step(j, 0.125f, pull, ignored);
      ASSERT_NEAR(learners.move_to_mean(), expected, 1e-12) << pull << ", step " << step;
    }
  }
}

TEST(ModelAveraging, S5_comes_to_rest_at_the_known_point) {
  for (const float momentum : {0.0f, 0.9f}) {
    Learners learners{.w = {1, 1}, .target = {0, 1}};
    for (int step = 0; step < 2000; ++step) learners.step(0.1f, 0.5f, momentum);
    EXPECT_NEAR(learners.z, 0.5, 1e-6);
    EXPECT_NEAR(learners.w[0], 0.4166667, 1e-6);
    EXPECT_NEAR(learners.w[1], 0.5833333, 1e-6);
  }
}

TEST(ModelAveraging, S6_takes_the_known_path) {
  struct At {
    int step;
    double w0, w1, z;
  };
  Learners heavy{.w = {1, 1}, .target = {0, 1}};
  int done = 0;
  for (const At& at :
       {At{1, .9, 1, 1}, At{2, .86, 1, .95}, At{3, .819, .975, .885}, At{4, .7701, .9325, .8385},
        At{5, .72729, .89225, .80945}, At{10, .600996212, .767645403, .684256091}}) {
    for (; done < at.step; ++done) heavy.step(0.1f, 0.5f, 0.9f);
    EXPECT_NEAR(heavy.w[0], at.w0, kRounding) << at.step;
    EXPECT_NEAR(heavy.w[1], at.w1, kRounding) << at.step;
    EXPECT_NEAR(heavy.z, at.z, kRounding) << at.step;
  }
  Learners plain{.w = {1, 1}, .target = {0, 1}};
  const double z[] = {1, .95, .93, .897, .8738};
  for (int step = 0; step < 5; ++step) {
    plain.step(0.1f, 0.5f, 0);
    if (step >= 2) {
      EXPECT_NEAR(plain.z, z[step], kRounding) << step + 1;
    }
  }
  for (int step = 5; step < 10; ++step) plain.step(0.1f, 0.5f, 0);
  EXPECT_NEAR(plain.w[0], .665557330, kRounding);
  EXPECT_NEAR(plain.w[1], .832206520, kRounding);
  EXPECT_NEAR(plain.z, .766160712, kRounding);
}

TEST(ModelAveraging, S7_is_stable_up_to_the_known_rate) {
  const auto ends_at = [](std::size_t k, float rate, float momentum) {
    Learners learners{.w = std::vector<double>(k, 1), .target = std::vector<double>(k, 0)};
    for (int step = 0; step < 3000; ++step)
      learners.step(rate, 1.0f / static_cast<float>(k), momentum);
    return std::abs(learners.z);
  };
  for (const std::size_t k : {2u, 4u, 8u}) {
    const float bound = 2 * (1 - 1 / static_cast<float>(k));
    EXPECT_LT(ends_at(k, 0.98f * bound, 0), 1e-3) << k;
    EXPECT_GT(ends_at(k, 1.02f * bound, 0), 1) << k;
  }
  for (const auto& [k, bound] : {std::pair{2u, 1.32f}, {4u, 1.66f}, {8u, 1.83f}}) {
    EXPECT_LT(ends_at(k, 0.97f * bound, 0.9f), 1e-2) << k;
    EXPECT_GT(ends_at(k, 1.03f * bound, 0.9f), 1) << k;
  }
  EXPECT_GT(ends_at(1, 0.01f, 0), 1) << "which is why one group trains as sync does";
}

TEST(ModelAveraging, S9_identical_learners_stay_identical) {
  Learners learners{.w = {1, 1, 1}, .target = {0.3, 0.3, 0.3}};
  for (int step = 0; step < 100; ++step) {
    learners.step(0.1f, 1.0f / 3, 0.9f);
    ASSERT_EQ(learners.w[0], learners.w[1]);
    ASSERT_EQ(learners.w[0], learners.w[2]);
  }
}

// Synchronous elastic averaging computes w -= rate g + alpha (w - z) and z += beta (mean w - z).
// Here beta is k alpha.
TEST(ModelAveraging, S11_without_momentum_it_is_elastic_averaging) {
  Learners learners{.w = {1, -2, 0.5}, .target = {0, 1, 2}};
  std::vector<double> w = learners.w;
  double z = 1;
  for (int step = 0; step < 30; ++step) {
    const double mean = (w[0] + w[1] + w[2]) / 3, z_old = z;
    z += 3 * 0.125 * (mean - z);
    for (std::size_t j = 0; j < 3; ++j)
      w[j] -= 0.25 * (w[j] - learners.target[j]) + 0.125 * (w[j] - z_old);
    learners.step(0.25f, 0.125f, 0);
    ASSERT_NEAR(learners.z, z, 1e-12);
    for (std::size_t j = 0; j < 3; ++j) ASSERT_NEAR(learners.w[j], w[j], 1e-12);
  }
}

}  // namespace
}  // namespace omni::gradcheck
