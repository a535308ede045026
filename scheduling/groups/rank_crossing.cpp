// RankSums::cross() transfers activations, labels and gradients between a group on other ranks and
// the merged phase on the first rank.
#include "runtime/communicator/transfers.hpp"
#include "scheduling/groups/rank_sums.hpp"

namespace omni {
namespace {

constexpr int kCrossingPriority = 1 << 19;  // other ranks wait for these tasks

}  // namespace

void RankSums::cross(int group, const BatchSlot& slot, bool guest, bool back) {
  const Net& net = guest ? *groups_.guest(group) : groups_.net(group);
  const Slices& slices = net.slices();
  const Blob& blob = net.replicated_output();
  const auto of_all = static_cast<int>(slices.all_sizes.size());
  for (int slice = 0; slice < slices.count(); ++slice) {
    const auto transfer = [&](const Tensor& tensor, int kind) {
      return Transfer{guest == back ? Transfer::Kind::send : Transfer::Kind::receive,
                      tensor,
                      {guest ? groups_.ranks_of(group).first + slices.owners[slice] : 0},
                      crossing_tag_ + (group * of_all + slices.first + slice) * 3 + kind};
    };
    const TaskTag tag{.priority = kCrossingPriority, .slice = slice};
    // Labels are sent together with the values. All mini-batches have their values in one tensor,
    // so the transfers stay in order.
    if (!back)
      submit_transfers({transfer(*blob.value[slice], 0), transfer(*slot.labels[slice], 1)}, tag);
    else if (groups_.watched())  // otherwise no layer before the merged phase is trained
      submit_transfers({transfer(*blob.diff[slice], 2)}, tag);
  }
}

}  // namespace omni
