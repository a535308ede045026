#include "apps/omni-run/compare/arguments.hpp"

#include <CLI/CLI.hpp>

namespace omni {

CLI::App& add_compare(CLI::App& root, CompareArguments& arguments) {
  CLI::App& app = *root.add_subcommand(
      "compare", "Train by several strategies with several seeds: time and epochs to an accuracy");
  add_common(app, arguments.common);
  app.add_option("--net", arguments.net, "As of a training")->required()->check(not_empty());
  app.add_option("--data", arguments.data, "As of a training")->required()->check(not_empty());
  app.add_option("--strategies", arguments.strategies,
                 "Names, numbers of groups, mini-batches: sync,async:4,sync@512")
      ->required();
  app.add_option("--target", arguments.target, "Accuracy on the test set, as in 0.9")->required();
  app.add_option("--seeds", arguments.seeds, "Trainings of each strategy, with the seeds 1, 2, ...")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--epochs", arguments.epochs, "As of a training")->check(CLI::Range(1e-6, 1e6));
  app.add_option("--out", arguments.out,
                 "Folder of the comparison; default: omni-compare/<net>. One that was interrupted "
                 "there goes on");
  app.add_option("--arrivals", arguments.arrivals, "As of a training")->check(not_empty());
  app.add_option("--machine", arguments.machine, "As of a training")->check(not_empty());
  app.add_option("options", arguments.options, "Behind --: further options of every training");
  return app;
}

}  // namespace omni
