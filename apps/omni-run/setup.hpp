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

// Mini-batches of an evaluation under way.
inline constexpr int kEvaluationSlots = 3;

// Needs a running Session, which decides what computes.
FeedOptions feed_options(const Net& net, std::uint64_t seed, bool training, int slots);

}  // namespace omni
