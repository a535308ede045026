#include "scheduling/forecast/update_forecast.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace omni {
namespace {

// These are numbers of mini-batches of each group. They are rounded up to whole meetings.
constexpr int kSettling = 10, kMeasured = 40;
// Groups that wait for the same link or server drift apart, in cycles of hundreds of mini-batches.
// So spans of time are measured until two in a row differ from the mean by less than this share of
// it.
constexpr double kSettled = 0.01;
constexpr int kMostSpans = 16;

// Groups begins the groups' mini-batches on the clock, as strategies do.
class Groups {
 public:
  Groups(VirtualClock& clock, const Meetings& meetings, std::uint64_t samples)
      : clock_(clock),
        meetings_(meetings),
        samples_(samples),
        since_(clock.placement().devices.size()) {
    begin_all();
  }

  void train(int mini_batches) {
    for (int i = 0; i < mini_batches * std::ssize(since_); ++i) update();
  }

 private:
  void update() {
    const int group = clock_.next();
    ++since_[group];
    ++updates_;
    if (meetings_.kind == Meetings::Kind::at_rest &&
        updates_ == meetings_.every * std::ssize(since_)) {
      clock_.give_up();
      clock_.meet();
      begin_all();
    } else if (meetings_.kind != Meetings::Kind::together || since_[group] < meetings_.every) {
      begin(group);
    } else if (std::ranges::min(since_) == meetings_.every) {
      begin_all();
    }
  }

  void begin_all() {
    updates_ = 0;
    std::ranges::fill(since_, 0);
    for (int group = 0; group < std::ssize(since_); ++group) begin(group);
  }

  void begin(int group) {
    const bool contributes = since_[group] + 1 == meetings_.every;
    clock_.begin(group, samples_,
                 meetings_.kind == Meetings::Kind::none                      ? Sends::update
                 : meetings_.kind == Meetings::Kind::together && contributes ? Sends::contribution
                                                                             : Sends::nothing);
  }

  VirtualClock& clock_;
  Meetings meetings_;
  std::uint64_t samples_;
  std::vector<int> since_;  // mini-batches since the last meeting, by group
  int updates_ = 0;         // of all groups, since then
};

}  // namespace

UpdateForecast forecast_updates(VirtualClock& clock, const Meetings& meetings,
                                std::uint64_t samples) {
  const auto whole = [&](int mini_batches) {
    return (mini_batches + meetings.every - 1) / meetings.every * meetings.every;
  };
  Groups groups(clock, meetings, samples);
  groups.train(whole(kSettling));
  const double start = clock.now();
  const VirtualClock::Busy before = clock.busy();
  int spans = 0;
  for (int settled = 0; settled < 2 && spans < kMostSpans; ++spans) {
    const double began = clock.now();
    groups.train(whole(kMeasured));
    const double mean = (clock.now() - start) / (spans + 1);
    settled =
        spans > 0 && std::abs(clock.now() - began - mean) <= kSettled * mean ? settled + 1 : 0;
  }
  const double elapsed = clock.now() - start;
  const VirtualClock::Busy after = clock.busy();
  const auto [busy, name] = std::max({std::pair(after.devices - before.devices, "computing"),
                                      std::pair(after.links - before.links, "a link"),
                                      std::pair(after.server - before.server, "merged layers")});
  const auto updates =
      static_cast<double>(spans * whole(kMeasured) * std::ssize(clock.placement().devices));
  return {.seconds = elapsed / updates, .busiest = name, .share = busy / elapsed};
}

}  // namespace omni
