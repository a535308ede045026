// Steps that several subcommands take before their work.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/omni-run/training_arguments.hpp"
#include "layers/net.hpp"
#include "runtime/data/data_feed.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/result.hpp"
#include "runtime/tasks/recorder.hpp"
#include "runtime/tasks/session.hpp"
#include "scheduling/forecast/machine/machine_file.hpp"
#include "scheduling/groups/group_layout.hpp"
#include "scheduling/training/feed_options.hpp"
#include "scheduling/training/training.hpp"

namespace omni {

// Files that come with the program, found by name: nets, machine files, job scripts.
struct ShippedKind {
  const char *noun, *option, *ending;
  const char* folder;    // of share/omnivore, beside the program, installed or in the build tree
  const char* variable;  // of the environment; names a folder that comes first
};

inline constexpr ShippedKind kShippedNets{"net", "--net", ".cfg", "nets", "OMNIVORE_NETS"};
inline constexpr ShippedKind kShippedMachines{"machine", "--machine", ".json", "machines",
                                              "OMNIVORE_MACHINES"};
inline constexpr ShippedKind kShippedJobs{"job script", "--template", ".sbatch", "slurm",
                                          "OMNIVORE_SLURM"};

// By name, without its ending.
std::map<std::string, std::filesystem::path> shipped_files(const ShippedKind& kind);
// What to do about one that is not there.
std::string shipped_hint(const ShippedKind& kind, const std::string& name);
// A path, or the name of a shipped file, with or without its ending.
Result<std::filesystem::path> find_shipped(const ShippedKind& kind, const std::string& name);
Result<Machine> read_machine(const std::string& file_or_name);

// From here on, in every thread: a process that runs out of memory ends with the exit code for it.
void end_in_order_without_memory();
// Each rank's workers, where several are on a host.
void share_workers(MachineArguments& machine);
// Before workers are chosen. All ranks but the first write no files and are quiet.
Status prepare_ranks(TrainArguments& train);

// Cores that will compute.
int computing_cores(const SessionOptions& session);
// How a net is cut for the workers, of which so many are GPUs.
void fit_to_workers(MachineArguments& machine, NetArguments& net, int gpus);
// Finds out which GPUs --gpus means; with the cores they decide how a net cuts its mini-batches.
// net: null for none.
Status settle_workers(MachineArguments& machine, NetArguments* net);
Result<Session> start_session(const MachineArguments& arguments);
int cpu_workers(const Session& session);

Result<TrainableNet> read_net(const NetArguments& arguments);  // with the command line's values
Result<std::unique_ptr<Net>> build_net(const TrainableNet& net, const NetArguments& arguments,
                                       bool training);

// Trained parameters to start from, or to use: a .weights file, or a checkpoint. Not finite ones.
// The names of the classes that are stored with them, maybe of another number; none: not known.
// `held_out_of`: DatasetPair::name, where test samples are held out of it; warns if a checkpoint is
// of another.
Result<std::vector<std::string>> load_parameters(Net& net, const std::string& path,
                                                 const std::string& held_out_of = "");

// The table shown before training, and its JSON twin.
std::string layer_table(const Net& net);
nlohmann::json layer_table_json(const Net& net);

// Opens --data (synthetic when absent, which is said) and checks it against the net.
// `flat`: images are to be vectors.
Result<DatasetPair> open_data(const DataArguments& arguments, const Net& net, bool flat);

// Whether a trace could be begun there, if one is wanted: before anything takes time.
Status try_trace(const std::string& folder);

// Null when the folder is "". Measures the machine's peaks first, for the roofline. Destroy the
// result before the session.
Result<std::unique_ptr<Recorder>> start_trace(const std::string& folder, const Session& session,
                                              const Net& net);

}  // namespace omni
