#include "perf/analysis/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "perf/analysis/models.hpp"
#include "perf/common/statistics.hpp"
#include "perf/trace/dependencies.hpp"

namespace omni::perf {
namespace {

constexpr double kWorthSaying = 0.01;
// These codelets of runtime/data/feed/ decode images.
constexpr std::array<std::string_view, 8> kDecoding = {
    "decode_batch",      "decode_samples",    "read_image_files", "read_image_values",
    "copy_image_pixels", "read_image_labels", "unpack_batch",     "gather_samples"};
constexpr double kFree = 0.05;  // of the workers' time; with less, decoding delays training

constexpr std::array<const char*, kPartCount> kCauses = {
    "",
    "a worker waits for the data of its task",
    "a task is ready, but StarPU still chooses its worker, starts it, or ends another one",
    "only workers of another kind or group may run the ready tasks",
    "each submitted task waits for the result of another one",
    "the main thread does not submit tasks fast enough",
    "the main thread waits before it submits more tasks",
    "the message of another rank has not arrived",
    "the first iteration has not begun: the program still measures, connects, or reads"};

// These texts explain the losses that are parts of compute.
constexpr const char *kDecodes = "workers that compute also decode images",
                     *kDisturbed =
                         "tasks took longer than the median of their like, as when others used "
                         "the machine (omni-perf models)";

// Returns a remark on the feed for the loss of tasks that wait for others. A late feed is a part of
// that loss. It is no loss by itself that no mini-batch was decoded ahead.
std::string suspect_feed(const Summary& summary) {
  for (const CounterRow& feed : summary.memory.feed)
    if (feed.name == "feed.decoded" && feed.zero_share >= kWorthSaying)
      return fmt::format(" (in {:.0f} % of the checks no mini-batch was decoded ahead)",
                         100 * feed.zero_share);
  return "";
}

// Returns the share of time in which workers had nothing to do, and could have decoded.
double free_share(const Idle& idle) {
  double share = 0;
  for (const Part part :
       {Part::nothing_ready, Part::submission_late, Part::barrier, Part::other_nodes})
    share += idle.share[static_cast<std::size_t>(part)];
  return share;
}

double decoding_seconds(const Summary& summary) {
  double seconds = 0;
  for (const KernelRow& row : summary.kernels.rows)
    if (std::ranges::find(kDecoding, row.codelet) != kDecoding.end()) seconds += row.seconds.total;
  return seconds;
}

std::vector<Loss> losses_of(const Summary& summary, const Models& models) {
  std::vector<Loss> losses;
  for (std::size_t i = 1; i < kPartCount; ++i) {
    const double share = summary.idle.share[i];
    if (share < kWorthSaying) continue;
    losses.push_back(
        {.name = std::string(kPartNames[i]),
         .share = share,
         .text = kCauses[i] + (Part(i) == Part::nothing_ready ? suspect_feed(summary) : "")});
  }
  const auto computed = [&](const char* name, double seconds, std::string text) {
    const double share = summary.idle.share[0] * ratio(seconds, summary.kernels.compute);
    if (share >= kWorthSaying) losses.push_back({name, share, std::move(text)});
  };
  const double free = free_share(summary.idle);
  computed("decoding", decoding_seconds(summary),
           free < kFree ? fmt::format("{} (more cores would take this over)", kDecodes)
                        : fmt::format("{} (though they had nothing to do for {:.0f} % of the time)",
                                      kDecodes, 100 * free));
  computed("others", models.disturbed_seconds, kDisturbed);
  std::ranges::stable_sort(losses, std::ranges::greater(), &Loss::share);
  return losses;
}

}  // namespace

SliceSteps count_slice_steps(const Trace& trace) {
  const Dependencies dependencies(trace);
  SliceSteps steps;
  for (std::size_t i = 0; i < trace.tasks.size(); ++i) {
    const Task& task = trace.tasks[i];
    if (task.slice < 0 || task.layer < 0) continue;
    const Task* last = nullptr;
    for (const std::uint32_t before : dependencies.of(i))
      if (last == nullptr || trace.tasks[before].times.end > last->times.end)
        last = &trace.tasks[before];
    if (last == nullptr || last->slice != task.slice || last->layer < 0) continue;
    ++steps.all;
    steps.kept += last->worker == task.worker;
  }
  return steps;
}

Summary analyse_summary(const Trace& trace) {
  Summary summary;
  summary.wall = trace.wall_seconds();
  summary.tasks = trace.tasks.size();
  summary.iterations = analyse_iterations(trace);
  summary.idle = analyse_idle(trace);
  summary.kernels = analyse_kernels(trace);
  summary.memory = analyse_memory(trace);
  summary.slices = count_slice_steps(trace);
  summary.losses = losses_of(summary, analyse_models(trace));
  return summary;
}

}  // namespace omni::perf
