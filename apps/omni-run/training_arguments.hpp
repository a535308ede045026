// This header has the arguments of the command line for a training, and the options that set them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/omni-run/arguments.hpp"
#include "codelets/elementwise/coding.hpp"
#include "scheduling/groups/momentum.hpp"
#include "scheduling/pilots/registry.hpp"
#include "scheduling/strategies/registry.hpp"

namespace omni {

struct GroupArguments {
  bool automatic = false;
  bool planned = false;        // --groups auto: the best number is predicted
  std::optional<int> count{};  // none: 1 group; with --auto: at most one per worker
  std::string layout{};
  std::uint64_t cold_start = 0;  // iterations with one group before there are several
  std::optional<bool> guard{};   // none: true; see Guard
  FullyConnected fully_connected = FullyConnected::merged;
  std::string strategy{};  // "": async with several groups, otherwise sync
  StrategyOptions strategy_options{};
  // How ranks share mini-batches and groups: by speeds that are measured if ranks are unlike
  // (automatic) or always, equally, or as `weights` say.
  enum class Shares { automatic, measured, equal, given };
  Shares shares = Shares::automatic;
  std::vector<int> weights{};  // RankShares::weights; empty: equal, or not measured yet
};

// ArrivalArguments choose the order in which groups finish: that of real time or of a simulated
// machine.
struct ArrivalArguments {
  bool simulated = false;
  std::string machine{};  // file
};

struct TrainArguments : NetRunArguments {
  GroupArguments groups;
  ArrivalArguments arrivals;
  std::string trace;  // folder
  DataArguments data;
  std::optional<double> epochs;
  // These are numbers of iterations. Without a number, reports are 20 apart and tests an epoch.
  // Tests with 0 are at the end only.
  std::optional<std::uint64_t> display{}, test_every{};
  bool dry_run = false, no_test = false;
  bool logs_as_caffe = false;
  std::string weights, snapshot, save_weights, metrics;
  std::string out;
  std::uint64_t checkpoint_every = 0;
  int keep = 2;
  std::string resume = "none";
  bool other_data = false, stage = false;
  OptionValues pilots{};
  double patience = 300;  // seconds to wait for a rank that does not answer
  bool survive = false;   // goes on without a lost rank
  Coding send{};
};

void describe_fully_connected(auto& add, FullyConnected& fully_connected) {
  add.group("Groups");
  add("--fc merged|replicated",
      choice(fully_connected,
             {{"merged", FullyConnected::merged}, {"replicated", FullyConnected::replicated}}),
      "Fully connected layers behind all others: merged (one copy, whose gradients are never "
      "stale; default) or replicated (one copy per group)");
}

// Adds the row of --send.
void describe_send(OptionTable& add, Coding& send, OptionRules rules = {});
Taker take_groups(GroupArguments& groups);
std::string group_count(std::string& value);
// Adds the row of --rank-shares.
void describe_rank_shares(OptionTable& add, GroupArguments& groups);
std::string strategy_help();  // the names and summaries of all strategies
// Names the strategies that use the option, and their usual values.
std::string strategy_option_help(const DeclaredOption& option);
// Adds the row of an option that a strategy or a pilot declares.
void describe_declared(OptionTable& add, const DeclaredOption& option, OptionValues& values,
                       OptionRules rules, std::string help);

void describe(auto& add, GroupArguments& groups) {
  const char* const one = "leave one of them out";
  StrategyOptions& options = groups.strategy_options;
  add.group("Groups");
  add("--auto", &groups.automatic,
      "Find the number of groups (at most --groups), the momentum and the learning rate by short "
      "trials, several times in a training; the given values are tried first");
  add("--groups COUNT|auto", take_groups(groups), {.check = group_count},
      "Compute groups: each trains on mini-batches of its own; auto: the number of the checkpoint, "
      "else the one predicted to be the fastest (see omni-run plan)");
  add("--cold-start ITERATIONS", &groups.cold_start,
      {.check = whole_number(),
       .excludes = {{"--auto", "--auto begins with one group by itself", one}},
       .shows_default = true},
      "First iterations with one group, since old gradients do the most harm at first; an epoch, "
      "say");
  add("--guard on|off", choice(groups.guard, {{"on", true}, {"off", false}}),
      {.excludes = {{"--auto", "--auto searches the learning rate by itself", one}}},
      "Learning rate of several asynchronous groups. on (default): start with a share of the given "
      "rate and raise it while the loss falls; when the loss rises, restore earlier parameters "
      "and lower the rate. off: the given rate");
  add("--group-layout WORKERS", &groups.layout,
      {.check = not_empty,
       .excludes = {{"--auto", "with --auto the number of groups varies",
                     "leave it out, or bound the number with --groups"},
                    {"--groups auto", "with --groups auto the number of groups is not known before",
                     "leave it out, or give --groups a number"}}},
      "Workers of each group, as in '0-1;2-3' (with the quotes), over several ranks '0:0-1;1:0-1'; "
      "default: evenly");
  describe_fully_connected(add, groups.fully_connected);
  add("--async free|reproducible",
      choice(options.asynchrony,
             {{"free", Asynchrony::free}, {"reproducible", Asynchrony::reproducible}}),
      "Order of the groups' updates: free (as they arrive; default) or reproducible (in turn)");
  add("--momentum-compensation theory|off",
      choice(options.compensation, {{"theory", Compensation::theory}, {"off", Compensation::off}}),
      {.excludes = {{"--auto",
                     "--auto searches the total momentum, and always compensates by theory", one}}},
      "Asynchrony acts like additional momentum. theory (default): reduce the momentum by what the "
      "number of groups adds, and raise the rate so that a gradient moves parameters as far; off: "
      "do not");

  add.group("Strategies");
  add("--strategy NAME", &groups.strategy, {.check = not_empty}, strategy_help());
  for (const DeclaredOption* option : strategy_options())
    describe_declared(add, *option, options.own, {}, strategy_option_help(*option));
}

void describe(auto& add, ArrivalArguments& arrivals) {
  add.group("Simulated machine");
  add("--arrivals real|virtual", choice(arrivals.simulated, {{"real", false}, {"virtual", true}}),
      "Order in which groups finish: real (default), or virtual: as on the machine of --machine. "
      "Metrics then have simulated seconds, and a run repeats bit for bit");
  add("--machine FILE", &arrivals.machine,
      {.check = not_empty,
       .needs = {{"--arrivals virtual", "has no effect on real arrivals",
                  "add --arrivals virtual"}}},
      "Machine of --arrivals virtual: a machine file, or the name of a shipped one");
}

void describe(auto& add, TrainArguments& train) {
  constexpr std::uint64_t kMost = 1'000'000'000'000;  // iterations; far beyond any training
  describe_shared(add, train);
  describe(add, train.groups);
  describe(add, train.arrivals);

  add.group("Net and solver");
  add("--epochs EPOCHS", &train.epochs, {.check = number(1e-6, 1e6)},
      "Passes over the training set; overrides max_batches of the net, also where the learning "
      "rate ends");
  add("--weights FILE", &train.weights,
      "Start from a .weights file, a checkpoint, or .caffemodel files, as in "
      "a.caffemodel,b.caffemodel");

  add.group("Output");
  add("--display ITERATIONS", &train.display, {.check = whole_number(1, 1 << 30)},
      "Iterations between two reports; default: 20, or display of a --solver");
  add("--log darknet|caffe", choice(train.logs_as_caffe, {{"darknet", false}, {"caffe", true}}),
      "Lines of progress: those of Darknet (default), or those that scripts for Caffe read");
  add("--test-every ITERATIONS", &train.test_every,
      {.check = whole_number(0, kMost), .excludes = {{"--no-test"}}},
      "Iterations between two evaluations on the test set; default: an epoch, or test_interval of "
      "a --solver; 0: only at the end");
  add("--snapshot FILE", &train.snapshot,
      {.check = not_empty,
       .excludes = {{"--weights", "the snapshot names its parameters", "leave --weights out"}}},
      "Go on from a .solverstate of Caffe, and the .caffemodel that it names");
  add("--save-weights FILE", &train.save_weights, {.last_counts = true},
      "Write Darknet .weights at the end, or a .caffemodel, with its .solverstate if there is a "
      "--solver");
  add("--metrics FILE", &train.metrics, {.last_counts = true},
      "Write metrics, one JSON object per line");
  add("--no-test", &train.no_test, "No evaluation on the test set");
  add("--dry-run", &train.dry_run, "Check the net, print the layer table, stop");

  add.group("Checkpoints");
  add("--out FOLDER", &train.out, {.last_counts = true},
      "Run folder for checkpoints; default: omni-runs/<net>");
  add("--checkpoint-every ITERATIONS", &train.checkpoint_every,
      {.check = whole_number(0, kMost), .last_counts = true},
      "Iterations between two checkpoints; 0 (default): none");
  add("--keep COUNT", &train.keep, {.check = range(2, 1000), .shows_default = true},
      "Checkpoints to keep");
  add("--resume auto|none|FOLDER", &train.resume,
      {.check = not_empty, .shows_default = true, .last_counts = true},
      "Continue from the newest checkpoint of the run folder (auto), or from this checkpoint");
  add("--other-data", &train.other_data,
      "Resume although the checkpoint was trained on other data");

  add.group("Data");
  add("--stage", &train.stage,
      "Copy image files to $SLURM_TMPDIR, $TMPDIR or /tmp first, and read them there");
  describe_damaged_images(add, train.data);

  for (const PilotType& type : pilot_types())
    for (const DeclaredOption& option : type.options) {
      add.group(std::string(option.group));
      OptionRules rules;
      if (type.needs_tests) rules.excludes = {{"--no-test"}};
      describe_declared(add, option, train.pilots, std::move(rules), std::string(option.help));
    }

  add.group("Several ranks");
  add("--patience SECONDS", &train.patience, {.check = number(1, 1e6), .shows_default = true},
      "Longest time that a rank may be silent before the training ends");
  add("--survive", &train.survive,
      "Go on without a rank that is lost, from the newest checkpoint in --out, and with one that "
      "is "
      "started again");
  describe_rank_shares(add, train.groups);
  describe_send(add, train.send);
}

}  // namespace omni
