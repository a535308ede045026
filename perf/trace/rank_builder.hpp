// A RankBuilder adds the records of one process to a trace. Ids in the file become indices. What a
// record refers to must have been defined before.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "perf/trace/record_parser.hpp"
#include "perf/trace/trace.hpp"

namespace omni::perf {

// A CodeletIndex has the indices of codelets by name. All ranks share a codelet of the same name.
using CodeletIndex = std::unordered_map<std::string, std::uint32_t>;

class RankBuilder {
 public:
  RankBuilder(Trace& trace, CodeletIndex& codelets)
      : trace_(trace), codelet_index_(codelets), first_task_(trace.tasks.size()) {}

  // Returns what is wrong with the record; "": nothing. The first record must be the header.
  std::string add(Record&& record) {
    if (ended_) return "something follows the last record";
    return std::visit([this](auto&& kind) { return take(std::move(kind)); }, std::move(record));
  }

  // Call finish() after the last record. It sorts the tasks, and returns what is wrong; "":
  // nothing.
  std::string finish() {
    const auto first = trace_.tasks.begin() + static_cast<std::ptrdiff_t>(first_task_);
    const auto by_id = [](const Task& a, const Task& b) { return a.id < b.id; };
    std::sort(first, trace_.tasks.end(), by_id);
    const auto same = std::adjacent_find(first, trace_.tasks.end(),
                                         [](const Task& a, const Task& b) { return a.id == b.id; });
    return same == trace_.tasks.end() ? std::string() : twice("task", same->id);
  }

  bool has_header() const { return has_header_; }
  bool ended() const { return ended_; }

 private:
  static constexpr std::size_t kMaxWorkers = 65536;
  static constexpr std::size_t kMaxImplementations = 1024;  // of one codelet
  static constexpr std::size_t kMaxEligible = 1024;
  static constexpr std::size_t kMaxIndex = std::numeric_limits<std::uint32_t>::max();
  static constexpr const char* kSetName = "set of eligible workers";

  struct Codelet {
    std::uint32_t index;
    std::vector<std::uint32_t> implementations;
  };
  using Ids = std::unordered_map<std::uint32_t, std::uint32_t>;

  static std::string twice(const char* what, std::uint64_t id) {
    return fmt::format("{} {} is there twice", what, id);
  }
  static std::string undefined(const char* what, std::int64_t id) {
    return fmt::format("there is no {} {} above", what, id);
  }
  template <class Kept>
  std::string keep(std::vector<Kept>& all, Kept&& one) {
    one.rank = rank_;
    all.push_back(std::move(one));
    return {};
  }

  std::string take(UnknownRecord&&) { return {}; }

  std::string take(trace::Header&& header) {
    if (has_header_) return "a second header";
    has_header_ = true;
    rank_ = header.rank;
    trace_.headers.push_back(std::move(header));
    return {};
  }

  std::string take(trace::Worker&& worker) {
    if (trace_.workers.size() == kMaxWorkers)
      return fmt::format("more than {} workers", kMaxWorkers);
    const auto index = static_cast<std::uint32_t>(trace_.workers.size());
    if (!workers_.emplace(worker.id, index).second) return twice("worker", worker.id);
    trace_.workers.push_back({.name = std::move(worker.name),
                              .kind = std::move(worker.kind),
                              .rank = rank_,
                              .node = worker.node});
    return {};
  }

  std::string take(trace::Codelet&& codelet) {
    const auto [entry, is_new] = codelets_.try_emplace(codelet.id);
    if (!is_new) return twice("codelet", codelet.id);
    const auto [known, is_unknown] =
        codelet_index_.emplace(codelet.name, static_cast<std::uint32_t>(trace_.codelets.size()));
    if (is_unknown)
      trace_.codelets.push_back({.id = known->second,
                                 .name = codelet.name,
                                 .color = codelet.color,
                                 .implementations = {}});
    entry->second.index = known->second;
    std::vector<std::string>& all = trace_.codelets[known->second].implementations;
    for (std::string& name : codelet.implementations) {
      const auto found = std::ranges::find(all, name);
      entry->second.implementations.push_back(static_cast<std::uint32_t>(found - all.begin()));
      if (found != all.end()) continue;
      if (all.size() == kMaxImplementations)
        return fmt::format("more than {} implementations of one codelet", kMaxImplementations);
      all.push_back(std::move(name));
    }
    return {};
  }

  std::string take(trace::Layer&& layer) {
    const std::size_t id = layer.id;
    if (id >= layers_.size()) layers_.resize(id + 1);
    if (layers_[id]) return twice("layer", id);
    layers_[id] = true;
    if (id >= trace_.layers.size()) trace_.layers.resize(id + 1);
    trace_.layers[id] = std::move(layer);
    return {};
  }

