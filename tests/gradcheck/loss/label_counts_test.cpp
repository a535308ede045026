// These tests check what ignored labels change: counts of labels, and the means that follow from
// them. They also check sums of losses, and images that become planes for a loss.

#include "codelets/loss/label_counts.hpp"
#include "codelets/spatial/planes.hpp"
#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

constexpr IgnoredLabels kIgnored{.in_loss = 2, .in_accuracy = 4};

TEST(LabelCounts, implementations_agree) {
  check_implementations(
      count_labels,
      {{"first slice", {.n = 300, .ignored = kIgnored, .first = true}},
       {"later slice", {.n = 7, .ignored = kIgnored}},
       {"one label", {.n = 1, .ignored = {.in_loss = 0}}}},
      {.operands = [](const LabelCountArgs& args) -> std::vector<Operand> {
         const auto labels = input(static_cast<std::size_t>(args.n), below(5), DataType::i32);
         return {labels, args.first ? output(kLabelCounts) : in_place(kLabelCounts, below(9))};
       },
       .reference =
           [](const LabelCountArgs& args, const Buffers& buffers) {
             reference::count_labels(args, buffers.get<std::int32_t>(0), buffers.get<double>(1));
           },
       .tolerance = 0});
}

TEST(LabelCounts, hand_computed) {
  const std::vector<std::int32_t> labels{2, 4, 0, kNoLabel, 2, 2};
  std::vector<double> counts{9, 9, 9};
  reference::count_labels({.n = 6, .ignored = kIgnored, .first = true}, labels.data(),
                          counts.data());
  EXPECT_EQ(counts, (std::vector<double>{5, 2, 4}));
  reference::count_labels({.n = 1, .ignored = kIgnored}, labels.data(), counts.data());
  EXPECT_EQ(counts, (std::vector<double>{6, 2, 5}));
}

TEST(ScaleLoss, implementations_agree) {
  check_implementations(
      scale_loss,
      {{"mean of labelled", {.n = 3, .inputs = 200, .of_labelled = true, .gradient = true}},
       {"mean of all", {.n = 3, .inputs = 7}},
       {"evaluation", {.n = 2, .inputs = 5, .of_labelled = true}}},
      {.operands = [](const LossMeanArgs& args) -> std::vector<Operand> {
         std::vector<Operand> operands{input(kLabelCounts, below(20)), in_place(kMetrics)};
         if (args.gradient)
           operands.push_back(in_place(static_cast<std::size_t>(args.n * args.inputs)));
         return operands;
       },
       .reference =
           [](const LossMeanArgs& args, const Buffers& buffers) {
             reference::scale_loss(args, buffers.get<double>(0), buffers.get<double>(1),
                                   args.gradient ? buffers.get<double>(2) : nullptr);
           }});
}

// Of eight images four have a loss and two are judged. Without such images nothing is divided by 0.
TEST(ScaleLoss, hand_computed) {
  std::vector<double> counts{8, 4, 2}, metrics{3, 1, 2, 5}, diff{1, -2};
  const LossMeanArgs args{.n = 1, .inputs = 2, .of_labelled = true, .gradient = true};
  reference::scale_loss(args, counts.data(), metrics.data(), diff.data());
  EXPECT_EQ(metrics, (std::vector<double>{6, 4, 8, 5}));
  EXPECT_EQ(diff, (std::vector<double>{2, -4}));
  counts = {8, 0, 0};
  metrics = {0, 0, 0, 8};
  reference::scale_loss(args, counts.data(), metrics.data(), diff.data());
  EXPECT_EQ(metrics, (std::vector<double>{0, 0, 0, 8}));
}

TEST(AddLoss, implementations_agree) {
  check_implementations(add_loss, {{"second", {.place = 5}}},
                        {.operands = [](const AddedLossArgs&) -> std::vector<Operand> {
                           return {input(kMetrics), in_place(kMetrics + 2)};
                         },
                         .reference =
                             [](const AddedLossArgs& args, const Buffers& buffers) {
                               reference::add_loss(args, buffers.get<double>(0),
                                                   buffers.get<double>(1));
                             }});
}

TEST(Planes, implementations_agree) {
  const auto values = [](const PlanesArgs& args) {
    return static_cast<std::size_t>(args.n * args.pixels * args.c);
  };
  check_implementations(planes,
                        {{"to planes", {.n = 2, .pixels = 6, .c = 5}},
                         {"back", {.n = 3, .pixels = 35, .c = 3, .to_planes = false}}},
                        {.operands = [=](const PlanesArgs& args) -> std::vector<Operand> {
                           return {input(values(args)), output(values(args))};
                         },
                         .reference =
                             [](const PlanesArgs& args, const Buffers& buffers) {
                               reference::planes(args, buffers.get<double>(0),
                                                 buffers.get<double>(1));
                             },
                         .tolerance = 0});
}

TEST(Planes, hand_computed) {
  const std::vector<double> image{1, 2, 3, 4, 5, 6};  // three pixels of two channels
  std::vector<double> dst(6), back(6);
  reference::planes({.n = 1, .pixels = 3, .c = 2}, image.data(), dst.data());
  EXPECT_EQ(dst, (std::vector<double>{1, 3, 5, 2, 4, 6}));
  reference::planes({.n = 1, .pixels = 3, .c = 2, .to_planes = false}, dst.data(), back.data());
  EXPECT_EQ(back, image);
}

}  // namespace
}  // namespace omni::gradcheck
