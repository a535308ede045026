// This header has the steps that several subcommands take before their work.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/omni-run/training_arguments.hpp"
#include "layers/formats/parameters.hpp"
#include "layers/net.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/data/feed/data_feed.hpp"
#include "runtime/result.hpp"
#include "runtime/tasks/recorder.hpp"
#include "runtime/tasks/session.hpp"
#include "scheduling/forecast/machine/machine_file.hpp"
#include "scheduling/groups/group_layout.hpp"
#include "scheduling/training/feed_options.hpp"
#include "scheduling/training/training.hpp"

namespace omni {

// A ShippedKind is a kind of files that come with the program and are found by name: nets, machine
// files, job scripts.
struct ShippedKind {
  const char *noun, *option, *ending;
  const char* folder;    // of share/omnivore, beside the program, installed or in the build tree
  const char* variable;  // of the environment; names a folder that comes first
};

inline constexpr ShippedKind kShippedNets{"net", "--net", ".cfg", "nets", "OMNIVORE_NETS"};
inline constexpr ShippedKind kShippedCaffeNets{"net", "--net", ".prototxt", "nets/caffe",
                                               "OMNIVORE_NETS"};
inline constexpr ShippedKind kShippedSolvers{"solver", "--solver", ".prototxt", "nets/caffe",
                                             "OMNIVORE_NETS"};
inline constexpr ShippedKind kShippedMachines{"machine", "--machine", ".json", "machines",
                                              "OMNIVORE_MACHINES"};
inline constexpr ShippedKind kShippedJobs{"job script", "--template", ".sbatch", "slurm",
                                          "OMNIVORE_SLURM"};

// Lists the files of a kind by name, without their endings.
std::map<std::string, std::filesystem::path> shipped_files(const ShippedKind& kind);
// Returns the hint of the error for a file that was not found.
std::string shipped_hint(const ShippedKind& kind, const std::string& name);
// Finds a file by its path, or by the name of a shipped file with or without its ending.
Result<std::filesystem::path> find_shipped(const ShippedKind& kind, const std::string& name);
Result<Machine> read_machine(const std::string& file_or_name);

// After this call a process that runs out of memory, in any thread, ends with the exit code for it.
void end_in_order_without_memory();
// Sets the CPU workers to this rank's share of the host's cores, unless --workers gives them.
void share_workers(MachineArguments& machine);
// prepare_ranks() must be called before workers are chosen. All ranks but the first then write no
// metrics and no weights, and are quiet.
Status prepare_ranks(TrainArguments& train);

// Returns the command that started these ranks, without the names of hosts; "": one rank.
std::string launcher();

// Returns the number of cores that will compute.
int computing_cores(const SessionOptions& session);
// Sets in `net` how mini-batches are cut for the workers, of which `gpus` are GPUs.
void fit_to_workers(MachineArguments& machine, NetArguments& net, int gpus);
// Finds the GPUs that --gpus means. GPUs and cores decide how `net` cuts its mini-batches; null:
// there is no net.
Status settle_workers(MachineArguments& machine, NetArguments* net);
Result<Session> start_session(const MachineArguments& arguments);
int cpu_workers(const Session& session);
void say_peak_memory();  // of this process

// Returns the file of --net, or the one that --solver names.
Result<std::filesystem::path> find_net(const NetArguments& arguments);
Result<TrainableNet> read_net(const NetArguments& arguments);  // with the command line's values
Result<std::unique_ptr<Net>> build_net(const TrainableNet& net, const NetArguments& arguments,
                                       bool training);

// Loads trained parameters from .weights or .caffemodel files or a checkpoint. Values that are not
// finite are refused. Returns the stored class names, whose number may differ from the net's
// outputs; empty: not known. `held_out_of`: DatasetPair::name if test samples are held out of the
// data, else "". It gives a warning about a checkpoint that was trained on other data.
Result<std::vector<std::string>> load_parameters(Net& net, const std::string& path,
                                                 const std::string& held_out_of = "",
                                                 AbsentLayers absent = AbsentLayers::kept);

// Returns the table that is shown before training, and the same as JSON.
std::string layer_table(const Net& net);
nlohmann::json layer_table_json(const Net& net);

// Opens --data and checks it against the net. Without --data it uses synthetic data and prints
// that, unless the net's file names data, which then are missing. `spec` is the net's description.
Result<DatasetPair> open_data(const DataArguments& arguments, const Net& net,
                              const TrainableNet& spec);

// Returns an error if no trace can be written to `folder`. An empty `folder` means that no trace is
// wanted.
Status try_trace(const std::string& folder);

// Begins a trace and returns its recorder; null: the folder is "". It also measures and records the
// peak rates of the CPUs, for the roofline. The recorder must be destroyed before the session.
Result<std::unique_ptr<Recorder>> start_trace(const std::string& folder, const Session& session,
                                              const Net& net,
                                              Recorder::Of of = Recorder::Of::all_threads);

}  // namespace omni
