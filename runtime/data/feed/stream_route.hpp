// A StreamRoute says which ranks prepare the samples of a stream, and over which ranks they travel.
// It has the three designs of Pittman et al. 2018. This header only computes, and sends nothing.
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
    all,     // every rank prepares its part of each window, and sends it to all others
    single,  // the first ranks prepare and exchange their parts; the last of them, the merger,
             // sends everything to the other ranks
    multi,   // the first ranks prepare, and each sends its part to all other ranks
  };
  Design design = Design::apart;
  int preparers = 1, ranks = 1;

  // A Hop says where a rank gets a block of samples, and to which ranks it sends it on.
  struct Hop {
    int source = kPrepares;
    std::vector<int> targets{};
  };
  static constexpr int kPrepares = -1;  // Hop::source: the rank prepares the block
  Hop hop(int rank, std::uint64_t block) const;
  std::string text() const;  // "single, 2 of 4 ranks prepare"
};

// A PreparingSpeed has the seconds that a core of a rank takes for a sample, and the rank's cores.
struct PreparingSpeed {
  double seconds = 0;
  int cores = 1;
};
// Returns the seconds per sample of the slowest rank: of its cores, which prepare and pass on
// messages, or of its link, each way.
double seconds_per_sample(const StreamRoute& route, std::span<const PreparingSpeed> speeds,
                          const ranks::Link& link, std::size_t bytes_per_sample);
// Returns the fastest route of a design, or of all designs. `preparers`: their number; 0: any.
StreamRoute fastest_route(std::span<const StreamRoute::Design> designs, int preparers,
                          std::span<const PreparingSpeed> speeds, const ranks::Link& link,
                          std::size_t bytes_per_sample);

}  // namespace omni
