// These tests check the table and the JSON object that omni-run ensemble --plan prints.
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

// Nine members train on eight devices. The ninth member trains last, on two devices, where it is
// twice as fast as on one.
TEST(FleetTable, sharing_of_devices_may_be_faster) {
  Fleet fleet{{}, 8};
  std::vector<std::string> names;
  for (int i = 0; i < 9; ++i) {
    fleet.members.push_back({{100, 200}, 1000});
    names.push_back(std::to_string(i));
  }
  const auto plan = plan_fleet(fleet);
  ASSERT_TRUE(plan);
  const auto table = fleet_table(fleet, *plan, names);
  ASSERT_TRUE(table);
  EXPECT_NE(table->find("makespan: 15.0 s; all at once: 11.2 s (0.75 times the plan)"),
            std::string::npos)
      << *table;
  EXPECT_NE(table->find("all at once is faster, if sharing a device costs nothing"),
            std::string::npos)
      << *table;
  EXPECT_TRUE((*fleet_json(fleet, *plan, names))["all_at_once_is_faster"]);
}

TEST(FleetTable, short_plans_have_more_digits) {
  const Fleet fleet{{{{1e5}, 1000}}, 1};
  const auto table = fleet_table(fleet, *plan_fleet(fleet), std::vector<std::string>{"a"});
  ASSERT_TRUE(table);
  EXPECT_NE(table->find("makespan: 0.010000 s"), std::string::npos) << *table;
}

TEST(FleetTable, an_object_has_the_same_numbers) {
  const Fleet fleet{{{{0, 100}, 1000}, {{100}, 500}}, 2};
  const auto plan = plan_fleet(fleet);
  ASSERT_TRUE(plan);
  const auto json = fleet_json(fleet, *plan, std::vector<std::string>{"a", "b"});
  ASSERT_TRUE(json);
  EXPECT_EQ((*json)["members"], nlohmann::ordered_json::parse(R"([
      {"name": "a", "samples": 1000, "rates": [0.0, 100.0]},
      {"name": "b", "samples": 500, "rates": [100.0]}])"));
  const auto& flotillas = (*json)["flotillas"];
  ASSERT_EQ(flotillas.size(), 2u);
  EXPECT_EQ(flotillas[1]["from_seconds"], flotillas[0]["seconds"]);
  for (const auto& each : flotillas) {
    const bool is_a = each["samples"] == 1000;
    EXPECT_EQ(each["devices"], is_a ? 2 : 1);
    EXPECT_EQ(each["samples_per_second"], 100);
    const auto share = nlohmann::ordered_json{{"name", is_a ? "a" : "b"},
                                              {"devices", is_a ? 2 : 1},
                                              {"samples_per_second_alone", 100.0},
                                              {"ends", true}};
    EXPECT_EQ(each["members"], nlohmann::ordered_json::array({share}));
  }
  EXPECT_EQ((*json)["makespan_seconds"], 15);
  EXPECT_EQ((*json)["all_at_once_seconds"], nullptr);
  EXPECT_EQ((*json)["one_by_one_seconds"], 15);
  EXPECT_FALSE((*json)["all_at_once_is_faster"]);
}

}  // namespace
}  // namespace omni
