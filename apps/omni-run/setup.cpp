#include "apps/omni-run/setup.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <thread>

#include "runtime/log.hpp"
#include "scheduling/policy/omni_policy.hpp"

namespace omni {

std::vector<std::string> scheduler_names() { return Session::schedulers(&omni_policy()); }

Result<Session> start_session(const MachineArguments& arguments) {
  SessionOptions options = arguments.session;
  options.models = arguments.models;
  options.policy = &omni_policy();
  OMNI_TRY(Session session, Session::start(options));
  if (static_cast<int>(session.workers().size()) < options.cpu_workers)
    log::warn("--workers {}: {} cores here, using {}", options.cpu_workers,
              std::thread::hardware_concurrency(), session.workers().size());
  log::info("{} worker{}, scheduler {}{}", session.workers().size(),
            session.workers().size() == 1 ? "" : "s", session.scheduler(),
            options.deterministic ? ", deterministic" : "");
  return session;
}

int cpu_workers(const Session& session) {
  const auto workers = session.workers();
  return static_cast<int>(std::count_if(workers.begin(), workers.end(),
                                        [](const WorkerInfo& each) { return each.kind == "CPU"; }));
}

Result<DatasetPair> open_data(const DataArguments& arguments, const Net& net) {
  if (arguments.source.empty())
    log::warn("no --data: computed patterns stand in for images (--data fashion-mnist, say)");
  OMNI_TRY(DatasetPair data,
           open_dataset({.source = arguments.source.empty() ? "synthetic" : arguments.source,
                         .net_input = net.options().input,
                         .classes = net.classes(),
                         .seed = arguments.seed}));
  log::info("data: {}", data.train->description());
  const Extent images = data.train->extent(), input = net.options().input;
  if (images.h != input.h || images.w != input.w || images.c != input.c)
    log::info("the net takes {}x{}x{}: images are fitted to it", input.h, input.w, input.c);
  return data;
}

std::size_t physical_memory() {
  const auto machine = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                       static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::size_t container = machine;
  std::ifstream("/sys/fs/cgroup/memory.max") >> container;  // "max": no limit, and no number
  return container == 0 ? machine : std::min(machine, container);
}

Status require_memory(const Net& net, std::size_t needed) {
  const std::size_t there = physical_memory();
  if (needed <= there) return {};
  const auto gib = [](std::size_t bytes) { return static_cast<double>(bytes) / 0x1p30; };
  const auto times = static_cast<int>(std::bit_ceil(needed / there + 1));
  return Error{ErrorKind::out_of_memory, net.name(),
               fmt::format("needs {:.1f} GiB, there are {:.1f}", gib(needed), gib(there)),
               fmt::format("try --subdivisions {}", net.options().subdivisions * times)};
}

FeedOptions feed_options(const Net& net, std::uint64_t seed, bool training, int slots) {
  return {.training = training,
          .seed = seed,
          .augment = net.options().augment,
          .net_input = net.options().input,
          .slices = net.slices(),
          .slots = slots};
}

}  // namespace omni
