// A tree of sums fixes the order in which neighbouring values, the leaves, are added up: in pairs,
// then these sums in pairs, and so on. Whoever has neighbouring leaves can add up the pairs among
// them, so the total has the same bits however the leaves are divided among ranks.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>
#include <vector>

#include "runtime/tasks/shares.hpp"

namespace omni {

// Leaves [first, end) of a tree, or their sum.
struct Leaves {
  int first = 0, end = 0;
  bool operator==(const Leaves&) const = default;
};

// Returns true if a tree of `all` leaves adds these neighbouring sums to each other.
inline bool is_pair(Leaves left, Leaves right, int all) {
  const int width = left.end - left.first;
  return left.end == right.first && std::has_single_bit(static_cast<unsigned>(width)) &&
         left.first % (2 * width) == 0 && right.end == std::min(left.first + 2 * width, all);
}

// Adds up all pairs among the sums, which are in order. Calls add(left, right) with the places of
// two sums in `sums`; their sum then has the place `left`. Returns the places of the sums that
// remain, and what they are sums of.
template <class Add>
std::vector<std::pair<std::size_t, Leaves>> add_pairs(const std::vector<Leaves>& sums, int all,
                                                      Add add) {
  std::vector<std::pair<std::size_t, Leaves>> left;
  for (std::size_t place = 0; place < sums.size(); ++place) {
    left.emplace_back(place, sums[place]);
    while (left.size() > 1 && is_pair((left.end() - 2)->second, left.back().second, all)) {
      const auto right = left.back();
      left.pop_back();
      add(left.back().first, right.first);
      left.back().second.end = right.second.end;
    }
  }
  return left;
}

// `slices` values are added up in `leaves` sums of consecutive slices, which are the leaves.
inline int first_of_leaf(int leaf, int slices, int leaves) {
  return static_cast<int>(static_cast<long long>(slices) * leaf / leaves);
}
inline int leaf_of(int slice, int slices, int leaves) {
  return static_cast<int>((static_cast<long long>(slice + 1) * leaves - 1) / slices);
}

// Returns the leaves of one of `sharers`. Without weights, their numbers of leaves differ by at
// most one.
inline Leaves leaves_of(int sharer, int sharers, int all, const std::vector<int>& weights = {}) {
  return {first_of_share(sharer, sharers, all, weights),
          first_of_share(sharer + 1, sharers, all, weights)};
}

// Returns the sums that remain when a sharer has added up the pairs among its leaves.
inline std::vector<Leaves> sums_of(Leaves own, int all) {
  std::vector<Leaves> single, sums;
  for (int leaf = own.first; leaf < own.end; ++leaf) single.push_back({leaf, leaf + 1});
  for (const auto& [place, of] : add_pairs(single, all, [](auto, auto) {})) sums.push_back(of);
  return sums;
}

}  // namespace omni
