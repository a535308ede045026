// The strategies that `omni-run compare` trains, by name: sync, async:4, sync@512 (its mini-batch).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

struct NamedStrategy {
  std::string name;                // as users write it
  std::vector<std::string> words;  // of the training's command line

  std::string file_name() const;  // without : and @
};

// The list of --strategies. Two strategies of one name are refused.
Result<std::vector<NamedStrategy>> parse_strategies(std::string_view list);

}  // namespace omni
