// These tests check that gradients are clipped by their common norm. All implementations agree, and
// the tree of sums has the right number of sums.
#include "codelets/normalise/gradient_clip.hpp"

#include <vector>

#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

template <class Args>
Args of_counts(std::initializer_list<std::int64_t> counts, std::size_t Args::*number, Args args) {
  std::ranges::copy(counts, args.counts.begin());
  args.*number = counts.size();
  return args;
}

TEST(GradientClip, sums_of_all_implementations_agree) {
  const auto sum = [](std::initializer_list<std::int64_t> counts, bool squares = true) {
    return of_counts(counts, &AddSquaresArgs::sources, {.squares = squares});
  };
  check_implementations<AddSquaresArgs>(
      add_squares,
      {{"one source", sum({1000})},
       {"one value", sum({1})},
       {"odd sizes, one empty", sum({37, 0, 1, 16, 15, 4097})},
       {"as many as may be", sum({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})},
       {"sums of squares", sum({1, 1, 1, 1}, false)}},
      {.operands =
           [](const AddSquaresArgs& args) {
             std::vector<Operand> all{output(1)};
             for (const std::int64_t count : args.all()) all.push_back(input(size(count)));
             return all;
           },
       .reference = reference::add_squares<double>,
       .terms =
           [](const AddSquaresArgs& args) {
             double all = 0;
             for (const std::int64_t count : args.all()) all += static_cast<double>(count);
             return all;
           }});
}

TEST(GradientClip, clips_of_all_implementations_agree) {
  const auto clips = [](std::initializer_list<std::int64_t> counts, float limit) {
    return of_counts(counts, &ClipArgs::gradients, {.limit = limit});
  };
  check_implementations<ClipArgs>(
      clip,
      {{"cut", clips({1000}, 0.01f)},
       {"just kept", clips({1000}, 1000)},
       {"odd sizes, one empty", clips({37, 0, 1, 4097}, 0.02f)},
       {"as many as may be", clips({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, 0.03f)}},
      {.operands =
           [](const ClipArgs& args) {
             std::vector<Operand> all{input(1, uniform(0.1f, 1))};
             for (const std::int64_t count : args.all()) all.push_back(in_place(size(count)));
             return all;
           },
       .reference = reference::clip<double>});
}

TEST(GradientClip, a_norm_that_is_no_number_changes_nothing) {
  double square = NAN;
  double values[] = {1, 2};
  void* const pointers[] = {&square, values};
  reference::clip<double>({.counts = {2}, .gradients = 1, .limit = 1}, Buffers(pointers));
  EXPECT_EQ(values[1], 2);
}

TEST(GradientClip, a_tree_has_all_sums) {
  EXPECT_EQ(sums_of_squares(1), 1u);
  EXPECT_EQ(sums_of_squares(15), 1u);
  EXPECT_EQ(sums_of_squares(16), 3u);
  EXPECT_EQ(sums_of_squares(225), 16u);
  EXPECT_EQ(sums_of_squares(226), 19u);
}

}  // namespace
}  // namespace omni::gradcheck
