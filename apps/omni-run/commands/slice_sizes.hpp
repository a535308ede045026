// How many images a task gets. A net has a rule for it (Net::build); what is fastest on a machine
// is measured, by `omni-run time --slices`, and kept beside the performance models for the
// trainings that follow.
#pragma once

#include <filesystem>
#include <map>
#include <vector>

#include "apps/omni-run/arguments.hpp"
#include "layers/net.hpp"

namespace omni {

using SliceTimes = std::map<int, double>;  // by images per slice: seconds per iteration

// Equal shares for the cores, halved again and again, and what the net's rule says.
std::vector<int> sizes_worth_timing(int batch, int cores, int by_rule);

// The times of a net in mini-batches of so many images on this machine's workers. Empty: not taken.
class SliceRecord {
 public:
  SliceRecord(const NetSpec& spec, const NetOptions& options, int cores,
              const MachineArguments& machine);
  // A damaged record is as good as none, but for a warning.
  SliceTimes read() const;
  Status write(const SliceTimes& times) const;

 private:
  int images_;
  std::filesystem::path file_;
};

// Takes the fastest size where there is a record and nothing else decides: --slice, GPUs, groups,
// or
// --deterministic, which cuts a net the same way on every machine.
Status settle_slice(const NetSpec& spec, const MachineArguments& machine, NetArguments& net);

// omni-run time --slices
Status time_slices(const TimeArguments& arguments);

}  // namespace omni
