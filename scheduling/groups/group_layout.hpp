// Which workers belong to which compute group.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

using GroupLayout = std::vector<std::vector<int>>;  // by group: worker numbers, ascending

// How many workers there are; StarPU numbers those of GPUs first.
struct Workers {
  Workers(int count, int on_gpus = 0) : all(count), gpus(on_gpus) {}
  int all, gpus;
};

// Neighbouring workers together, as evenly as possible, those of GPUs and those of CPUs each for
// themselves: a group without a GPU would be the slow one. More groups than workers share them.
GroupLayout spread_groups(int groups, Workers workers);

// "0-3,8;4-7": groups by ';', workers by ',', ranges by '-'. A worker may be in several groups; one
// in none has only merged work.
inline constexpr int kAnyWorkers = 4096;  // only StarPU knows how many there will be
Result<GroupLayout> parse_group_layout(std::string_view text, int workers);

std::string describe(const GroupLayout& layout);  // in the same notation

}  // namespace omni
