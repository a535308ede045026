// These tests compare softmax and its cross-entropy with references, numeric gradients and values
// computed by hand.

#include "codelets/loss/softmax.hpp"
#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

std::size_t softmax_values(const auto& args) {
  return static_cast<std::size_t>(args.n * args.inputs);
}

Operation<SoftmaxArgs> softmax_operation(Fill fill) {
  return {
      .operands = [fill](const SoftmaxArgs& args) -> std::vector<Operand> {
        return {input(softmax_values(args), fill), output(softmax_values(args))};
      },
      .reference =
          [](const SoftmaxArgs& args, const Buffers& buffers) {
            reference::softmax_forward(args, buffers.get<double>(0), buffers.get<double>(1));
          },
      .terms = [](const SoftmaxArgs& args) { return args.inputs; },
  };
}

const std::vector<Case<SoftmaxArgs>> kSoftmaxCases{
    {"ten classes", {.n = 4, .inputs = 10}},
    {"one class", {.n = 1, .inputs = 1}},
    {"odd, one image", {.n = 1, .inputs = 17}},
    {"ImageNet", {.n = 3, .inputs = 1000}},
    {"groups", {.n = 3, .inputs = 21, .groups = 3}},
    {"hot", {.n = 2, .inputs = 9, .temperature = 2.5f}},
};

TEST(SoftmaxForward, implementations_agree) {
  check_implementations(softmax_forward, kSoftmaxCases, softmax_operation(uniform(-3, 3)));
}

TEST(SoftmaxForward, large_values_do_not_overflow) {
  // The subtraction of such large values rounds the argument of exp. The absolute error of the
  // argument is the relative error of exp.
  Operation<SoftmaxArgs> operation = softmax_operation(uniform(-300, 300));
  operation.tolerance = 2e-5;
  check_implementations(softmax_forward, kSoftmaxCases, operation);
  check_implementations(softmax_forward, kSoftmaxCases, softmax_operation(uniform(3e38f, 3.1e38f)));
}

const std::vector<Case<CrossEntropyArgs>> kCrossEntropyCases{
    {"ten classes", {.n = 8, .inputs = 10, .gradient = true}},
    {"evaluation only", {.n = 8, .inputs = 10}},
    {"one class", {.n = 1, .inputs = 1, .gradient = true}},
    {"more than a block of images", {.n = 300, .inputs = 3, .gradient = true}},
    {"ImageNet", {.n = 5, .inputs = 1000, .gradient = true}},
    {"groups", {.n = 6, .inputs = 12, .groups = 3, .gradient = true}},
    {"hot", {.n = 3, .inputs = 7, .temperature = 2.5f, .gradient = true}},
    {"smoothed", {.n = 5, .inputs = 33, .smoothing = 0.1f, .gradient = true}},
    {"smoothed, hot groups",
     {.n = 6, .inputs = 12, .groups = 3, .temperature = 0.5f, .smoothing = 0.3f, .gradient = true}},
    {"weighted", {.n = 7, .inputs = 35, .smoothing = 0.1f, .weight = 0.3f, .gradient = true}},
    {"weighted, evaluation only", {.n = 7, .inputs = 35, .weight = 3}},
    {"one class, smoothed", {.n = 2, .inputs = 1, .smoothing = 0.3f}}};

TEST(CrossEntropy, implementations_agree) {
  for (const float size : {3.0f, 60.0f, 1e4f}) {
    const Operation<CrossEntropyArgs> operation{
        .operands = [=](const CrossEntropyArgs& args) -> std::vector<Operand> {
          std::vector<Operand> operands{
              input(softmax_values(args), uniform(-size, size)),
              input(softmax_values(args), uniform(0.001f, 1)),
              input(static_cast<std::size_t>(args.n),
                    below(static_cast<std::uint32_t>(args.inputs)), DataType::i32),
              output(4)};
          if (args.gradient) operands.push_back(output(softmax_values(args)));
          return operands;
        },
        .reference =
            [](const CrossEntropyArgs& args, const Buffers& buffers) {
              reference::cross_entropy(args, buffers.get<double>(0), buffers.get<double>(1),
                                       buffers.get<std::int32_t>(2), buffers.get<double>(3),
                                       args.gradient ? buffers.get<double>(4) : nullptr);
            },
    };
    check_implementations(cross_entropy, kCrossEntropyCases, operation);
  }
}

