#include "codelets/elementwise/dropout.hpp"

#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

std::size_t values(const DropoutArgs& args) {
  return static_cast<std::size_t>(args.n * args.per_sample);
}

const std::vector<Case<DropoutArgs>> kDropoutCases{
    {"fc of AlexNet", {.n = 4, .per_sample = 4096, .layer = 12, .seed = 3, .first_sample = 256}},
    {"one value", {.n = 1, .per_sample = 1, .probability = 0.3f}},
    {"odd", {.n = 3, .per_sample = 37, .probability = 0.7f, .layer = 2}},
    {"one less than a group", {.n = 2, .per_sample = 63}},
    {"one group", {.n = 2, .per_sample = 64}},
    {"one more than a group", {.n = 2, .per_sample = 65}},
    {"large counters",
     {.n = 2, .per_sample = 130, .layer = 500, .seed = ~0ull, .first_sample = (1ull << 40) - 1}},
    {"nothing dropped", {.n = 2, .per_sample = 100, .probability = 0}},
    {"almost all dropped", {.n = 2, .per_sample = 5000, .probability = 0.999f}},
    {"all dropped", {.n = 2, .per_sample = 100, .probability = 1}},
};

const Operation<DropoutArgs> kOperation{
    .operands = [](const DropoutArgs& args) -> std::vector<Operand> {
      return {in_place(values(args))};
    },
    .reference = [](const DropoutArgs& args,
                    const Buffers& buffers) { reference::dropout(args, buffers.get<double>(0)); },
};

std::vector<float> run(const Implementation<DropoutArgs>& implementation, const DropoutArgs& args,
                       std::vector<float> values) {
  run_on_values(implementation, args, values);
  return values;
}

std::vector<float> mask(const DropoutArgs& args) {
  return run(dropout_forward.implementations()[0], args, std::vector<float>(values(args), 1.0f));
}

std::size_t equal_values(const std::vector<float>& a, const std::vector<float>& b) {
  std::size_t equal = 0;
  for (std::size_t i = 0; i < a.size(); ++i) equal += a[i] == b[i];
  return equal;
}

TEST(Dropout, implementations_agree) {
  check_implementations(dropout_forward, kDropoutCases, kOperation);
  check_implementations(dropout_backward, kDropoutCases, kOperation);
}

TEST(Dropout, gradient) {
  for (const Case<DropoutArgs>& each : kDropoutCases) {
    SCOPED_TRACE(each.what);
    std::vector<double> src = random_values(values(each.args), 1);
    const std::vector<double> diff_dst = random_values(src.size(), 2);
    std::vector<double> diff_src = diff_dst;
    reference::dropout(each.args, diff_src.data());
    check_gradient("src", src, diff_src, [&] {
      std::vector<double> dst = src;
      reference::dropout(each.args, dst.data());
      return dot(dst, diff_dst);
    });
  }
}

TEST(Dropout, share_and_scale) {
  for (const float probability : {0.1f, 0.25f, 0.5f, 0.9f, 0.999f}) {
    const DropoutArgs args{.n = 50, .per_sample = 20000, .probability = probability, .seed = 9};
    const std::vector<float> dst = mask(args);
    const auto dropped = static_cast<double>(std::count(dst.begin(), dst.end(), 0.0f));
    const double count = static_cast<double>(dst.size()), p = static_cast<double>(probability);
    EXPECT_NEAR(dropped, count * p, 5 * std::sqrt(count * p * (1 - p))) << p;
    const auto kept = std::count(dst.begin(), dst.end(), 1 / (1 - probability));
    EXPECT_EQ(dropped + static_cast<double>(kept), count);
  }
}

TEST(Dropout, nothing_dropped_changes_nothing_and_all_dropped_is_zero) {
  const std::vector<float> src{1.5f, -0.1f, 3e-40f, 1e38f, -INFINITY};
  for (const auto& implementation : implementations_here(dropout_forward)) {
    DropoutArgs args{.n = 1, .per_sample = 5, .probability = 0};
    EXPECT_EQ(run(implementation, args, src), src);
    args.probability = 1;
    EXPECT_EQ(run(implementation, args, src), std::vector<float>(5));
  }
}

TEST(Dropout, backward_has_the_mask_of_forward) {
  const DropoutArgs args{.n = 3, .per_sample = 101, .layer = 4, .seed = 5, .first_sample = 77};
  const std::vector<float> ones(values(args), 1.0f), forward = mask(args);
  for (const auto& implementation : implementations_here(dropout_backward))
    EXPECT_EQ(run(implementation, args, ones), forward) << implementation.name;
}

TEST(Dropout, slices_do_not_matter) {
  DropoutArgs args{.n = 8, .per_sample = 33, .layer = 1, .seed = 2, .first_sample = 1000};
  const std::vector<float> whole = mask(args);
  args.n = 4;
  std::vector<float> halves = mask(args);
  args.first_sample += 4;
  const std::vector<float> second = mask(args);
  halves.insert(halves.end(), second.begin(), second.end());
  EXPECT_EQ(halves, whole);
}

// Masks that differ in one argument agree in half of their values, as independent masks do.
TEST(Dropout, masks_are_independent) {
  const DropoutArgs args{.n = 1, .per_sample = 100000, .layer = 1, .seed = 2, .first_sample = 3};
  std::vector<DropoutArgs> others(5, args);
  others[0].seed = 3;
  others[1].layer = 2;
  others[2].first_sample = 4;
  others[3].seed = 2ull + (1ull << 32);
  others[4].first_sample = 3ull + (1ull << 32);
  const std::vector<float> first = mask(args);
  const double half = static_cast<double>(first.size()) / 2, deviation = std::sqrt(half / 2);
  for (const DropoutArgs& other : others)
    EXPECT_NEAR(static_cast<double>(equal_values(first, mask(other))), half, 5 * deviation);
  for (const std::size_t shift : {1, 2, 4, 16, 64}) {
    const std::vector<float> shifted(first.begin() + static_cast<std::ptrdiff_t>(shift),
                                     first.end());
    EXPECT_NEAR(static_cast<double>(equal_values(shifted, first)), half, 5 * deviation + 64)
        << "elements at a distance of " << shift;
  }
}

}  // namespace
}  // namespace omni::gradcheck
