// Which workers belong to which compute group.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

using GroupLayout = std::vector<std::vector<int>>;  // by group: worker numbers, ascending

// Numbers of workers; StarPU numbers GPU workers first.
struct Workers {
  Workers(int count, int on_gpus = 0) : all(count), gpus(on_gpus) {}
  int all, gpus;
};

// Divides GPU workers and CPU workers evenly among groups, neighbours together, each kind
// separately, since a group without a GPU would be slow. More groups than workers share them.
GroupLayout spread_groups(int groups, Workers workers);

// Neighbouring ranks.
struct RankRange {
  int first = 0, count = 1;
  int end() const { return first + count; }
  bool has(int rank) const { return rank >= first && rank < end(); }
};

struct GroupPlaces {
  GroupLayout workers;
  // By group, ascending: several groups of one rank, or one group of several. None: all on this
  // one.
  std::vector<RankRange> ranks{};
};

// Neighbouring groups on the same rank, or neighbouring ranks in one group; each rank has so many
// workers.
GroupPlaces spread_over_ranks(int groups, Workers workers, int ranks);

// "0-3,8;4-7": ";" separates groups, "," workers, "-" makes ranges. A worker may be in several
// groups; one in no group computes only merged layers. With several ranks: "0:0-3;1:0-3", where
// "0-1:0-3" is a group of two ranks.
inline constexpr int kAnyWorkers = 4096;  // before StarPU has counted the workers
Result<GroupPlaces> parse_group_layout(std::string_view text, int workers, int ranks = 1);

// What is between the separators, be it empty.
std::vector<std::string_view> split(std::string_view text, char separator);

std::string describe(const GroupPlaces& places);  // in the same notation
inline std::string describe(const GroupLayout& layout) { return describe(GroupPlaces{layout}); }

}  // namespace omni
