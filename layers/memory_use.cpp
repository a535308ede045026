#include "layers/memory_use.hpp"

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "layers/memory_plan.hpp"

namespace omni {
namespace {

constexpr int kAllSlices = -1;

// A tensor that moves between devices should not take much longer for where it lies.
constexpr std::size_t kMostTimes = 2;
// Gradients of weights, which nobody waits for, come late: so many tasks of the slice, some layers'
// worth, go ahead of them. Less would make the next layers' gradients wait on machines of many
// cores; with more, the plan takes more memory. (perf/RESULTS.md has both.)
constexpr std::size_t kLate = 8;

bool comes_late(const CapturedTask& task) { return task.priority < 0; }

struct Use {
  int slice = kAllSlices;
  std::vector<PlannedBuffer::Lifetime> lifetimes;
  bool remembers = false;
};
using Uses = std::unordered_map<const Tensor*, Use>;

// The slice whose tasks are the only ones to use it.
Uses find_slices(std::span<const CapturedTask> tasks) {
  Uses uses;
  for (const CapturedTask& task : tasks)
    for (const CapturedTask::Use& use : task.uses) {
      const auto [known, added] = uses.try_emplace(use.part.tensor, Use{task.slice, {}});
      if (known->second.slice != task.slice) known->second.slice = kAllSlices;
    }
  return uses;
}

Uses find_uses(std::span<const CapturedTask> tasks) {
  Uses uses = find_slices(tasks);
  std::unordered_map<int, std::size_t> count;  // of a slice's tasks so far
  for (const CapturedTask& task : tasks) {
    std::unordered_set<int> counted;
    for (const CapturedTask::Use& each : task.uses) {
      Use& use = uses.at(each.part.tensor);
      if (counted.insert(use.slice).second) ++count[use.slice];
      const std::size_t now = count[use.slice];
      if (each.mode == AccessMode::write)
        use.lifetimes.push_back({now, now});
      else if (use.lifetimes.empty())
        use.remembers = true;
      else
        use.lifetimes.back().last = comes_late(task) ? now + kLate : now;
    }
  }
  return uses;
}

}  // namespace

void place_tensors(TensorPool& tensors, std::span<const CapturedTask> tasks,
                   std::span<const Tensor* const> kept, bool share) {
  Uses uses = find_uses(tasks);
  for (const Tensor* each : kept) uses.erase(each);
  std::vector<Tensor*> movable;
  std::vector<PlannedBuffer> buffers;
  for (Tensor& tensor : tensors.all()) {
    const auto found = uses.find(&tensor);
    if (found == uses.end() || found->second.remembers || tensor.parts() > 1) continue;
    movable.push_back(&tensor);
    tensor.make_fleeting();
    buffers.push_back({tensor.bytes(), found->second.slice, std::move(found->second.lifetimes)});
  }
  if (!share) return;
  const std::vector<std::size_t> home = plan_memory(buffers, kMostTimes);
  for (std::size_t i = 0; i < home.size(); ++i)
    if (home[i] != i) tensors.place(*movable[i], *movable[home[i]]);
}

}  // namespace omni
