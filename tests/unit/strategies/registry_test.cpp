// These tests check the options that strategies declare: their rows in --help, and the values with
// which strategies are made.
#include "scheduling/strategies/registry.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/omni-run/groups/group_options.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/training_arguments.hpp"
#include "runtime/log.hpp"
#include "scheduling/strategies/shared_options.hpp"

namespace omni {
namespace {

TEST(OptionsOfStrategies, are_rows_of_the_help) {
  TrainArguments arguments;
  const OptionTable table = table_of(arguments);
  std::vector<std::string> names;
  for (const OptionRow& row : table.rows())
    if (row.group == "Strategies") names.push_back(row.name + " " + row.value);
  EXPECT_THAT(names, testing::ElementsAre(
                         "--strategy NAME", "--sync-every MINI-BATCHES", "--alpha SHARE",
                         "--central-momentum SHARE", "--fragments COUNT", "--outer-rate RATE",
                         "--outer-momentum SHARE", "--fragment-delay MINI-BATCHES",
                         "--fragment-mix SHARE", "--group-batches SAMPLES", "--batch-rate POWER",
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

// The test uses a made-up strategy whose groups share one model, as those of async do.
class OneModel : public testing::Test {
 protected:
  OneModel() {
    net_.net = OMNI_SOURCE_DIR "/apps/nets/cifar10-quick.cfg";
    solver_.momentum = 0.9f;
  }
  std::string said(const StrategyType& type) {
    const auto groups = open_groups(*read_net(net_), net_, arguments_);
    EXPECT_TRUE(groups);
    const log::Capture captured;
    warn_about_groups(*groups, arguments_, type, solver_, 100);
    return captured.text();
  }
  NetArguments net_;
  GroupArguments arguments_{.count = 16};
  SolverOptions solver_{};
};

TEST_F(OneModel, has_what_it_names_of_async_and_no_more) {
  StrategyType type{.name = "mine", .summary = ""};
  ASSERT_EQ(type.models, GroupModels::one);
  SolverOptions adam;
  adam.adam = true;
  EXPECT_EQ(said(type), "");
  EXPECT_FALSE(is_guarded(type, arguments_));
  EXPECT_TRUE(check_adam(arguments_, type, adam));

  type.uses = {"--guard"};
  EXPECT_THAT(said(type), testing::StartsWith("guard: starts with"));
  EXPECT_TRUE(is_guarded(type, arguments_));
  EXPECT_TRUE(check_adam(arguments_, type, adam));

  type.uses = {"--momentum-compensation"};
  EXPECT_THAT(said(type), testing::HasSubstr("the asynchrony of 16 groups adds more momentum"));
  EXPECT_FALSE(is_guarded(type, arguments_));
  EXPECT_FALSE(check_adam(arguments_, type, adam));

  arguments_.guard = false;
  EXPECT_FALSE(is_guarded(**find_strategy("async"), arguments_));
}

}  // namespace
}  // namespace omni
