// The pilots by name. A pilot registers itself in its own file, and says there which options it has
// and when it is wanted.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduling/strategies/async.hpp"
#include "scheduling/training/pilot.hpp"

namespace omni {

// What the user gave for an option that a pilot adds.
struct OwnOption {
  bool flag = false;
  std::optional<std::uint64_t> number{};
  bool given() const { return flag || number; }
};
using OwnOptions = std::map<std::string, OwnOption, std::less<>>;  // by name

// What a training says about pilots.
struct PilotOptions {
  bool automatic = false;        // --auto
  bool grows = false;            // the number of groups
  bool guard = true;             // several groups of one model
  bool strict = false;           // a net that does not learn ends the training
  bool health = true;            // it is looked after
  std::uint64_t cold_start = 0;  // iterations with one group before there are several
  int groups = 1;                // at most
  int least_groups = 1;
  Workers workers{1, 0};
  Asynchrony asynchrony = Asynchrony::free;
  OwnOptions own{};

  const OwnOption* given(std::string_view name) const {  // null: it is not
    const auto found = own.find(name);
    return found != own.end() && found->second.given() ? &found->second : nullptr;
  }
};

// An option that a pilot adds to the command line.
struct PilotOption {
  std::string_view name;
  std::string_view value;  // what stands for its number in the help: "N"; "": it is a flag
  std::string_view group, help;
  std::uint64_t least = 0;
};

struct PilotType {
  std::string_view name;
  std::vector<PilotOption> options{};
  // It takes every iteration to be a mini-batch of the net's size.
  bool counts_iterations = false;
  bool needs_tests = false;    // of the training, on a test set
  bool saves = false;          // checkpoints, so there has to be a folder for them
  std::string_view without{};  // how to train without the memory that it takes
  // A warning when a training goes on without it.
  std::string_view left_out{};
  std::unique_ptr<Pilot> (*make)(const PilotOptions&) = nullptr;  // null: it is not wanted
};

struct PilotRegistration {
  explicit PilotRegistration(PilotType type);
};

const std::vector<PilotType>& pilot_types();  // by name, which is the order in which they are asked
const PilotType* find_pilot(std::string_view name);  // null: there is none

// Those that are wanted.
std::vector<std::unique_ptr<Pilot>> make_pilots(const PilotOptions& options);

}  // namespace omni
