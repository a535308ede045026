// This header checks options of sbatch as sbatch does, so that no script is written that it
// refuses.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

using SbatchOptions = std::map<std::string, std::string>;  // by name

// Takes the further components of a heterogeneous job out of a command line: after each ":" the
// options of sbatch that follow without a gap. `known` has their names.
Result<std::vector<SbatchOptions>> take_components(std::vector<std::string>& words,
                                                   const SbatchOptions& known);

// Refuses a value that sbatch refuses for its option, or that an #SBATCH line reads otherwise.
Status check_grammar(const SbatchOptions& options);

// Returns the value as in an #SBATCH line, quoted if necessary; nothing if no line can have it.
std::optional<std::string> for_sbatch_line(std::string_view value);

struct NodeRange {
  int least = 1, most = 1;
};
std::optional<NodeRange> node_range(std::string_view text);           // "4", "2-4", "1k"
std::optional<std::int64_t> seconds_of_limit(std::string_view text);  // 0: no limit
std::optional<std::uint64_t> tasks_of_array(std::string_view text);   // "0-7", "1,3,5-9:2%4"
// Returns the largest number of a task, in a text for which tasks_of_array() is not empty.
std::uint64_t last_task(std::string_view text);
std::optional<std::vector<int>> numbers_of_gpus(std::string_view text);  // "4", "h100:2,a100:1"
// Returns the text with each number divided; nothing if one is not divisible.
std::optional<std::string> gpus_divided(std::string_view text, int nodes);
int gpus_of_gres(std::string_view text);  // "gpu:h100:2,shard:1"

}  // namespace omni
