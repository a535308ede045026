#include "runtime/nearest.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "runtime/lower_case.hpp"

namespace omni {
namespace {

// Returns how many insertions, deletions, replacements and swaps of neighbouring letters turn one
// text into the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::move(last);
    last = row;
  }
  return last[b.size()];
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr std::size_t kLongest = 64;  // bounds the time; a longer word is no misspelt key
  if (word.size() > kLongest) return "";
  // A misspelt word may have one error per three letters, and at most three.
  std::size_t best = std::min<std::size_t>((word.size() + 1) / 3, 3) + 1;
  std::string_view found;
  for (std::string_view candidate : candidates) {
    std::size_t distance = edit_distance(lower_case(word), lower_case(candidate));
    if (distance < best && distance < candidate.size()) {
      best = distance;
      found = candidate;
    }
  }
  return found;
}

}  // namespace omni
