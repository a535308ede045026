// Writes a plausible trace of any size without training anything. It has a small convolutional net,
// slices that run depth-first, updates, several groups, ranks and memory nodes, waits and counters.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/trace/records.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni::test {

struct SyntheticTrace {
  int ranks = 1, workers = 4, groups = 1, slices = 4, layers = 6;
  std::uint64_t tasks = 1000;  // of each rank, at least; the last iteration is finished
  bool transfers = false;      // every second worker gets its own memory node
  bool peaks = true;
  std::string bad_name = {};  // of one codelet; empty: none
};

class SyntheticRank {
 public:
  SyntheticRank(const SyntheticTrace& options, int rank) : o_(options), rank_(rank) {}

  std::string text() {
    describe();
    std::int64_t iteration = 0;
    do one_iteration(iteration++);
    while (next_task_ < o_.tasks);
    wait(true);
    trace::append(out_, trace::End{.at = clock_ + 500'000, .tasks = next_task_});
    return {out_.data(), out_.size()};
  }

 private:
  using Ns = trace::Nanoseconds;
  struct Kind {
    std::string name, implementation;
    std::uint32_t color;
    double flops, length;  // of a task of the first layer; ns
  };
  struct DataState {
    Ns written = 0, read = 0;
  };

  // Returns a pseudo-random number from 0 to 1, which is the same with every C++ library.
  double noise() {
    seed_ = seed_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<double>(seed_ >> 40) / static_cast<double>(1 << 24);
  }

  void describe() {
    trace::append(out_, trace::Header{.rank = rank_,
                                      .started = 1.7e9,
                                      .host = "node" + std::to_string(rank_),
                                      .command = "omni-run --net synthetic --trace DIR",
                                      .starpu = "1.4.10",
                                      .scheduler = "dmdas",
                                      .net = "synthetic",
                                      .batch = 64});
    for (int w = 0; w < o_.workers; ++w)
      trace::append(out_, trace::Worker{w, "CPU " + std::to_string(w), "CPU", node_of(w)});
    for (int group = 0; o_.groups > 1 && group < o_.groups; ++group) {
      trace::Eligible eligible{group, {}};
      for (int w = group; w < o_.workers; w += o_.groups) eligible.workers.push_back(w);
      trace::append(out_, eligible);
    }
    for (std::uint32_t k = 0; k < kinds_.size(); ++k) {
      const bool bad = !o_.bad_name.empty() && k == 1;
      trace::append(out_, trace::Codelet{k,
                                         bad ? o_.bad_name : kinds_[k].name,
                                         kinds_[k].color,
                                         {kinds_[k].implementation, "reference"}});
    }
    for (int l = 0; l < o_.layers; ++l)
      trace::append(out_, trace::Layer{l, l + 2 < o_.layers ? "convolutional" : "connected",
                                       std::to_string(16 << l / 2) + " 3x3/1"});
    if (!o_.peaks) return;
    trace::append(out_, trace::Peak{"gemm", "CPU", 9e10, 8.5e10 * o_.workers});
    trace::append(out_, trace::Peak{"copy", "CPU", 1.1e10, 1.6e10});
  }

  int node_of(int worker) const { return o_.transfers ? worker % 2 : 0; }

  void one_iteration(std::int64_t iteration) {
    trace::append(out_, trace::IterationStart{.iteration = iteration, .at = clock_});
    if (iteration == 0) warm_up_ = 3;
    for (int group = 0; group < o_.groups; ++group) {
      for (int slice = 0; slice < o_.slices; ++slice) {
        task(0, -1, slice, group, iteration, {{"image", slice, trace::AccessMode::write}});
        for (int l = 0; l < o_.layers; ++l) {
          const std::uint32_t kind = l + 2 < o_.layers ? 1 : 4;
          task(kind, l, slice, group, iteration,
               {{l == 0 ? "image" : "out", l == 0 ? slice : (l - 1) * 64 + slice, read_},
                {"weights", l, read_},
                {"out", l * 64 + slice, trace::AccessMode::write}});
        }
        for (int l = o_.layers - 1; l >= 0; --l) {
          task(2, l, slice, group, iteration,
               {{"out", l * 64 + slice, read_}, {"gradient", l, trace::AccessMode::add}});
          if (l > 0)
            task(3, l, slice, group, iteration,
                 {{"weights", l, read_},
                  {"out", l * 64 + slice, trace::AccessMode::update},
                  {"out", (l - 1) * 64 + slice, trace::AccessMode::update}});
        }
      }
      for (int l = 0; l < o_.layers; ++l)
        task(5, l, -1, group, iteration,
             {{"gradient", l, trace::AccessMode::update},
              {"weights", l, trace::AccessMode::update}});
      if (o_.groups > 1)
        trace::append(out_, trace::Exchange{
                                .iteration = iteration,
                                .group = group,
                                .staleness = std::min<std::int64_t>(
                                    iteration * o_.groups, o_.groups - 1 + (noise() < 0.2 ? 1 : 0)),
                                .at = latest_});
    }
    for (int peer = 0; peer < o_.ranks; ++peer)
      if (peer != rank_)
        trace::append(
            out_, trace::Transfer{
                      .bytes = 1 << 20, .from = clock_, .to = clock_ + 50'000, .from_rank = peer});
    warm_up_ = 1;
    if (iteration % 2 == 1) wait(iteration % 8 == 7);
    count("memory.resident", 3e8 + 2e5 * std::sqrt(static_cast<double>(iteration)));
    count("memory.tensors", 2.1e8);
    count("feed.decoded", std::floor(4 * noise()));
    count("loss", 2.3 / (1 + 0.05 * static_cast<double>(iteration)));
  }

  struct Use {
    std::string_view what;
    int number;
    trace::AccessMode mode;
  };

  void task(std::uint32_t kind, int layer, int slice, int group, std::int64_t iteration,
            const std::vector<Use>& uses) {
    trace::Task task;
    task.id = next_task_++;
    task.codelet = kind;
    task.layer = layer;
    task.slice = slice;
    task.group = group;
    if (o_.groups > 1) task.eligible = group;
    task.iteration = iteration;
    clock_ += 1'500 + static_cast<Ns>(1'000 * noise());
    Ns ready = clock_;
    std::vector<trace::Access> accesses;
    for (const Use& use : uses) {
      accesses.push_back({data(use, group), use.mode});
      const DataState& state = states_[accesses.back().data];
      ready = std::max(ready, state.written);
      if (use.mode != read_) ready = std::max(ready, state.read);
    }
    const Kind& k = kinds_[kind];
    task.implementation = noise() < 0.02 ? 1 : 0;
    const double scale = 1 / (1 + 0.3 * std::max(0, layer));
    task.flops = k.flops * scale;
    task.bytes = 40'000 + task.flops / (kind == 4 ? 2 : 30);
    const double expected = k.length * scale;
    const double odd = noise() < 0.004 ? 6 : 1;
    const Ns length = static_cast<Ns>(expected * (0.9 + 0.25 * noise()) * odd * warm_up_);
    if (iteration > 0) task.predicted = expected;

    const Ns room = length + 30'000 + (o_.transfers ? fetch_length(task) : 0);
    const auto [worker, free] = place(group, ready, room);
    task.worker = worker;
    trace::TaskTimes& t = task.times;
    t.submitted = clock_;
    t.ready = ready;
    t.pop_start = std::max(free, ready) + 300;
    t.popped = t.pop_start + 500 + static_cast<Ns>(900 * noise());
    t.fetch_start = t.popped + 200;
    t.fetch_end = t.fetch_start + fetch(task, t.fetch_start);
    t.start = t.fetch_end + 150;
    t.end = t.start + length;
    t.released = t.end + 700;
    occupy(worker, t.pop_start, t.released);
    for (const trace::Access& access : accesses) {
      DataState& state = states_[access.data];
      // Tasks that add to a sum do not wait for each other.
      if (access.mode == read_ || access.mode == trace::AccessMode::add)
        state.read = std::max(state.read, t.end);
      else
        state.written = std::max(state.written, t.end);
    }
    task.accesses = accesses;
    trace::append(out_, task);
  }

  static Ns fetch_length(const trace::Task& task) {
    return 3'000 + static_cast<Ns>(task.bytes / 12);
  }

  Ns fetch(const trace::Task& task, Ns at) {
    if (!o_.transfers || task.slice < 0 || noise() > 0.3) return 0;
    const int node = node_of(task.worker);
    const Ns length = fetch_length(task);
    trace::append(out_, trace::Transfer{.from_node = 1 - node,
                                        .to_node = node,
                                        .bytes = static_cast<std::uint64_t>(task.bytes),
                                        .from = at,
                                        .to = at + length});
    return length;
  }

  struct Gap {
    Ns from, to;
  };
  struct Place {
    int worker;
    Ns free;
  };

  // Returns the first gap among the group's workers that has room for a task which is ready at
  // `ready`.
  Place place(int group, Ns ready, Ns length) const {
    Place best{-1, 0};
    for (int w = group; w < o_.workers; w += o_.groups)
      for (const Gap& gap : gaps_[static_cast<std::size_t>(w)]) {
        const Ns from = std::max(gap.from, ready);
        if (gap.to - from < length) continue;
        if (best.worker < 0 || from < std::max(best.free, ready)) best = {w, gap.from};
        break;
      }
    return best;
  }

  void occupy(int worker, Ns from, Ns to) {
    std::vector<Gap>& gaps = gaps_[static_cast<std::size_t>(worker)];
    const auto gap =
        std::find_if(gaps.begin(), gaps.end(), [&](const Gap& g) { return g.to >= to; });
    const Gap after{to, gap->to};
    gap->to = from;
    gaps.insert(gap + 1, after);
    // Only the 40 newest gaps are kept.
    if (gaps.size() > 40) gaps.erase(gaps.begin());
    latest_ = std::max(latest_, to);
  }

  std::uint32_t data(const Use& use, int group) {
    const std::string name =
        std::to_string(group) + "." + std::string(use.what) + std::to_string(use.number);
    const auto [found, fresh] = ids_.try_emplace(name, static_cast<std::uint32_t>(ids_.size()));
    if (fresh) {
      trace::append(out_, trace::Data{found->second, name, 65'536});
      states_.emplace_back();
    }
    return found->second;
  }

  void wait(bool for_all) {
    const Ns until = latest_ - (for_all ? 0 : 200'000);
    if (until <= clock_) return;
    trace::append(out_, trace::Wait{.for_all = for_all, .from = clock_, .to = until});
    clock_ = until + 20'000;
  }

  void count(std::string_view name, double value) {
    trace::append(out_, trace::Counter{.name = std::string(name), .at = clock_, .value = value});
  }

  static constexpr Ns kForever = Ns{1} << 60;
  static constexpr trace::AccessMode read_ = trace::AccessMode::read;
  const std::vector<Kind> kinds_ = {
      {"decode", "cpu", 0xe377c2, 0, 90e3},
      {"convolution_forward", "onednn", 0x2E86AB, 8e6, 130e3},
      {"convolution_backward_weights", "onednn", 0x1B4965, 8e6, 165e3},
      {"convolution_backward_data", "lowering", 0x5FA8D3, 8e6, 145e3},
      {"connected_forward", "gemm", 0x2ca02c, 2e6, 220e3},
      {"exchange", "vector", 0xD1495B, 1e5, 25e3}};
  SyntheticTrace o_;
  int rank_;
  trace::Buffer out_;
  std::uint64_t next_task_ = 0, seed_ = 42;
  Ns clock_ = 1'000'000;
  double warm_up_ = 1;
  Ns latest_ = 0;
  std::vector<std::vector<Gap>> gaps_{static_cast<std::size_t>(o_.workers),
                                      {{0, kForever}}};  // by worker
  std::map<std::string, std::uint32_t> ids_;
  std::vector<DataState> states_;
};

inline void write_synthetic_trace(const std::filesystem::path& folder,
                                  const SyntheticTrace& options) {
  std::filesystem::create_directories(folder);
  for (int rank = 0; rank < options.ranks; ++rank)
    put(folder / ("rank-" + std::to_string(rank) + ".jsonl"), SyntheticRank(options, rank).text());
}

}  // namespace omni::test