// Judged is an implementation's loss and gradient of one image.
struct Judged {
  double loss = 0;
  std::vector<float> diff;
};
Judged judge(const Implementation<CrossEntropyArgs>& implementation, CrossEntropyArgs args,
             std::vector<float> logits, std::int32_t label) {
  args.n = 1;
  args.inputs = static_cast<int>(logits.size());
  args.gradient = true;
  std::vector<float> probabilities(logits.size()), diff(logits.size()), metrics(4);
  reference::softmax_forward(
      {.n = 1, .inputs = args.inputs, .groups = args.groups, .temperature = args.temperature},
      logits.data(), probabilities.data());
  std::vector<std::int32_t> labels{label};
  run_on_values(implementation, args, logits, probabilities, labels, metrics, diff);
  return {static_cast<double>(metrics[0]), diff};
}

// The expected loss is computed by hand, as log(sum of e^x) - x of the label.
TEST(CrossEntropy, is_exact_where_probabilities_are_0_or_1) {
  struct Row {
    const char* what;
    CrossEntropyArgs args;
    std::vector<float> logits;
    std::int32_t label;
    double loss, diff_of_label;
  };
  const double tiny = std::exp(-30.0);
  for (const Row& row :
       std::vector<Row>{{"sure and right", {}, {30, 0, 0}, 0, 2 * tiny, -2 * tiny},
                        {"sure and wrong", {}, {1e4f, 0, -1e4f}, 2, 2e4, -1},
                        {"surer than floats tell", {}, {1e4f, -1e4f, -1e4f}, 0, 0, 0},
                        {"all equal", {}, {-1e4f, -1e4f, -1e4f, -1e4f}, 1, std::log(4.0), -0.75},
                        {"as large as floats are", {}, {3e38f, -3e38f}, 1, INFINITY, -1},
                        {"beyond the old bound", {}, {100, 0}, 1, 100, -1},
                        {"hot", {.temperature = 4}, {400, 0}, 1, 100, -0.25},
                        {"cold", {.temperature = 0.5f}, {15, 0, 0}, 0, 2 * tiny, -4 * tiny},
                        {"in its group only", {.groups = 2}, {0, 30, 500, 0}, 1, tiny, -tiny},
                        {"of the other group", {.groups = 2}, {900, 0, 500, 0}, 3, 500, -1}})
    for (const auto& implementation : implementations_here(cross_entropy)) {
      SCOPED_TRACE(std::string(row.what) + ", " + std::string(implementation.name));
      const Judged found = judge(implementation, row.args, row.logits, row.label);
      const double nearly = 1e-5, at_least = 1e-30;  // relative and absolute tolerance
      if (std::isinf(row.loss))
        EXPECT_GT(found.loss, 1e38);
      else
        EXPECT_NEAR(found.loss, row.loss, nearly * row.loss + at_least);
      EXPECT_NEAR(found.diff[static_cast<std::size_t>(row.label)], row.diff_of_label,
                  nearly * std::abs(row.diff_of_label) + at_least);
      for (const float each : found.diff) EXPECT_TRUE(std::isfinite(each));
    }
}

TEST(CrossEntropy, smoothed_loss_counts_all_classes_however_unlikely) {
  for (const auto& implementation : implementations_here(cross_entropy))
    EXPECT_NEAR(judge(implementation, {.smoothing = 0.5f}, {1000, 0, 0}, 0).loss, 500, 1e-3)
        << implementation.name;
}

