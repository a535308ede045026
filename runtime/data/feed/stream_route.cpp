#include "runtime/data/feed/stream_route.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace omni {

StreamRoute::Hop StreamRoute::hop(int rank, std::uint64_t block) const {
  if (design == Design::apart) return {};
  const int owner = static_cast<int>(block % static_cast<std::uint64_t>(preparers));
  const int merger = preparers - 1;
  Hop hop{.source = rank == owner ? kPrepares : owner};
  if (design == Design::single && rank > merger) hop.source = merger;
  for (int other = 0; other < ranks; ++other) {
    if (other == rank || other == owner) continue;
    const bool by_merger = design == Design::single && other > merger;
    if (by_merger ? rank == merger : rank == owner) hop.targets.push_back(other);
  }
  return hop;
}

std::string StreamRoute::text() const {
  constexpr const char* kNames[] = {"apart", "all", "single", "multi"};
  return fmt::format("{}, {} of {} ranks prepare", kNames[static_cast<int>(design)],
                     design == Design::apart ? ranks : preparers, ranks);
}

double seconds_per_sample(const StreamRoute& route, std::span<const PreparingSpeed> speeds,
                          const ranks::Link& link, std::size_t bytes_per_sample) {
  const auto bytes = static_cast<double>(bytes_per_sample);
  const bool apart = route.design == StreamRoute::Design::apart;
  const int blocks = apart ? 1 : route.preparers;  // the pattern repeats
  double slowest = 0;
  for (int rank = 0; rank < route.ranks; ++rank) {
    double prepared = 0, sent = 0, received = 0;
    for (int block = 0; block < blocks; ++block) {
      const StreamRoute::Hop hop = route.hop(rank, static_cast<std::uint64_t>(block));
      (hop.source == StreamRoute::kPrepares ? prepared : received) += 1.0 / blocks;
      sent += static_cast<double>(hop.targets.size()) / blocks;
    }
    const PreparingSpeed& speed = speeds[static_cast<std::size_t>(rank)];
    const double work = prepared * speed.seconds + (sent + received) * bytes * link.work_per_byte;
    slowest = std::max(
        {slowest, work / speed.cores, std::max(sent, received) * bytes / link.bytes_per_second});
  }
  return slowest;
}

StreamRoute fastest_route(std::span<const StreamRoute::Design> designs, int preparers,
                          std::span<const PreparingSpeed> speeds, const ranks::Link& link,
                          std::size_t bytes_per_sample) {
  const int ranks = static_cast<int>(speeds.size());
  StreamRoute best;
  double least = std::numeric_limits<double>::infinity();
  for (const StreamRoute::Design design : designs) {
    const bool chooses =
        design == StreamRoute::Design::single || design == StreamRoute::Design::multi;
    const int first = !chooses ? ranks : preparers > 0 ? preparers : 1;
    const int last = !chooses ? ranks : preparers > 0 ? preparers : ranks;
    for (int count = first; count <= last; ++count) {
      const StreamRoute route{design, count, ranks};
      const double seconds = seconds_per_sample(route, speeds, link, bytes_per_sample);
      if (seconds < least) best = route, least = seconds;
    }
  }
  return best;
}

}  // namespace omni
