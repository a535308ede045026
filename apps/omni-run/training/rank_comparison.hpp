// compare_ranks() refuses to train if the ranks were not given the same. All ranks call these
// functions.
#pragma once

#include <string_view>

#include "apps/omni-run/training/train_inputs.hpp"

namespace omni {

// Compares the program, the command line, the net, the data and the checkpoint. `measures_links`:
// then prints how fast the links between the ranks are.
Status compare_ranks(const TrainInputs& inputs, bool measures_links);
// Compares the parameters that each rank has read from the file of `option`.
Status compare_parameters(Net& net, std::string_view option);

}  // namespace omni