  std::string take(trace::Data&& data) {
    const auto index = static_cast<std::uint32_t>(trace_.data.size());
    if (!data_.emplace(data.id, index).second) return twice("data", data.id);
    data.id = index;
    return keep(trace_.data, std::move(data));
  }

  std::string take(trace::Eligible&& eligible) {
    const auto id = static_cast<std::uint32_t>(eligible.id);
    if (!eligible_.emplace(id, static_cast<std::uint32_t>(trace_.eligible.size())).second)
      return twice(kSetName, id);
    if (trace_.eligible.size() == kMaxEligible)
      return fmt::format("more than {} sets of eligible workers", kMaxEligible);
    std::vector<bool>& workers = trace_.eligible.emplace_back(trace_.workers.size());
    for (const std::int32_t worker : eligible.workers) {
      const auto found = workers_.find(static_cast<std::uint32_t>(worker));
      if (found == workers_.end()) return undefined("worker", worker);
      workers[found->second] = true;
    }
    return {};
  }

  std::string take(trace::Peak&& peak) {
    trace_.peaks.push_back(std::move(peak));
    return {};
  }

  std::string take(trace::Task&& task) {
    const auto codelet = codelets_.find(task.codelet);
    if (codelet == codelets_.end()) return undefined("codelet", task.codelet);
    const std::vector<std::uint32_t>& implementations = codelet->second.implementations;
    if (task.implementation >= implementations.size())
      return fmt::format("codelet {} has no implementation {}", task.codelet, task.implementation);
    const auto worker = workers_.find(static_cast<std::uint32_t>(task.worker));
    if (worker == workers_.end()) return undefined("worker", task.worker);
    const auto eligible = eligible_.find(static_cast<std::uint32_t>(task.eligible));
    if (task.eligible >= 0 && eligible == eligible_.end())
      return undefined(kSetName, task.eligible);
    const std::size_t layer = task.layer;
    if (task.layer >= 0 && (layer >= layers_.size() || !layers_[layer]))
      return undefined("layer", task.layer);
    if (trace_.accesses.size() + task.accesses.size() > kMaxIndex ||
        trace_.tasks.size() == kMaxIndex)
      return "more tasks or accesses than can be counted";

    const auto first_access = static_cast<std::uint32_t>(trace_.accesses.size());
    for (const trace::Access& access : task.accesses) {
      const auto data = data_.find(access.data);
      if (data == data_.end()) return undefined("data", access.data);
      trace_.accesses.push_back({.data = data->second, .mode = access.mode});
    }
    trace_.tasks.push_back(
        {.id = task.id,
         .codelet = codelet->second.index,
         .implementation = implementations[task.implementation],
         .worker = worker->second,
         .eligible = task.eligible < 0 ? -1 : static_cast<std::int32_t>(eligible->second),
         .layer = task.layer,
         .slice = task.slice,
         .group = task.group,
         .iteration = task.iteration,
         .times = task.times,
         .predicted = task.predicted,
         .flops = task.flops,
         .bytes = task.bytes,
         .first_access = first_access,
         .access_count = static_cast<std::uint32_t>(task.accesses.size())});
    return {};
  }

  std::string take(trace::IterationStart&& iteration) {
    if (!iterations_.insert(iteration.iteration).second)
      return twice("iteration", static_cast<std::uint64_t>(iteration.iteration));
    return keep(trace_.iterations, std::move(iteration));
  }
  std::string take(trace::Wait&& wait) { return keep(trace_.waits, std::move(wait)); }
  std::string take(trace::Transfer&& one) { return keep(trace_.transfers, std::move(one)); }
  std::string take(trace::Exchange&& one) { return keep(trace_.exchanges, std::move(one)); }
  std::string take(trace::Meeting&& one) { return keep(trace_.meetings, std::move(one)); }
  std::string take(trace::Counter&& counter) {
    if (std::isnan(counter.value))
      return {};  // the loss of a diverged training; analyses need numbers
    return keep(trace_.counters, std::move(counter));
  }

  std::string take(trace::End&& end) {
    ended_ = true;
    const std::size_t held = trace_.tasks.size() - first_task_;
    if (end.tasks == held) return {};
    return fmt::format("{} tasks, but the last record counts {}", held, end.tasks);
  }

  Trace& trace_;
  CodeletIndex& codelet_index_;
  std::size_t first_task_;
  std::int32_t rank_ = 0;
  bool has_header_ = false, ended_ = false;
  Ids workers_, data_, eligible_;
  std::unordered_map<std::uint32_t, Codelet> codelets_;
  std::unordered_set<std::int64_t> iterations_;  // those that have begun
  std::vector<bool> layers_;                     // by layer: whether this rank has defined it
};

}  // namespace omni::perf
