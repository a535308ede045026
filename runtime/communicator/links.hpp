// What messages between neighbouring ranks cost, the communicator's part included: all ranks send
// to the next one and receive from the one before at the same time, as in a training.
#pragma once

#include <string>
#include <vector>

namespace omni::ranks {

struct Link {
  double seconds = 0, bytes_per_second = 0;  // latency and rate in one direction
  // Seconds that a core works for a message out and one in, and for a byte out and one in.
  double work_per_message = 0, work_per_byte = 0;
};

// Collective, seconds at most. By rank: the link from the rank before it; none with one rank.
std::vector<Link> measure_links();
Link slowest(const std::vector<Link>& links);  // the longest latency, the lowest rate
std::string describe(const Link& link);

}  // namespace omni::ranks
