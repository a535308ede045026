// With --survive this process keeps a rank: it starts the process that trains, and starts it again
// after the loss of a rank. The Leader (leader.hpp) says when.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/result.hpp"

namespace omni::ranks {

struct KeeperOptions {
  std::string folder;  // of the run
  double patience = 0;
  int lost_code = 5, stopped_code = 75, usage_code = 2;
};

// Trains to the end, in processes that have the same command line. Returns the exit code. Waits for
// all ranks that a launcher started, or joins a training that runs in this folder.
Result<int> keep_rank(const KeeperOptions& options);

// The following functions are for the process that trains.

bool is_kept();          // true: a keeper started this process
void end_with_keeper();  // from now on the kernel kills this process when its keeper ends
void tell_keeper(std::uint64_t iteration);        // the last iteration done
void tell_keeper_saved(std::uint64_t iteration);  // that of the newest checkpoint

}  // namespace omni::ranks
