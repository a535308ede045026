#include "codelets/elementwise/exchange.hpp"

#include <cmath>
#include <utility>

#include "codelets/elementwise/accumulate.hpp"
#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

std::size_t exchanged_values(const auto& args) { return static_cast<std::size_t>(args.count); }

ExchangeTaskArgs together(std::span<const ExchangeArgs> params) {
  ExchangeTaskArgs args;
  for (const ExchangeArgs& each : params) args.params[args.count++] = each;
  return args;
}
ExchangeTaskArgs together(std::initializer_list<ExchangeArgs> params) {
  return together(std::span(params.begin(), params.size()));
}

ExchangeArgs adam(std::int64_t count, std::uint64_t number, bool refresh = false) {
  return {.count = count,
          .learning_rate = 0.01f,
          .momentum = 0.9f,
          .decay = 0.0005f,
          .gradient_scale = 1.0f / 64,
          .refresh = refresh,
          .adam = true,
          .number = number};
}

ExchangeArgs pulled(ExchangeArgs args, float pull = 0.25f) {
  args.corrects = true;
  args.pull = pull;
  return args;
}

ExchangeArgs gradient_stays(ExchangeArgs args) {
  args.clears = false;
  return args;
}

ExchangeArgs by_rule(StepRule rule, ExchangeArgs args) {
  args.rule = rule;
  return args;
}
ExchangeArgs by_rule(StepRule rule, std::int64_t count) {
  return by_rule(rule, {count, 0.01f, 0.9f, 0.0005f, 1.0f / 64});
}
ExchangeArgs by_sign(ExchangeArgs args) {
  args.by_sign = true;
  return args;
}

// Returns as many parameters as a task may have, of many sizes. Some have thousands of values, some
// at most five, and the third is empty.
ExchangeTaskArgs the_most(ExchangeArgs (*of)(std::int64_t count)) {
  std::vector<ExchangeArgs> params;
  for (std::int64_t i = 0; params.size() < ExchangeTaskArgs::kMost; ++i)
    params.push_back(of(i % 7 == 0 ? 9001 + i : i % 5 == 2 ? i / 5 : 4 * i));
  return together(params);
}

TEST(Exchange, implementations_agree) {
  const auto one = [](ExchangeArgs args) { return together({args}); };
  check_implementations<ExchangeTaskArgs>(
      exchange,
      {{"usual", one({1000, 0.01f, 0.9f, 0.0005f, 1.0f / 64})},
       {"one value", one({1, 0.1f, 0.5f, 0.1f, 1})},
       {"odd", one({37, 0.01f, 0.9f, 0, 0.5f})},
       {"no momentum", one({100, 0.01f, 0, 0.0001f, 0.5f})},
       {"frozen", one({100, 0, 0.9f, 0.0005f, 0.5f})},
       {"empty", one({0, 0.01f, 0.9f, 0.0005f, 1})},
       {"with a replica", one({1000, 0.01f, 0.9f, 0.0005f, 1.0f / 64, true})},
       {"replica in several pieces", one({5001, 0.01f, -0.3f, 0, 1, true})},
       {"Adam", one(adam(1000, 50))},
       {"Adam's first update", one(adam(37, 1))},
       {"Adam for long", one(adam(100, 10'000'000))},
       {"Adam with a replica in several pieces", one(adam(5001, 3, true))},
       {"a gradient that stays", one({.count = 1000, .learning_rate = 0.01f, .clears = false})},
       {"Adam, whose gradient stays", one(gradient_stays(adam(37, 2, true)))},
       {"the most, of some the gradient stays", the_most([](std::int64_t count) {
          const ExchangeArgs args{count, 0.01f, 0.9f};
          return count % 2 == 0 ? gradient_stays(args) : args;
        })},
       {"two together", together({{1000, 0.01f, 0.9f, 0.0005f}, {10, 0.02f, 0.9f}})},
       {"three, one empty, one odd",
        together({{5001, 0.01f, 0.9f, 0.0005f}, {0, 0.01f, 0.9f}, {37, 0.02f, 0.5f}})},
       {"three with and without replicas", together({{37, 0.01f, 0.9f, 0.0005f, 1, true},
                                                     {100, 0.02f, 0.9f, 0, 1},
                                                     {5001, 0.02f, 0.9f, 0, 1, true}})},
       {"the most", the_most([](std::int64_t count) {
          return ExchangeArgs{count, 0.01f + 0.001f * static_cast<float>(count % 3), 0.9f};
        })},
       {"the most of Adam",
        the_most([](std::int64_t count) { return adam(count, 3, count % 2 == 0); })},
       {"pulled to a centre", one(pulled({1000, 0.01f, 0.9f, 0.0005f, 1.0f / 64}))},
       {"pulled, in several pieces", one(pulled({5001, 0.01f, 0.9f, 0.1f, 1}, 1))},
       {"pulled by Adam", one(pulled(adam(37, 2)))},
       {"two, one of them pulled", together({pulled({37, 0.01f}), {100, 0.02f, 0.9f}})},
       {"rated", one(by_rule(StepRule::rated, 1000))},
       {"rated, by sign, in several pieces", one(by_sign(by_rule(StepRule::rated, 5001)))},
       {"Adam, rated", one(by_rule(StepRule::rated, adam(37, 2)))},
       {"Nesterov", one(by_rule(StepRule::nesterov, 100))},
       {"Nesterov, pulled, by sign",
        one(by_sign(by_rule(StepRule::nesterov, pulled({37, 0.01f}))))},
       {"AdaGrad", one(by_rule(StepRule::adagrad, 100))},
       {"RMSProp", one(by_sign(by_rule(StepRule::rmsprop, 100)))},
       {"AdaDelta", one(by_rule(StepRule::adadelta, adam(100, 2, true)))},
       {"Adam's three", together({adam(5001, 3, true), adam(37, 3), adam(64, 3, true)})}},
      {.operands = [](const ExchangeTaskArgs& args) -> std::vector<Operand> {
         std::vector<Operand> operands;
         for (const ExchangeArgs& each : args.all()) {
           operands.insert(operands.end(), 3, in_place(exchanged_values(each)));
           if (each.rule >= StepRule::adagrad)  // a mean square
             operands.back() = in_place(exchanged_values(each), uniform(0, 1));
           if (!each.clears) operands.end()[-2] = input(exchanged_values(each));
           if (each.refresh) operands.push_back(output(exchanged_values(each)));
           if (each.adam) operands.push_back(in_place(exchanged_values(each), uniform(0, 1)));
           if (each.corrects) {
             operands.push_back(input(exchanged_values(each)));
             operands.push_back(in_place(exchanged_values(each)));
           }
         }
         return operands;
       },
       .reference =
           [](const ExchangeTaskArgs& args, const Buffers& buffers) {
             for_each_exchanged<double>(
                 args, buffers,
                 [](std::size_t, const ExchangeArgs& each, const Exchanged<double>& of) {
                   reference::exchange(each, of);
                 });
           }});
}

