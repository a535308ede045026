#include "apps/omni-run/compare/arguments.hpp"

#include <CLI/CLI.hpp>

namespace omni {

CLI::App& add_compare(CLI::App& root, CompareArguments& arguments) {
  CLI::App& app = *root.add_subcommand(
      "compare", "Train by several strategies with several seeds: time and epochs to an accuracy");
  add_common(app, arguments.common);
  app.add_option("--net", arguments.net)->required()->check(not_empty());
  app.add_option("--data", arguments.data)->required()->check(not_empty());
  app.add_option("--strategies", arguments.strategies)->required();
  app.add_option("--target", arguments.target)->required();
  app.add_option("--seeds", arguments.seeds)->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--epochs", arguments.epochs)->check(CLI::Range(1e-6, 1e6));
  app.add_option("--out", arguments.out);
  app.add_option("--arrivals", arguments.arrivals)->check(not_empty());
  app.add_option("--machine", arguments.machine)->check(not_empty());
  app.add_option("options", arguments.options);
  return app;
}

}  // namespace omni
