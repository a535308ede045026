// The options that strategies declare: rows of --help, and the values with which they are made.
#include "scheduling/strategies/registry.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/omni-run/training_arguments.hpp"
#include "scheduling/strategies/shared_options.hpp"

namespace omni {
namespace {

TEST(OptionsOfStrategies, are_rows_of_the_help) {
  TrainArguments arguments;
  const OptionTable table = table_of(arguments);
  std::vector<std::string> names;
  for (const OptionRow& row : table.rows())
    if (row.group == "Strategies") names.push_back(row.name + " " + row.value);
  EXPECT_THAT(names, testing::ElementsAre("--strategy NAME", "--sync-every MINI-BATCHES",
                                          "--alpha SHARE", "--central-momentum SHARE",
                                          "--outer-rate RATE", "--outer-momentum SHARE",
                                          "--group-batches SAMPLES", "--batch-rate POWER",
                                          "--adapt-factor FACTOR", "--adapt-weight WEIGHT"));
}

TEST(OptionsOfStrategies, name_their_strategies_and_usual_values) {
  EXPECT_EQ(strategy_option_help(kSyncEvery),
            "sma, local, elastic: mini-batches of each group between two meetings; default: 1 "
            "(sma), 16 (local, elastic)");
  EXPECT_EQ(
      strategy_option_help(kCentralMomentum),
      "sma, elastic: momentum of the average; unless it is 0, the models of elastic step without "
      "the net's momentum; default: 0 (elastic), 0.9 (sma)");
}

TEST(OptionsOfStrategies, have_their_usual_values_unless_the_user_gives_others) {
  static std::optional<double> seen;
  const StrategyType type{.name = "none",
                          .summary = "",
                          .options = {{&kSyncEvery, 3}},
                          .make = [](const StrategyOptions& options) -> MakeStrategy {
                            seen = options.own.number(kSyncEvery);
                            return {};
                          }};
  StrategyOptions options;
  (void)make_strategy(type, options);
  EXPECT_EQ(seen, 3);
  options.own.by_name["--sync-every"].number = 5;
  (void)make_strategy(type, options);
  EXPECT_EQ(seen, 5);
}

}  // namespace
}  // namespace omni
