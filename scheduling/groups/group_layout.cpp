#include "scheduling/groups/group_layout.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "runtime/number_in.hpp"

namespace omni {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (std::size_t first = 0; first <= text.size();) {
    const std::size_t end = std::min(text.find(separator, first), text.size());
    pieces.push_back(text.substr(first, end - first));
    first = end + 1;
  }
  return pieces;
}

}  // namespace

GroupLayout spread_groups(int groups, Workers workers) {
  GroupLayout layout(static_cast<std::size_t>(groups));
  const auto spread = [&](int first, int count) {
    if (count == 0) return;
    for (int group = 0; group < groups; ++group) {
      std::vector<int>& members = layout[static_cast<std::size_t>(group)];
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
  for (int rank = 0; rank < ranks; ++rank) {
    const int own = groups * (rank + 1) / ranks - groups * rank / ranks;
    places.ranks.insert(places.ranks.end(), static_cast<std::size_t>(own), rank);
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
      const auto rank = number_in<int>(group.substr(0, colon));
      const int last = places.ranks.empty() ? -1 : places.ranks.back();
      if (colon == std::string_view::npos || !rank || (*rank != last && *rank != last + 1))
        return refuse(fmt::format("'{}' does not begin with rank {}", group,
                                  last < 0 ? "0" : fmt::format("{}, or {}", last, last + 1)));
      places.ranks.push_back(*rank);
      group.remove_prefix(colon + 1);
    }
    std::set<int> members;
    for (const std::string_view range : split(group, ',')) {
      const std::size_t dash = range.find('-');
      const auto first = number_in<int>(range.substr(0, dash));
      const auto last =
          dash == std::string_view::npos ? first : number_in<int>(range.substr(dash + 1));
      if (!first || !last || *first > *last)
        return refuse(fmt::format("'{}' names no workers", range));
      if (*last >= workers) return refuse(fmt::format("there is no worker {}", *last));
      for (int worker = *first; worker <= *last; ++worker)
        if (!members.insert(worker).second)
          return refuse(fmt::format("'{}' names worker {} twice", group, worker));
    }
    places.workers.emplace_back(members.begin(), members.end());
  }
  if (ranks > 1 && places.ranks.back() + 1 != ranks)
    return refuse(fmt::format("there are {} ranks; it names {}", ranks, places.ranks.back() + 1));
  return places;
}

std::string describe(const GroupPlaces& places) {
  std::vector<std::string> groups;
  for (const std::vector<int>& members : places.workers) {
    std::vector<std::string> ranges;
    for (std::size_t first = 0; first < members.size();) {
      std::size_t last = first;
      while (last + 1 < members.size() && members[last + 1] == members[last] + 1) ++last;
      ranges.push_back(first == last ? fmt::format("{}", members[first])
                                     : fmt::format("{}-{}", members[first], members[last]));
      first = last + 1;
    }
    groups.push_back(places.ranks.empty() ? fmt::format("{}", fmt::join(ranges, ","))
                                          : fmt::format("{}:{}", places.ranks[groups.size()],
                                                        fmt::join(ranges, ",")));
  }
  return fmt::format("{}", fmt::join(groups, ";"));
}

}  // namespace omni
