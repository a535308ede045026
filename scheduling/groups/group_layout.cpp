#include "scheduling/groups/group_layout.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "runtime/number_in.hpp"

namespace omni {
namespace {

// Parses a number or a range, as "3" or "0-3".
std::optional<std::pair<int, int>> range_in(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = number_in<int>(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : number_in<int>(text.substr(dash + 1));
  if (!first || !last || *first > *last) return {};
  return std::pair(*first, *last);
}

std::string range_text(int first, int last) {
  return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (std::size_t first = 0; first <= text.size();) {
    const std::size_t end = std::min(text.find(separator, first), text.size());
    pieces.push_back(text.substr(first, end - first));
    first = end + 1;
  }
  return pieces;
}

GroupLayout spread_groups(int groups, Workers workers) {
  GroupLayout layout(groups);
  const auto spread = [&](int first, int count) {
    if (count == 0) return;
    for (int group = 0; group < groups; ++group) {
      std::vector<int>& members = layout[group];
      if (groups >= count) {
        members.push_back(first + group % count);
        continue;
      }
      for (int i = group * count / groups; i < (group + 1) * count / groups; ++i)
        members.push_back(first + i);
    }
  };
  spread(0, workers.gpus);
  spread(workers.gpus, workers.all - workers.gpus);
  return layout;
}

namespace {

// Returns the speed of the slowest group if group g begins with rank firsts[g]. The last entry of
// `firsts` is the number of ranks.
double slowest_of_ranks(const std::vector<int>& firsts, const std::vector<int>& weights) {
  double slowest = INFINITY;
  for (std::size_t group = 0; group + 1 < firsts.size(); ++group)
    slowest = std::min(slowest, std::accumulate(weights.begin() + firsts[group],
                                                weights.begin() + firsts[group + 1], 0.0));
  return slowest;
}

// Returns how many groups each rank has, if there are at least as many groups as ranks. Each
// further group goes to the rank on which it is the fastest.
std::vector<int> counts_by_speed(int groups, int ranks, const std::vector<int>& weights) {
  std::vector<int> even, best(static_cast<std::size_t>(ranks), 1);
  for (int rank = 0; rank < ranks; ++rank)
    even.push_back(groups * (rank + 1) / ranks - groups * rank / ranks);
  if (weights.empty()) return even;
  const auto speed = [&](std::size_t rank, int count) {
    return static_cast<double>(weights[rank]) / count;
  };
  const auto slowest = [&](const std::vector<int>& counts) {
    double least = INFINITY;
    for (std::size_t rank = 0; rank < counts.size(); ++rank)
      least = std::min(least, speed(rank, counts[rank]));
    return least;
  };
  for (int left = groups - ranks; left > 0; --left) {
    std::size_t fastest = 0;
    for (std::size_t rank = 1; rank < best.size(); ++rank)
      if (speed(rank, best[rank] + 1) > speed(fastest, best[fastest] + 1)) fastest = rank;
    ++best[fastest];
  }
  return slowest(best) > kWorthUnequal * slowest(even) ? best : even;
}

}  // namespace

// Group by group, finds the end with which the slowest group is the fastest.
std::vector<int> first_ranks(int groups, int ranks, const std::vector<int>& weights) {
  std::vector<int> even, best;
  for (int group = 0; group <= groups; ++group) even.push_back(group * ranks / groups);
  if (weights.empty()) return even;
  // ends[g][r]: the speed of the slowest of g groups on the first r ranks, and where the last of
  // these groups begins.
  using Row = std::vector<std::pair<double, int>>;
  std::vector<Row> ends(static_cast<std::size_t>(groups) + 1,
                        Row(static_cast<std::size_t>(ranks) + 1, {-1, 0}));
  ends[0][0] = {INFINITY, 0};
  for (int group = 1; group <= groups; ++group)
    for (int rank = group; rank <= ranks; ++rank) {
      double own = 0;
      for (int first = rank - 1; first >= group - 1; --first) {
        own += weights[first];
        const double slowest = std::min(own, ends[group - 1][first].first);
        if (slowest > ends[group][rank].first) ends[group][rank] = {slowest, first};
      }
    }
  best.push_back(ranks);
  for (int group = groups; group > 0; --group) best.push_back(ends[group][best.back()].second);
  std::ranges::reverse(best);
  const bool gains =
      slowest_of_ranks(best, weights) > kWorthUnequal * slowest_of_ranks(even, weights);
  return gains ? best : even;
}

GroupPlaces spread_over_ranks(int groups, Workers workers, int ranks,
                              const std::vector<int>& weights) {
  GroupPlaces places;
  if (groups < ranks) {
    const std::vector<int> firsts = first_ranks(groups, ranks, weights);
    for (int group = 0; group < groups; ++group)
      places.ranks.push_back({firsts[group], firsts[group + 1] - firsts[group]});
    places.workers.assign(places.ranks.size(), spread_groups(1, workers).front());
    return places;
  }
  const std::vector<int> counts = counts_by_speed(groups, ranks, weights);
  for (int rank = 0; rank < ranks; ++rank) {
    const int own = counts[rank];
    places.ranks.insert(places.ranks.end(), own, {rank});
    const GroupLayout layout = spread_groups(own, workers);
    places.workers.insert(places.workers.end(), layout.begin(), layout.end());
  }
  return places;
}

Result<GroupPlaces> parse_group_layout(std::string_view text, int workers, int ranks) {
  const auto refuse = [&](std::string what) {
    return Error{ErrorKind::usage, "--group-layout", std::move(what),
                 fmt::format("workers 0 to {}, for example '{}'", workers - 1,
                             describe(ranks > 1 ? spread_over_ranks(ranks, workers, ranks)
                                                : GroupPlaces{spread_groups(2, workers)}))};
  };
  GroupPlaces places;
  for (std::string_view group : split(text, ';')) {
    if (ranks > 1) {
      const std::size_t colon = group.find(':');
      const auto range = range_in(group.substr(0, colon));
      const RankRange before = places.ranks.empty() ? RankRange{0, 0} : places.ranks.back();
      const bool again = before.count == 1 && range == std::pair(before.first, before.first);
      if (colon == std::string_view::npos || !range || (range->first != before.end() && !again))
        return refuse(fmt::format("'{}' does not begin with rank {}{}", group,
                                  before.count == 1 ? fmt::format("{}, or ", before.first) : "",
                                  before.end()));
      places.ranks.push_back({range->first, range->second - range->first + 1});
      group.remove_prefix(colon + 1);
    }
    std::set<int> members;
    for (const std::string_view named : split(group, ',')) {
      const auto range = range_in(named);
      if (!range) return refuse(fmt::format("'{}' names no workers", named));
      if (range->second >= workers)
        return refuse(fmt::format("there is no worker {}", range->second));
      for (int worker = range->first; worker <= range->second; ++worker)
        if (!members.insert(worker).second)
          return refuse(fmt::format("'{}' names worker {} twice", group, worker));
    }
    places.workers.emplace_back(members.begin(), members.end());
  }
  if (ranks > 1 && places.ranks.back().end() != ranks)
    return refuse(fmt::format("there are {} ranks; it names {}", ranks, places.ranks.back().end()));
  return places;
}

std::string describe(const GroupPlaces& places) {
  std::vector<std::string> groups;
  for (const std::vector<int>& members : places.workers) {
    std::vector<std::string> ranges;
    for (std::size_t first = 0; first < members.size();) {
      std::size_t last = first;
      while (last + 1 < members.size() && members[last + 1] == members[last] + 1) ++last;
      ranges.push_back(range_text(members[first], members[last]));
      first = last + 1;
    }
    std::string prefix;
    if (!places.ranks.empty()) {
      const RankRange on = places.ranks[groups.size()];
      prefix = range_text(on.first, on.end() - 1) + ":";
    }
    groups.push_back(fmt::format("{}{}", prefix, fmt::join(ranges, ",")));
  }
  return fmt::format("{}", fmt::join(groups, ";"));
}

}  // namespace omni
