#include "scheduling/pilots/tuning/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "scheduling/pilots/loss_mean.hpp"
#include "scheduling/pilots/loss_watch.hpp"

namespace omni {

double TrialResult::loss() const { return mean_of(losses).mean; }

double TrialResult::error() const { return mean_of(losses).error(); }

std::string TrialResult::text() const {
  const LossMean mean = mean_of(losses);
  switch (end) {
    case TrialEnd::diverged: return "diverged";
    case TrialEnd::dead:
      return fmt::format("loss {:.4g}, the same outputs for all images", mean.mean);
    case TrialEnd::above_chance: return fmt::format("loss {:.4g}, above chance", mean.mean);
    case TrialEnd::at_chance: return fmt::format("loss {:.4g}, at chance", mean.mean);
    case TrialEnd::behind: return "given up, far behind";
    case TrialEnd::learns: return fmt::format("loss {:.4g} +- {:.2g}", mean.mean, mean.error());
  }
  return "";
}

Comparison compare(const TrialResult& challenger, const TrialResult& champion, double chance,
                   double share) {
  using Verdict = Comparison::Verdict;
  const auto fails = [](const TrialResult& trial) { return trial.end <= TrialEnd::above_chance; };
  const auto near = [&](const TrialResult& trial) {
    return trial.end == TrialEnd::at_chance || !(trial.loss() < kNearChance * chance);
  };
  if (challenger.end == TrialEnd::behind) return {Verdict::worse};
  if (fails(challenger) || fails(champion)) {
    if (challenger.end == champion.end) return {Verdict::tie};
    return {challenger.end > champion.end ? Verdict::better : Verdict::worse};
  }
  if (near(challenger) && near(champion)) return {Verdict::tie};
  std::vector<double> gains(std::min(challenger.losses.size(), champion.losses.size()));
  for (std::size_t i = 0; i < gains.size(); ++i)
    gains[i] = champion.losses[i] - challenger.losses[i];
  const LossMean gain = mean_of(gains);
  const double worth = share * champion.loss(), error = gain.error(),
               sure = std::max(worth, kSureErrors * error),
               least = std::max(kWorth * champion.loss(), kSureErrors * error);
  return {gain.mean > sure                         ? Verdict::better
          : gain.mean > std::max(worth / 2, error) ? Verdict::unsure
          : gain.mean > -least                     ? Verdict::tie
                                                   : Verdict::worse,
          gain.mean, error};
}

std::string Comparison::text() const {
  if (gain == 0 && error == 0) return "";
  return fmt::format("{:.3g} +- {:.2g} {}", std::abs(gain), error, gain >= 0 ? "lower" : "higher");
}

}  // namespace omni