// With a softmax in groups, an image is right only if its label has the largest probability of all
// groups, not only of its own. `omni-run predict` ranks classes in the same way.
TEST(CrossEntropy, an_image_is_right_when_its_label_is_likelier_than_all_outputs) {
  for (const auto& implementation : implementations_here(cross_entropy)) {
    std::vector<float> logits{0, 1, 0, 3}, probabilities{0.27f, 0.73f, 0.05f, 0.95f}, metrics(4);
    std::vector<std::int32_t> labels{1};
    run_on_values(implementation, CrossEntropyArgs{.n = 1, .inputs = 4, .groups = 2}, logits,
                  probabilities, labels, metrics);
    EXPECT_EQ(metrics[1], 0) << implementation.name;
    EXPECT_EQ(metrics[2], 1) << implementation.name;
  }
}

TEST(CrossEntropy, place_without_image_counts_nothing) {
  const CrossEntropyArgs args{.n = 2, .inputs = 3, .gradient = true};
  std::vector<float> probabilities{0.2f, 0.3f, 0.5f, 0.1f, 0.7f, 0.2f}, metrics(4), diff(6, NAN);
  std::vector<float> logits(6);
  std::ranges::transform(probabilities, logits.begin(), [](float p) { return std::log(p); });
  std::vector<std::int32_t> labels{kNoLabel, 1};
  for (const auto& implementation : implementations_here(cross_entropy)) {
    run_on_values(implementation, args, logits, probabilities, labels, metrics, diff);
    EXPECT_NEAR(metrics[0], -std::log(0.7f), 1e-6) << implementation.name;
    EXPECT_EQ(metrics[1], 1);
    EXPECT_EQ(metrics[3], 1);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(diff[static_cast<std::size_t>(i)], 0);
    EXPECT_NEAR(diff[4], -0.3f, 1e-6);
  }
}

// The gradient that cross_entropy writes is that of softmax and cross-entropy together.
TEST(CrossEntropy, gradient_reaches_through_the_softmax) {
  for (const float smoothing : {0.0f, 0.2f})
    for (const SoftmaxArgs& args :
         {SoftmaxArgs{.n = 3, .inputs = 10},
          SoftmaxArgs{.n = 3, .inputs = 12, .groups = 3, .temperature = 2},
          SoftmaxArgs{.n = 2, .inputs = 5, .temperature = 0.5f},
          SoftmaxArgs{.n = 1, .inputs = 1}}) {
      CrossEntropyArgs loss_args{.n = args.n,
                                 .inputs = args.inputs,
                                 .groups = args.groups,
                                 .temperature = args.temperature,
                                 .smoothing = smoothing,
                                 .gradient = true};
      std::vector<double> src = random_values(softmax_values(args), 7, uniform(-2, 2));
      std::vector<double> probabilities(src.size()), diff(src.size()), metrics(4);
      std::vector<std::int32_t> labels;
      for (int image = 0; image < args.n; ++image) labels.push_back(image * 7 % args.inputs);
      const auto loss = [&] {
        reference::softmax_forward(args, src.data(), probabilities.data());
        reference::cross_entropy(loss_args, src.data(), probabilities.data(), labels.data(),
                                 metrics.data(), diff.data());
        return metrics[0];
      };
      loss();
      loss_args.gradient = false;
      check_gradient("logits", src, diff, loss);
    }
}

TEST(CrossEntropy, hand_computed) {
  const std::vector<double> src{std::log(1.0), std::log(2.0), std::log(5.0),
                                std::log(1.0), std::log(2.0), std::log(5.0)};
  std::vector<double> probabilities(6), diff(6), metrics(4);
  const std::vector<std::int32_t> labels{2, 0};
  reference::softmax_forward({.n = 2, .inputs = 3}, src.data(), probabilities.data());
  reference::cross_entropy({.n = 2, .inputs = 3, .gradient = true}, src.data(),
                           probabilities.data(), labels.data(), metrics.data(), diff.data());
  const std::vector<double> expected{0.125, 0.25, -0.375, -0.875, 0.25, 0.625};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(diff[i], expected[i], 1e-12);
  EXPECT_NEAR(metrics[0], -std::log(0.625) - std::log(0.125), 1e-12);
  EXPECT_EQ(metrics[1], 1);  // the second image's label comes last
  EXPECT_EQ(metrics[2], 2);  // of three classes, all are in the first five
  EXPECT_EQ(metrics[3], 2);
}

