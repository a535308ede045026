// These tests check trees of sums: however the leaves are divided among ranks, the same pairs are
// added up.
#include "codelets/elementwise/sum_tree.hpp"

#include <gtest/gtest.h>

#include <string>

namespace omni {
namespace {

// Adds up sums that are given as formulas.
std::string added_up(std::vector<std::string> formulas, const std::vector<Leaves>& of, int leaves) {
  const auto left = add_pairs(of, leaves, [&](std::size_t one, std::size_t other) {
    formulas[one] = "(" + formulas[one] + "+" + formulas[other] + ")";
  });
  EXPECT_EQ(left.size(), 1u);
  EXPECT_EQ(left.front().second, (Leaves{0, leaves}));
  return formulas[left.front().first];
}

// Returns the formula if each of `sharers` adds up its own leaves first, and sends the sums.
std::string shared(int sharers, int leaves, const std::vector<int>& weights = {}) {
  std::vector<std::string> sent;
  std::vector<Leaves> of;
  for (int sharer = 0; sharer < sharers; ++sharer) {
    const Leaves own = leaves_of(sharer, sharers, leaves, weights);
    std::vector<std::string> formulas;
    std::vector<Leaves> single;
    for (int leaf = own.first; leaf < own.end; ++leaf) {
      formulas.push_back(std::to_string(leaf));
      single.push_back({leaf, leaf + 1});
    }
    const auto left = add_pairs(single, leaves, [&](std::size_t one, std::size_t other) {
      formulas[one] = "(" + formulas[one] + "+" + formulas[other] + ")";
    });
    std::vector<Leaves> sums;
    for (const auto& [place, sum] : left) {
      // The sum is in the place of its first leaf.
      EXPECT_EQ(static_cast<int>(place), sum.first - own.first);
      sums.push_back(sum);
      sent.push_back(formulas[place]);
    }
    EXPECT_EQ(sums, sums_of(own, leaves));
    of.insert(of.end(), sums.begin(), sums.end());
  }
  return added_up(sent, of, leaves);
}

TEST(SumTree, adds_up_pairs_then_pairs_of_pairs) {
  EXPECT_EQ(shared(1, 1), "0");
  EXPECT_EQ(shared(1, 4), "((0+1)+(2+3))");
  EXPECT_EQ(shared(1, 5), "(((0+1)+(2+3))+4)");
  EXPECT_EQ(shared(1, 7), "(((0+1)+(2+3))+((4+5)+6))");
}

TEST(SumTree, is_the_same_however_the_leaves_are_divided) {
  for (int leaves = 1; leaves <= 64; ++leaves)
    for (int sharers = 2; sharers <= leaves; ++sharers)
      ASSERT_EQ(shared(sharers, leaves), shared(1, leaves)) << sharers << " of " << leaves;
}

TEST(SumTree, is_the_same_with_unequal_shares) {
  for (int leaves = 3; leaves <= 64; ++leaves)
    for (const std::vector<int>& weights : {std::vector{3, 1, 1}, {1, 2, 7}, {1, 1000, 1}})
      ASSERT_EQ(shared(3, leaves, weights), shared(1, leaves)) << leaves;
}

TEST(SumTree, has_few_sums_on_each_rank) {
  EXPECT_EQ(sums_of({4, 8}, 12).size(), 1u);
  EXPECT_EQ(sums_of({0, 64}, 64).size(), 1u);
  EXPECT_EQ(sums_of({1, 7}, 8), (std::vector<Leaves>{{1, 2}, {2, 4}, {4, 6}, {6, 7}}));
}

// Each leaf sums consecutive slices, and no leaf is empty.
TEST(SumTree, has_every_slice_in_its_leaf) {
  for (const auto& [slices, leaves] : {std::pair(6, 6), std::pair(65, 64), std::pair(300, 64)})
    for (int leaf = 0; leaf < leaves; ++leaf) {
      EXPECT_LT(first_of_leaf(leaf, slices, leaves), first_of_leaf(leaf + 1, slices, leaves));
      for (int slice = first_of_leaf(leaf, slices, leaves);
           slice < first_of_leaf(leaf + 1, slices, leaves); ++slice)
        EXPECT_EQ(leaf_of(slice, slices, leaves), leaf);
    }
}

}  // namespace
}  // namespace omni
