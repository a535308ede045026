// What a mini-batch of a net costs on any machine: its share of computing by phase, its parameters
// and what its layers send each other.
#pragma once

#include <vector>

#include "layers/net.hpp"

namespace omni {

struct NetCosts {
  struct Connected {
    int inputs, outputs;
  };
  struct Parameters {
    std::vector<double> parts{};         // bytes
    std::vector<Connected> connected{};  // layers that devices cut or divide if they are large
  };
  int images = 1, passes = 1;  // of a mini-batch
  double flops = 0;            // of an image, forward and backward
  // Layers that groups merge if they share one model, in one place.
  double merged_share = 0;  // of computing
  Parameters replicated{}, merged{};
  double activations = 0;  // bytes of a mini-batch that the other layers send to the merged ones
  // Of batch normalisation in layers that learn and are not merged: bytes of each layer's
  // statistics, which devices that share a mini-batch exchange.
  std::vector<double> statistics{};
  std::vector<double> scales{};  // bytes of parameters that only travel between groups
};

// A net of one group merges nothing: give a net of several.
NetCosts net_costs(Net& net);

}  // namespace omni
