// Transfers of tensors between ranks, ordered among the tasks that use them. No worker waits for a
// message, and the messages of one layer travel while other layers compute.
#pragma once

#include <functional>
#include <vector>

#include "runtime/communicator/ranks.hpp"
#include "runtime/tasks/access.hpp"
#include "runtime/tasks/submission.hpp"

namespace omni {

struct Transfer {
  enum class Kind { send, send_and_clear, receive } kind;
  TensorPart part;
  std::vector<int> peers;  // one, where it receives
  int tag;                 // the same at both ends, see ranks::kFirstTag
};

// Tags of the messages of a layer, by slice of the whole mini-batch, where ranks share it.
inline constexpr int kMostLayers = 768, kMostSlices = 256;  // of a rank
inline constexpr int kFirstLayerTag = 1 << 18;
inline int layer_tag(int layer, int kind, int slice) {  // kind: 0 to 3
  return kFirstLayerTag + (layer * 4 + kind) * kMostSlices + slice % kMostSlices;
}

inline constexpr const char* kTransferName = "transfer";  // among captured tasks

// Behind the tasks submitted so far that use these parts, and before those submitted later. `then`
// is called in the communicator's thread when all have arrived. No value occurs twice.
void submit_transfers(std::vector<Transfer> transfers, TaskTag tag = {},
                      std::function<void()> then = {});

}  // namespace omni
