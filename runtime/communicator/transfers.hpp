// These functions transfer tensors between ranks. StarPU orders the transfers among the tasks that
// use the tensors. No worker waits for a message, and the messages of one layer travel while other
// layers compute.
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
  std::vector<int> peers;  // exactly one for `receive`
  int tag;                 // the same on both ranks, at least ranks::kFirstTag
  bool in_job = false;     // ranks::Message::in_job
};

// If ranks share a mini-batch, a layer's messages have these tags, by slice of the whole
// mini-batch. A rank has at most kMostSlices slices, so its messages have different tags.
inline constexpr int kMostLayers = 768, kMostSlices = 256;
inline constexpr int kFirstLayerTag = 1 << 18;
inline int layer_tag(int layer, int kind, int slice) {  // kind: 0 to 3
  return kFirstLayerTag + (layer * 4 + kind) * kMostSlices + slice % kMostSlices;
}

inline constexpr const char* kTransferName = "transfer";  // the codelet's name of a CapturedTask

// Submits transfers of values that do not overlap. They run after the tasks submitted earlier that
// use these parts, and before those submitted later. When all are done, `then` is called in the
// communicator's thread. If `even_after_errors` is false and a task has failed before they begin,
// nothing is sent or received, so that no rank uses wrong values. In that case `then` is called in
// a worker's thread, or in the calling one.
void submit_transfers(std::vector<Transfer> transfers, TaskTag tag = {},
                      std::function<void()> then = {}, bool even_after_errors = true);

}  // namespace omni
