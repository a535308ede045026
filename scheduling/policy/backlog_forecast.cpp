#include "scheduling/policy/backlog_forecast.hpp"

#include <algorithm>

namespace omni {
namespace {

constexpr double kKept = 0.9;  // of what was learnt, each time that nothing is ready

}  // namespace

void BacklogForecast::note(Sort sort, double ready_work) {
  History& history = histories_[sort];
  ++history.notes;
  history.ready += ready_work;
  history.begun += begun_;
  noted_ = true;
}

void BacklogForecast::began(Sort sort, double work) {
  begun_ += work;
  histories_[sort].until = begun_;
}

void BacklogForecast::ran_empty() {
  if (!noted_) return;
  noted_ = false;
  for (auto& [sort, history] : histories_) {
    if (history.notes == 0) continue;
    const double came = history.notes * history.until - history.begun;
    history.count = kKept * history.count + history.notes;
    history.foreseen = kKept * history.foreseen + history.ready;
    history.came = kKept * history.came + std::max(0.0, came);
    history.notes = history.ready = history.begun = 0;
  }
}

// In proportion to what is ready, but no more than usual: near the end little follows it.
double BacklogForecast::expected(Sort sort, double ready_work) const {
  const auto found = histories_.find(sort);
  if (found == histories_.end() || found->second.foreseen == 0) return ready_work;
  const History& history = found->second;
  return std::max(ready_work, std::min(history.came / history.foreseen * ready_work,
                                       history.came / history.count));
}

}  // namespace omni
