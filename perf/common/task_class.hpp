// A TaskClass is a codelet, implementation, kind of worker and layer. Its tasks are expected to
// take the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "perf/trace/trace.hpp"

namespace omni::perf {

struct TaskClass {
  std::uint32_t codelet = 0, implementation = 0, kind = 0;
  std::int32_t layer = -1;  // -1: no layer's task, or an analysis does not tell layers apart
  bool operator==(const TaskClass&) const = default;
};

struct TaskClassHash {
  std::size_t operator()(const TaskClass& key) const {
    std::size_t hash = 0;
    for (const std::uint32_t part :
         {key.codelet, key.implementation, key.kind, static_cast<std::uint32_t>(key.layer)})
      hash = (hash ^ part) * 0x9e3779b97f4a7c15U;
    return hash ^ hash >> 32;
  }
};

// A KindIndex numbers the kinds of workers in a trace.
class KindIndex {
 public:
  explicit KindIndex(const Trace& trace) {
    std::unordered_map<std::string, std::uint32_t> known;
    for (const Worker& worker : trace.workers) {
      const auto [kind, is_new] =
          known.emplace(worker.kind, static_cast<std::uint32_t>(names_.size()));
      if (is_new) names_.push_back(worker.kind);
      of_worker_.push_back(kind->second);
    }
  }
  std::uint32_t of(const Task& task) const { return of_worker_[task.worker]; }
  TaskClass class_of(const Task& task, bool by_layer = true) const {
    return {task.codelet, task.implementation, of(task), by_layer ? task.layer : -1};
  }
  std::uint32_t of_worker(std::size_t worker) const { return of_worker_[worker]; }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
  std::vector<std::uint32_t> of_worker_;
};

}  // namespace omni::perf
