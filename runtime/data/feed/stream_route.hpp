// A StreamRoute says which ranks prepare the samples of a stream, and how these reach the other
// ranks. Besides `apart` it has the three designs of Pittman et al. 2018. This header sends
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/communicator/ranks.hpp"

namespace omni {

struct StreamRoute {
  enum class Design {
    apart,   // each rank prepares all samples that it needs
    all,     // every rank prepares a share of the blocks, and sends them to all others
    single,  // the first `preparers` ranks prepare and exchange their blocks; the last of these
             // ranks, the merger, sends all blocks to the other ranks
    multi,   // the first `preparers` ranks prepare, and each sends its blocks to all other ranks
  };
  Design design = Design::apart;
  int preparers = 1, ranks = 1;

  // A Hop says from which rank a rank gets a block of samples, and to which ranks it sends the
  // block.
  struct Hop {
    int source = kPrepares;
    std::vector<int> targets{};
  };
  static constexpr int kPrepares = -1;  // Hop::source: the rank prepares the block
  Hop hop(int rank, std::uint64_t block) const;
  std::string text() const;  // "single, 2 of 4 ranks prepare"
};

// A PreparingSpeed says how many seconds a core of a rank takes to prepare a sample, and how many
// cores the rank has.
struct PreparingSpeed {
  double seconds = 0;
  int cores = 1;
};
// Returns the seconds per sample of the slowest rank. That is the time of its cores, which prepare
// and pass on samples, or of its link in the busier direction, whichever is longer.
double seconds_per_sample(const StreamRoute& route, std::span<const PreparingSpeed> speeds,
                          const ranks::Link& link, std::size_t bytes_per_sample);
// Returns the fastest route among these designs. `preparers` fixes the number of preparing ranks of
// the designs `single` and `multi`; 0: any number.
StreamRoute fastest_route(std::span<const StreamRoute::Design> designs, int preparers,
                          std::span<const PreparingSpeed> speeds, const ranks::Link& link,
                          std::size_t bytes_per_sample);

}  // namespace omni
