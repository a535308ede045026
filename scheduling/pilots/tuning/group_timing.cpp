// These functions of Trials time numbers of compute groups.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "scheduling/forecast/steady_seconds.hpp"
#include "scheduling/forecast/update_forecast.hpp"
#include "scheduling/pilots/of_first_rank.hpp"
#include "scheduling/pilots/tuning/trials.hpp"
#include "scheduling/training/metrics_log.hpp"

namespace omni {
namespace {

// Returns seconds per iteration, from the times when at least two parts of iterations ended. The
// first part fills the pipeline and does not count. The fastest later part counts, as other
// programs may have slowed the others.
double fastest(std::span<const double> ends, std::size_t part) {
  double least = INFINITY;
  for (std::size_t end = 2 * part; end <= ends.size(); end += part)
    least = std::min(least, (ends[end - 1] - ends[end - part - 1]) / static_cast<double>(part));
  return least;
}

// Returns the number of iterations of a part. Every group has at least one turn in a part.
std::size_t part_for(int groups) { return std::max(8, groups); }

}  // namespace

// Measures the time per iteration for increasing numbers of groups, as long as each is clearly
// faster than the last.
Status Trials::time_groups() {
  ComputeGroups& groups = training_.groups();
  OMNI_TRY(timed_, smallest_saturating(groups.most(),
                                       [this](int count) { return seconds_per_iteration(count); }));
  // The number at the start of the search is always timed, as other numbers are compared with it.
  if (std::ranges::find(timed_.timings, start_groups_, &Saturation::Timing::groups) ==
      timed_.timings.end()) {
    OMNI_TRY(const double seconds, seconds_per_iteration(start_groups_));
    timed_.timings.push_back({start_groups_, seconds});
    std::ranges::sort(timed_.timings, {}, &Saturation::Timing::groups);
  }
  std::string times;
  for (const auto& [count, seconds] : timed_.timings)
    times += fmt::format("{}{:.2f} ms with {}", times.empty() ? "" : ", ", 1e3 * seconds, count);
  training_.say(fmt::format("auto: per iteration {}: trials with up to {} compute group{}", times,
                            timed_.groups, timed_.groups == 1 ? "" : "s"));
  for (const Saturation::Timing& timing : timed_.timings)
    training_.record({{"iteration", training_.state().iteration},
                      {"timed_groups", timing.groups},
                      {"seconds_per_iteration", metrics_number(timing.seconds)},
                      {"chosen", timing.groups == timed_.groups}});
  return {};
}

// Returns the seconds per iteration; 1 if this number of groups was not timed.
double Trials::seconds_of(int groups) const {
  const auto timed = std::ranges::find(timed_.timings, groups, &Saturation::Timing::groups);
  return timed != timed_.timings.end() ? timed->seconds : 1;
}

double Trials::speedup() const {
  return timed_.timings.empty() ? 1 : seconds_of(start_groups_) / seconds_of(timed_.groups);
}

// Trains with a learning rate of 0, so that nothing diverges. With a virtual clock, the seconds are
// forecast without training. Of several ranks the first one's time counts.
Result<double> Trials::seconds_per_iteration(int groups) {
  if (const MakeClock& make_clock = training_.options().make_clock) {
    const std::unique_ptr<VirtualClock> clock = make_clock(groups);
    return forecast_updates(*clock, {}, batch()).seconds;
  }
  constexpr std::size_t kParts = 3;
  const std::size_t part = part_for(groups), count = kParts * part + drained(groups);
  Stopwatch time;
  const int before = training_.groups().count();
  OMNI_CHECK(training_.use_groups(groups));
  std::vector<double> losses(count);
  const Piece piece = train_piece(training_.state(), losses, {.compensation = Compensation::off});
  OMNI_CHECK(training_.use_groups(before));
  start_.restore(training_.groups());
  lose(piece.done, time.seconds());
  OMNI_CHECK(Status(piece.ended));
  return of_first_rank(fastest(std::span(piece.ends).first(kParts * part), part));
}

}  // namespace omni
