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

// "0-3,8;4-7": ";" separates groups, "," workers, "-" makes ranges. A worker may be in several
// groups; one in no group computes only merged layers.
inline constexpr int kAnyWorkers = 4096;  // only StarPU knows how many there will be
Result<GroupLayout> parse_group_layout(std::string_view text, int workers);

std::string describe(const GroupLayout& layout);  // in the same notation

}  // namespace omni