// The steps follow Caffe's solvers. The value is 2, the gradient 4 of a batch of two, the rate 1/8
// and then 1/4. Momentum, decay and the decay of the squares are 1/2. Only AdaDelta has an epsilon.
TEST(Exchange, hand_computed_steps_of_the_other_rules) {
  struct Expected {
    StepRule rule;
    float first, second;  // values
  };
  const double g = 3;                  // 4/2 + 2/2
  const auto twice = [&](auto step) {  // (value, gradient) of two iterations
    double value = step(2.0, g, 0.125);
    value = step(value, 2 + value / 2, 0.25);
    return static_cast<float>(value);
  };
  double v = 0, s = 0;
  const Expected kExpected[] = {
      {StepRule::rated, 1.625f,
       twice([&](double w, double of, double rate) { return w - (v = v / 2 + rate * of); })},
      {StepRule::nesterov, 2 - 1.5f * 0.375f, (v = 0, twice([&](double w, double of, double rate) {
                                                 const double old =
                                                     std::exchange(v, v / 2 + rate * of);
                                                 return w - 1.5 * v + old / 2;
                                               }))},
      {StepRule::adagrad, 1.875f, (v = 0, twice([&](double w, double of, double rate) {
                                     return w - rate * of / std::sqrt(v += of * of);
                                   }))},
      {StepRule::rmsprop, 2 - 0.125f * std::sqrt(2.0f),
       (v = 0, twice([&](double w, double of, double rate) {
          return w - rate * of / std::sqrt(v = v / 2 + of * of / 2);
        }))},
      {StepRule::adadelta, 2 - 0.125f * 3 * std::sqrt(0.5f / 5),
       (v = 0, twice([&](double w, double of, double rate) {
          s = s / 2 + of * of / 2;
          const double change = of * std::sqrt((v + 0.5) / (s + 0.5));
          v = v / 2 + change * change / 2;
          return w - rate * change;
        }))}};
  for (const auto& implementation : implementations_here(exchange))
    for (const Expected& each : kExpected) {
      std::vector<float> value{2}, diff{4}, velocity{0}, square{0};
      ExchangeArgs args{1, 0.125f, 0.5f, 0.5f, 0.5f};
      args.rule = each.rule;
      args.square_memory = 0.5f;
      args.adam = each.rule == StepRule::adadelta;
      args.epsilon = args.adam ? 1 : 0;  // times 1/2, the share of an image
      const auto run = [&] {
        if (args.adam)
          run_on_values(implementation, together({args}), value, diff, velocity, square);
        else
          run_on_values(implementation, together({args}), value, diff, velocity);
      };
      run();
      EXPECT_NEAR(value[0], each.first, 1e-6);
      diff[0] = 4;
      args.learning_rate = 0.25f;
      run();
      EXPECT_NEAR(value[0], each.second, 1e-6) << static_cast<int>(each.rule);
    }
}

