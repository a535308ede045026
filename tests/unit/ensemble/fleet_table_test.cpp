// The table of omni-run ensemble --plan, as it is printed.
#include "apps/omni-run/ensemble/fleet_table.hpp"

#include <gtest/gtest.h>

namespace omni {
namespace {

TEST(FleetTable, shows_flotillas_and_the_usual_ways) {
  const Fleet fleet{{{{100, 180}, 1000}, {{100, 180}, 2800}}, 2};
  const auto plan = plan_fleet(fleet);
  ASSERT_TRUE(plan);
  const auto table = fleet_table(fleet, *plan, std::vector<std::string>{"a", "lenet"});
  ASSERT_TRUE(table);
  EXPECT_EQ(*table,
            "flotilla     from s    takes s  samples/s      samples devices  members: devices "
            "(samples/s alone)\n"
            "       1        0.0       10.0      100.0         1000       2  a: 1 (100.0, ends) "
            "lenet: 1 (100.0)\n"
            "       2       10.0       10.0      180.0         1800       2  lenet: 2 (180.0, "
            "ends)\n"
            "makespan: 20.0 s; all at once: 20.0 s (1.00 times the plan); one after another: 21.1 "
            "s (1.06 times the plan)\n");
}

TEST(FleetTable, a_usual_way_may_not_be_possible) {
  const Fleet fleet{{{{0, 100}, 1000}, {{100}, 1000}}, 2};
  const auto plan = plan_fleet(fleet);
  ASSERT_TRUE(plan);
  const auto table = fleet_table(fleet, *plan, std::vector<std::string>{"a", "b"});
  ASSERT_TRUE(table);
  EXPECT_NE(table->find("all at once: not possible; one after another: 20.0 s"), std::string::npos);
}

}  // namespace
}  // namespace omni
