// These functions assign workers and ranks to compute groups.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

using GroupLayout = std::vector<std::vector<int>>;  // by group: worker numbers, ascending

// Workers says how many workers there are, and how many of them are on GPUs. StarPU gives GPU
// workers the lowest numbers.
struct Workers {
  Workers(int count, int on_gpus = 0) : all(count), gpus(on_gpus) {}
  int all, gpus;
};

// Divides workers evenly among groups. GPU workers and CPU workers are divided separately, as a
// group without a GPU would be slow; those of a group have consecutive numbers. If there are more
// groups than workers of a kind, groups share these workers.
GroupLayout spread_groups(int groups, Workers workers);

// A RankRange is a range of ranks with consecutive numbers.
struct RankRange {
  int first = 0, count = 1;
  int end() const { return first + count; }
  bool has(int rank) const { return rank >= first && rank < end(); }
};

struct GroupPlaces {
  GroupLayout workers;
  // ranks[g] are the ranks of group g, ascending. A rank may have several groups, or a group
  // several ranks. If `ranks` is empty, every rank has all groups.
  std::vector<RankRange> ranks{};
};

// Without a larger gain than this, ranks keep equal shares, and groups equal numbers of ranks.
inline constexpr double kWorthUnequal = 1.05;

// Puts consecutive groups on the same rank, or consecutive ranks into one group. Each rank has
// `workers`. With weights (RankShares::weights), the slowest group is as fast as possible. If that
// gains little, groups and ranks are divided evenly.
GroupPlaces spread_over_ranks(int groups, Workers workers, int ranks,
                              const std::vector<int>& weights = {});

// Returns the first rank of each group with several ranks, and then the number of ranks. With
// weights, the slowest group is as fast as possible, unless that gains little.
std::vector<int> first_ranks(int groups, int ranks, const std::vector<int>& weights);

inline constexpr int kAnyWorkers = 4096;  // `workers` before StarPU has counted them
// Parses a layout like "0-3,8;4-7": ";" separates groups, "," separates workers, and "-" makes
// ranges. A worker may be in several groups. A worker that is in no group only decodes images and
// computes merged layers. With several ranks a layout is like "0:0-3;1:0-3", where "0-1:0-3" is a
// group of two ranks.
Result<GroupPlaces> parse_group_layout(std::string_view text, int workers, int ranks = 1);

// Returns the texts between the separators, including empty ones.
std::vector<std::string_view> split(std::string_view text, char separator);

std::string describe(const GroupPlaces& places);  // in the notation of parse_group_layout()
inline std::string describe(const GroupLayout& layout) { return describe(GroupPlaces{layout}); }

}  // namespace omni
