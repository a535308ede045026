// This is the registry of pilots. A pilot registers itself in its own file, with its options and a
// function that makes it if the user wants it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "scheduling/strategies/async.hpp"
#include "scheduling/strategies/own_options.hpp"
#include "scheduling/training/pilot.hpp"

namespace omni {

// PilotOptions are the settings from which pilots are made.
struct PilotOptions {
  bool automatic = false;        // --auto
  bool grows = false;            // Growing finds the number of groups
  bool guard = true;             // Guard watches several groups of one model
  bool strict = false;           // a net that does not learn ends the training with an error
  bool health = true;            // HealthCheck watches the training
  std::uint64_t cold_start = 0;  // iterations with one group before there are several
  int groups = 1;                // the largest number that may be used
  int least_groups = 1;
  Workers workers{1, 0};
  Asynchrony asynchrony = Asynchrony::free;
  OptionValues own{};  // of the options that pilots declare
  // Makes a further pilot that is not in the registry; empty means that there is none. This pilot
  // is called last.
  std::function<std::unique_ptr<Pilot>()> make_another{};
};

struct PilotType {
  std::string_view name;
  std::vector<DeclaredOption> options{};
  // True: the pilot assumes that every mini-batch has the net's size in samples.
  bool counts_iterations = false;
  bool needs_tests = false;    // the pilot needs a test set
  bool saves = false;          // the pilot saves checkpoints, so it needs a folder for them
  bool outlasts_data = false;  // the pilot's numbers hold for other data, too
  std::string_view without{};  // how the user can train without the pilot, to save its memory
  // This warning is printed when a resumed training goes on without the pilot.
  std::string_view left_out{};
  std::unique_ptr<Pilot> (*make)(const PilotOptions&) = nullptr;  // returns null: it is not wanted
};

struct PilotRegistration {
  explicit PilotRegistration(PilotType type);
};

const std::vector<PilotType>& pilot_types();  // sorted by name; pilots are called in this order
const PilotType* find_pilot(std::string_view name);  // null: there is none

// Makes the pilots that the user's options ask for.
std::vector<std::unique_ptr<Pilot>> make_pilots(const PilotOptions& options);

}  // namespace omni
