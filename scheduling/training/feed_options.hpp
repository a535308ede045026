// feed_options() returns the options with which a DataFeed decodes images for a net.
#pragma once

#include <cstdint>

#include "layers/net.hpp"
#include "runtime/data/augment.hpp"
#include "runtime/data/feed/data_feed.hpp"
#include "runtime/tasks/codelet.hpp"

namespace omni {

// An evaluation has at most this many mini-batches under way at once.
inline constexpr int kEvaluationSlots = 3;

// Needs a running Session, as GPUs change the options.
inline FeedOptions feed_options(const Net& net, const AugmentOptions& augment, std::uint64_t seed,
                                bool training, int slots, SharedStream* stream = nullptr) {
  return {.training = training,
          .seed = seed,
          .augment = augment,
          .net_input = net.options().input,
          .values = net.values(),
          .slices = net.slices(),
          .slots = slots,
          .metrics = training ? net.metrics() : kMetrics,
          .unpack_apart = gpus_compute(),
          .stream = stream};
}

}  // namespace omni