TEST(CrossEntropy, smoothed_labels_hand_computed) {
  const std::vector<double> probabilities{0.5, 0.25, 0.25}, src{std::log(2.0), 0, 0};
  const std::vector<std::int32_t> labels{1};
  std::vector<double> diff(3), metrics(4);
  reference::cross_entropy({.n = 1, .inputs = 3, .smoothing = 0.25f, .gradient = true}, src.data(),
                           probabilities.data(), labels.data(), metrics.data(), diff.data());
  EXPECT_EQ(diff, (std::vector<double>{0.5 - 0.125, 0.25 - 0.75, 0.25 - 0.125}));
  EXPECT_NEAR(metrics[0], std::log(2) * (0.125 + 2 * 0.75 + 2 * 0.125), 1e-12);
}

std::vector<float> metrics_of(const Implementation<CrossEntropyArgs>& implementation,
                              std::vector<float> probabilities, std::int32_t label) {
  std::vector<float> metrics(4), logits(probabilities.size());
  std::ranges::transform(probabilities, logits.begin(), [](float p) { return std::log(p); });
  std::vector<std::int32_t> labels{label};
  run_on_values(implementation,
                CrossEntropyArgs{.n = 1, .inputs = static_cast<int>(probabilities.size())}, logits,
                probabilities, labels, metrics);
  return metrics;
}

TEST(CrossEntropy, a_constant_output_is_right_about_the_first_classes_only) {
  for (const auto& implementation : implementations_here(cross_entropy))
    for (std::int32_t label = 0; label < 10; ++label) {
      const auto metrics = metrics_of(implementation, std::vector<float>(10, 0.1f), label);
      EXPECT_EQ(metrics[1], label == 0 ? 1 : 0);
      EXPECT_EQ(metrics[2], label < 5 ? 1 : 0);
    }
}

TEST(CrossEntropy, a_diverged_net_is_right_about_nothing) {
  for (const auto& implementation : implementations_here(cross_entropy)) {
    const auto diverged = metrics_of(implementation, std::vector<float>(10, NAN), 0);
    EXPECT_TRUE(std::isnan(diverged[0]));
    EXPECT_EQ(diverged[1] + diverged[2], 0);
    for (std::size_t at = 0; at < 3; ++at) {  // one NaN among others, wherever it is
      std::vector<float> probabilities{0.2f, 0.3f, 0.5f};
      probabilities[at] = NAN;
      EXPECT_TRUE(std::isnan(metrics_of(implementation, probabilities, 1)[0])) << at;
    }
  }
}

TEST(CrossEntropy, a_label_out_of_range_is_named) {
  for (const auto& implementation : implementations_here(cross_entropy)) {
    if (implementation.role == Role::gpu) continue;
    for (const std::int32_t label : {-2, 3, 70000}) try {
        metrics_of(implementation, {0.2f, 0.3f, 0.5f}, label);
        ADD_FAILURE() << "accepted label " << label;
      } catch (const std::runtime_error& problem) {
        EXPECT_EQ(std::string(problem.what()),
                  "label " + std::to_string(label) +
                      " of image 0 of the slice is out of range: the net has 3 outputs");
      }
  }
}

// A GPU kernel cannot report an error. Its loss becomes NaN, which ends the run.
TEST(CrossEntropy, a_label_out_of_range_is_no_number_on_a_gpu) {
  for (const auto& implementation : implementations_here(cross_entropy))
    for (const std::int32_t label : {-2, 3, 70000})
      if (implementation.role == Role::gpu) {
        const auto metrics = metrics_of(implementation, {0.2f, 0.3f, 0.5f}, label);
        EXPECT_TRUE(std::isnan(metrics[0]));
      }
}

}  // namespace
}  // namespace omni::gradcheck
