// Steps that several subcommands take before their work.
#pragma once

#include "apps/omni-run/arguments.hpp"
#include "layers/net.hpp"
#include "runtime/data/data_feed.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/tasks/session.hpp"

namespace omni {

std::vector<std::string> scheduler_names();
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

// Of the machine, or of the container that this process is in.
std::size_t physical_memory();

// What each of so many GPUs holds of tensors that all share: activations of its slice, and all
// parameters.
std::size_t bytes_on_each_gpu(std::size_t tensors, std::size_t fleeting, std::size_t gpus);

// In bytes. What is fleeting of the tensors is by mini-batch: subdivisions make it smaller.
struct MemoryDemand {
  std::size_t in_main_memory = 0, tensors = 0, fleeting = 0;
};

// Refuses before anything is allocated: a machine that runs out later kills without a word.
// Tensors must fit the GPUs, too.
Status require_memory(const Net& net, const MemoryDemand& demand, const MachineArguments& machine);

// Mini-batches of an evaluation under way.
inline constexpr int kEvaluationSlots = 3;

// Needs a running Session, which decides what computes.
FeedOptions feed_options(const Net& net, std::uint64_t seed, bool training, int slots);

}  // namespace omni
