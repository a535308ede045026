// Steps that several subcommands take before their work.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "apps/omni-run/arguments.hpp"
#include "layers/net.hpp"
#include "runtime/data/data_feed.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/tasks/recorder.hpp"
#include "runtime/tasks/session.hpp"

namespace omni {

// From here on, in every thread: a process that runs out of memory ends with the exit code for it.
void end_in_order_without_memory();
// Each rank's workers, where several are on a host.
void share_workers(MachineArguments& machine);
// Before workers are chosen. All ranks but the first write no files and are quiet.
Status prepare_ranks(TrainArguments& train);

// Cores that will compute.
int computing_cores(const SessionOptions& session);
// Finds out which GPUs --gpus means; with the cores they decide how a net cuts its mini-batches.
// net: null for none.
Status settle_workers(MachineArguments& machine, NetArguments* net);
Result<Session> start_session(const MachineArguments& arguments);
int cpu_workers(const Session& session);
Workers workers_of(const Session& session);

// Opens --data (synthetic when absent, which is said) and checks it against the net.
Result<DatasetPair> open_data(const DataArguments& arguments, const Net& net);

// What every output is called: by `file`, one per line, else by the data (null: none), or "class
// 7".
Result<std::vector<std::string>> class_names(const std::string& file, const Dataset* data,
                                             const Net& net);
// The classes of the largest outputs, best first, at most `most` of them; of equal ones the lower
// number, as an evaluation counts. An error about `where` when the outputs are no numbers.
Result<std::vector<std::size_t>> likeliest(std::span<const float> outputs, std::size_t most,
                                           const std::string& where);

// Mini-batches of an evaluation under way.
inline constexpr int kEvaluationSlots = 3;

// Needs a running Session, which decides what computes.
FeedOptions feed_options(const Net& net, std::uint64_t seed, bool training, int slots);

// Null when the folder is "". Measures the machine's peaks first, for the roofline. Destroy the
// result before the session.
Result<std::unique_ptr<Recorder>> start_trace(const std::string& folder, const Session& session,
                                              const Net& net);

}  // namespace omni
