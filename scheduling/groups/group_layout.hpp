// Which workers belong to which compute group.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

using GroupLayout = std::vector<std::vector<int>>;  // by group: worker numbers, ascending

// Neighbouring workers together, as evenly as possible. More groups than workers share them.
GroupLayout spread_groups(int groups, int workers);

// "0-3,8;4-7": groups by ';', workers by ',', ranges by '-'. A worker may be in several groups; one
// in none has only merged work.
Result<GroupLayout> parse_group_layout(std::string_view text, int workers);

std::string describe(const GroupLayout& layout);  // in the same notation

}  // namespace omni
