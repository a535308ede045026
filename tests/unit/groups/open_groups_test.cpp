// These tests check the slice sizes that compute groups choose on a machine with many cores.
#include <gtest/gtest.h>

#include "apps/omni-run/groups/group_options.hpp"
#include "apps/omni-run/setup.hpp"

namespace omni {
namespace {

class OpenGroups : public testing::Test {
 protected:
  OpenGroups() {
    net_.net = OMNI_SOURCE_DIR "/apps/nets/cifar10-quick.cfg";
    net_.cores = 16;
    spec_ = *read_net(net_);
  }

  // one_of() and cut_for() return the number of images per slice.
  int one_of(int groups) const { return *slice_of_groups(spec_, net_, groups); }
  int cut_for(const GroupArguments& arguments) const {
    return open_groups(spec_, net_, arguments)->net().slices().sizes.front();
  }

  NetArguments net_;
  TrainableNet spec_;
};

TEST_F(OpenGroups, each_cuts_for_its_share_of_the_cores) {
  EXPECT_GT(one_of(4), one_of(1));
  EXPECT_EQ(cut_for({.count = 4}), one_of(4));
}

TEST_F(OpenGroups, who_also_trains_with_one_group_cuts_for_all_cores) {
  EXPECT_EQ(cut_for({.count = 4, .cold_start = 1}), one_of(1));
  EXPECT_EQ(cut_for({.automatic = true, .count = 4}), one_of(1));
}

}  // namespace
}  // namespace omni
