#include "perf/common/task_class.hpp"

#include <unordered_map>

namespace omni::perf {

KindIndex::KindIndex(const Trace& trace) {
  std::unordered_map<std::string, std::uint32_t> known;
  for (const Worker& worker : trace.workers) {
    const auto [kind, is_new] =
        known.emplace(worker.kind, static_cast<std::uint32_t>(names_.size()));
    if (is_new) names_.push_back(worker.kind);
    of_worker_.push_back(kind->second);
  }
}

}  // namespace omni::perf
