// These functions find out how fast each rank is, and let unlike ranks share mini-batches and
// groups by their speeds.
#pragma once

#include "apps/omni-run/training/train_inputs.hpp"

namespace omni {

// Refuses --rank-shares that do not fit the ranks or other options.
Status check_rank_shares(const TrainArguments& arguments);

// Sets the fewest cores of any rank, and those of each rank if they differ. Collective.
void find_fewest_cores(NetArguments& net);

// Sets the weights of ranks as --rank-shares says: those of the checkpoint if its ranks were on the
// same nodes, or by speeds that all ranks measure now. Then opens the groups again. Collective.
Status settle_rank_shares(TrainInputs& inputs, const Session& session);

// Prints how ranks share a mini-batch.
void tell_rank_shares(const TrainInputs& inputs);

}  // namespace omni
