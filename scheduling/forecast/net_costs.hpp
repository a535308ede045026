// NetCosts are the costs of a net's mini-batch that no machine changes: flops, parameters, and the
// bytes that layers send each other.
#pragma once

#include <vector>

#include "codelets/elementwise/coding.hpp"
#include "layers/net.hpp"

namespace omni {

struct NetCosts {
  struct Connected {
    int inputs, outputs;
    bool operator==(const Connected&) const = default;
  };
  struct Parameters {
    std::vector<double> parts{};         // bytes
    std::vector<Connected> connected{};  // connected layers, which devices can divide if large
    bool operator==(const Parameters&) const = default;
  };
  int images = 1, passes = 1;  // of a mini-batch
  double flops = 0;            // of an image, forward and backward
  // `merged_share` is the share of computing in layers that groups with one model merge. It is a
  // share of flops here, and of measured time in a plan.
  double merged_share = 0;
  Parameters replicated{}, merged{};
  double activations = 0;  // bytes of a mini-batch that the other layers send to the merged ones
  // `statistics` has the bytes of the batch statistics of each layer with batch normalisation that
  // is trained and not merged. Devices that share a mini-batch exchange these.
  std::vector<double> statistics{};
  std::vector<double> scales{};  // bytes of each parameter that only travels between groups
  Coding send{};                 // of messages with parameters

  bool operator==(const NetCosts&) const = default;
};

// `net` must be built for several groups, as a net of one group has no merged layers.
NetCosts net_costs(Net& net);

}  // namespace omni
