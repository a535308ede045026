// What `omni-run compare` is told.
#pragma once

#include "apps/omni-run/arguments.hpp"

namespace omni {

struct CompareArguments {
  CommonArguments common;
  std::string net, data, strategies;
  double target = 0;
  int seeds = 3;
  std::string epochs, out, arrivals, machine;  // "": not given
  std::vector<std::string> options;            // of every training
};

CLI::App& add_compare(CLI::App& app, CompareArguments& arguments);
Status compare_command(const CompareArguments& arguments);

}  // namespace omni
