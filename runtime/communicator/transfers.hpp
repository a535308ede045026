// Transfers of tensors between ranks, ordered among the tasks that use them. No worker waits for a
// message, and the messages of one layer travel while other layers compute.
#pragma once

#include <functional>
#include <vector>

#include "runtime/communicator/ranks.hpp"
#include "runtime/tasks/access.hpp"

namespace omni {

struct Transfer {
  enum class Kind { send, send_and_clear, receive } kind;
  TensorPart part;
  std::vector<int> peers;  // one, where it receives
  int tag;                 // the same at both ends, see ranks::kFirstTag
};

// Tags of the statistics of a layer, by slice of the whole mini-batch, where ranks share it.
inline int statistics_tag(int layer, bool backward, int slice) {
  return (1 << 18) + (layer * 2 + (backward ? 1 : 0)) * 256 + slice % 256;
}

// Behind the tasks submitted so far that use these parts, and before those submitted later. `then`
// is called in the communicator's thread when all have arrived. No part occurs twice.
void submit_transfers(std::vector<Transfer> transfers, TaskTag tag = {},
                      std::function<void()> then = {});

}  // namespace omni
