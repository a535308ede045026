#include "scheduling/groups/group_layout.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
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

GroupPlaces spread_over_ranks(int groups, Workers workers, int ranks) {
  GroupPlaces places;
  if (groups < ranks) {
    for (const std::vector<int>& own : spread_groups(groups, ranks))
      places.ranks.push_back({own.front(), static_cast<int>(own.size())});
    places.workers.assign(places.ranks.size(), spread_groups(1, workers).front());
    return places;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const int own = groups * (rank + 1) / ranks - groups * rank / ranks;
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
