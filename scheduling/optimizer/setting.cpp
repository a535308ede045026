#include "scheduling/optimizer/setting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scheduling/health/loss_mean.hpp"

namespace omni {
namespace {

// A difference counts when it is this share of the loss and so many standard errors.
constexpr double kWorth = 0.02, kErrors = 2.5;

}  // namespace

std::string describe(const Setting& setting) {
  return fmt::format("{} group{}, momentum {:.3g}, rate {:.3g}", setting.groups,
                     setting.groups == 1 ? "" : "s", setting.momentum, setting.learning_rate);
}

double step_of(const Setting& setting) { return setting.learning_rate / (1 - setting.momentum); }

Setting with_momentum(Setting setting, double momentum) {
  setting.learning_rate = step_of(setting) * (1 - momentum);
  setting.momentum = momentum;
  return setting;
}

Setting scaled(Setting setting, double factor) {
  setting.learning_rate *= factor;
  return setting;
}

double Showing::loss() const { return mean_of(losses).mean; }

double Showing::error() const { return mean_of(losses).error(); }

std::string Showing::said() const {
  const LossMean mean = mean_of(losses);
  switch (fate) {
    case Fate::diverged: return "diverged";
    case Fate::dead: return fmt::format("loss {:.4g}, the same outputs for all images", mean.mean);
    case Fate::at_chance: return fmt::format("loss {:.4g}, at chance", mean.mean);
    case Fate::behind: return "given up, far behind";
    case Fate::learns: return fmt::format("loss {:.4g} +- {:.2g}", mean.mean, mean.error());
  }
  return "";
}

Comparison compare(const Showing& challenger, const Showing& champion) {
  using Verdict = Comparison::Verdict;
  if (challenger.fate != champion.fate || challenger.fate != Fate::learns) {
    const auto rank = [](Fate fate) { return static_cast<int>(fate); };
    if (challenger.fate == Fate::behind) return {Verdict::worse};
    return {rank(challenger.fate) > rank(champion.fate)   ? Verdict::better
            : rank(challenger.fate) < rank(champion.fate) ? Verdict::worse
                                                          : Verdict::tie};
  }
  std::vector<double> gains(std::min(challenger.losses.size(), champion.losses.size()));
  for (std::size_t i = 0; i < gains.size(); ++i)
    gains[i] = champion.losses[i] - challenger.losses[i];
  const LossMean gain = mean_of(gains);
  const double worth = kWorth * champion.loss(), error = gain.error(),
               sure = std::max(worth, kErrors * error);
  return {gain.mean > sure                         ? Verdict::better
          : gain.mean > std::max(worth / 2, error) ? Verdict::unsure
          : gain.mean > -sure                      ? Verdict::tie
                                                   : Verdict::worse,
          gain.mean, error};
}

std::string Comparison::said() const {
  if (gain == 0 && error == 0) return "";
  return fmt::format("{:.3g} +- {:.2g} {}", std::abs(gain), error, gain >= 0 ? "lower" : "higher");
}

}  // namespace omni
