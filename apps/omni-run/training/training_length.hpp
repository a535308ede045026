// This header computes the length of a training, and checks whether the learning rate suits it.
#pragma once

#include "apps/omni-run/training_arguments.hpp"

namespace omni {

// Returns the number of updates: by --epochs if given, otherwise the net's max_batches. 0: the
// training goes on until it is stopped.
std::uint64_t planned_iterations(const TrainArguments& arguments, const TrainableNet& net,
                                 std::size_t images);

// Refuses a learning rate that becomes 0 before the end. Warns of keys of the solver that do not
// suit the length. `by_epochs` means that the user has named the length by --epochs.
Status check_schedule(const TrainableNet& net, std::uint64_t seed, std::uint64_t iterations,
                      bool by_epochs);

// Warns if the schedule of a resumed training ends elsewhere than `before`. 0: not known.
void warn_about_new_length(const TrainableNet& net, std::uint64_t before, std::uint64_t iterations,
                           std::uint64_t resumed_at);

}  // namespace omni
