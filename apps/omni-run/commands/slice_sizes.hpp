// How many images a task gets. A net has a rule for it (Net::build); what is fastest on a machine
// is measured, by `omni-run time --slices`, and kept beside the performance models for the
// trainings that follow.
#pragma once

#include <filesystem>
#include <map>
#include <vector>

#include "apps/omni-run/arguments.hpp"
#include "layers/net.hpp"
#include "runtime/data/dataset.hpp"

namespace omni {

struct SliceTimes {
  std::map<int, double> seconds;  // by images per slice: of a mini-batch
  int chosen = 0;
};

// Equal shares for the cores, halved again and again, and what the net's rule says.
struct SliceSizes {
  int by_rule = 0;
  std::vector<int> larger, smaller;  // the nearest first
};
SliceSizes sizes_worth_timing(int images, int cores, int by_rule);

// The times of a net in mini-batches of so many images on this machine's workers.
class SliceRecord {
 public:
  SliceRecord(const NetSpec& spec, const NetOptions& options, int cores,
              const MachineArguments& machine);
  const std::filesystem::path& file() const { return file_; }
  // Nothing was chosen: there is none, or it is damaged, which is said.
  SliceTimes read() const;
  Status write(const SliceTimes& times) const;

 private:
  int images_;
  std::filesystem::path file_;
};

// Takes the size that was chosen, unless something else decides: --slice, GPUs, or --deterministic,
// which cuts a net the same way on every machine.
Status use_timed_slice(const NetSpec& spec, const MachineArguments& machine, NetArguments& net);

// Before a training of so many iterations (0: without end), with a running Session: measures where
// that is short against it, and keeps what it found. 0: it did not. `net` is the one by the rule.
Result<int> slice_worth_measuring(const NetSpec& spec, const NetArguments& arguments,
                                  const MachineArguments& machine, const Net& net,
                                  const Dataset& images, std::uint64_t iterations);

// omni-run time --slices
Status time_slices(const TimeArguments& arguments);

}  // namespace omni