// The value is 2, the gradients are 4 and 8 of a batch of two, the rate is 1/8 and then 1/4.
// Momentum and decay are 1/2.
TEST(Exchange, hand_computed_sequence) {
  for (const auto& implementation : implementations_here(exchange)) {
    std::vector<float> value{2}, diff{4}, velocity{0};
    ExchangeArgs args{1, 0.125f, 0.5f, 0.5f, 0.5f};
    run_on_values(implementation, together({args}), value, diff, velocity);
    EXPECT_EQ(velocity[0], 3);  // 4/2 + 2/2
    EXPECT_EQ(value[0], 1.625f);
    EXPECT_EQ(diff[0], 0) << "ready for the next iteration";
    diff[0] = 8;
    args.learning_rate = 0.25f;
    run_on_values(implementation, together({args}), value, diff, velocity);
    EXPECT_EQ(velocity[0], 6.3125f);  // 3/2 + 8/2 + 1.625/2
    EXPECT_EQ(value[0], 0.046875f);
    EXPECT_EQ(diff[0], 0);
  }
}

// The value is 2, the gradients 4 and -4 of a batch of two, the rate 1/8, B1 1/2, B2 3/4, the decay
// 1/2.
TEST(Exchange, hand_computed_sequence_of_adam) {
  for (const auto& implementation : implementations_here(exchange)) {
    std::vector<float> value{2}, diff{4}, velocity{0}, mean_square{0};
    ExchangeArgs args{1,    0.125f,          0.5f,  0.5f,  0.5f,  false,
                      true, StepRule::usual, false, 0.75f, 1e-7f, 1};
    run_on_values(implementation, together({args}), value, diff, velocity, mean_square);
    EXPECT_EQ(velocity[0], 1.5f);      // 3/2, where 3 = 4/2 + 2/2
    EXPECT_EQ(mean_square[0], 2.25f);  // 9/4
    EXPECT_EQ(value[0], 1.875f);       // mean 3, root of the mean square 3: one whole rate
    EXPECT_EQ(diff[0], 0) << "ready for the next iteration";
    diff[0] = -4;
    args.number = 2;
    run_on_values(implementation, together({args}), value, diff, velocity, mean_square);
    EXPECT_EQ(velocity[0], 0.21875f);          // (1.5 - 1.0625) / 2, where -1.0625 = -4/2 + 1.875/2
    EXPECT_EQ(mean_square[0], 1.9697265625f);  // (3 * 2.25 + 1.12890625) / 4
    EXPECT_NEAR(value[0], 1.8578176f,
                1e-6f);  // 1.875 - (0.21875 / 0.75) / sqrt(1.96973 / 0.4375) / 8
    EXPECT_EQ(diff[0], 0);
  }
}

// Darknet's gradient is a sum over the batch. So eps is added to the root of the mean square of
// this sum, not of the mean gradient.
TEST(Exchange, epsilon_of_adam_is_darknet_s) {
  for (const auto& implementation : implementations_here(exchange)) {
    std::vector<float> value{0}, diff{8}, velocity{0}, mean_square{0};
    const ExchangeArgs args{1, 1, 0.5f, 0, 0.125f, false, true, StepRule::usual, false, 0.5f, 8, 1};
    run_on_values(implementation, together({args}), value, diff, velocity, mean_square);
    EXPECT_FLOAT_EQ(value[0], -0.5f);  // 8 / (8 + 8)
  }
}

// Caffe computes velocity = momentum * velocity + rate * g; value -= velocity.
TEST(Exchange, is_caffe_s_while_the_rate_is_constant) {
  const ExchangeArgs args{1, 0.01f, 0.9f, 0.0005f, 0.125f};
  const double rate = static_cast<double>(args.learning_rate);
  double value = 1, velocity = 0, caffe_value = 1, caffe_velocity = 0;
  for (int step = 0; step < 50; ++step) {
    double diff = std::cos(step) * 8;
    const double gradient = static_cast<double>(args.gradient_scale) * diff +
                            static_cast<double>(args.decay) * caffe_value;
    caffe_velocity = static_cast<double>(args.momentum) * caffe_velocity + rate * gradient;
    caffe_value -= caffe_velocity;
    reference::exchange<double>(args, {&value, &diff, &velocity});
    ASSERT_NEAR(value, caffe_value, 1e-13);
  }
}

TEST(Accumulate, implementations_agree) {
  check_implementations<AccumulateArgs>(
      accumulate_sum,
      {{"usual", {1000}},
       {"one value", {1}},
       {"odd", {37}},
       {"more than a GPU's threads", {70001}},
       {"several sources, cleared", {37, 3, true}}},
      {.operands = [](const AccumulateArgs& args) -> std::vector<Operand> {
         const std::size_t count = exchanged_values(args);
         std::vector<Operand> operands(1 + size(args.sources),
                                       args.clear ? in_place(count) : input(count));
         operands.front() = accumulated(count);
         return operands;
       },
       .reference =
           [](const AccumulateArgs& args, const Buffers& buffers) {
             for (std::size_t source = 1; source <= size(args.sources); ++source)
               reference::accumulate(args, buffers.get<double>(source), buffers.get<double>(0));
           }});
}

}  // namespace
}  // namespace omni::gradcheck
