#include "scheduling/pilots/tuning/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "scheduling/pilots/loss_mean.hpp"

namespace omni {
namespace {

using Verdict = Comparison::Verdict;

constexpr double kCoarse = 10, kFine = 3.1622776601683795;  // factors between steps
constexpr int kFarthest = 3;   // most steps that are tried from the suggested one downwards
constexpr double kPassed = 2;  // a step of more than this many times the sweep's best is risky
// A step between 1 / kLeast and 1 / kMost of the failing step has a usual size. The likely best
// step is 1 / kLikely of the failing one.
constexpr double kMost = 3, kLeast = 1000, kLikely = 100;
constexpr int kMostCuts = 6;   // how often the step is lowered while every trial diverges
constexpr int kDoublings = 2;  // how often the length of an undecided trial is doubled at most
// A trial has at least this many times 1 / (1 - momentum) iterations.
constexpr double kMemories = 2;
constexpr double kUsual = 0.9;           // momentum
constexpr double kOtherMomentum = 0.05;  // a smaller difference of momentum is not tried
// Groups whose iterations are faster by this factor are tried before other steps, and may win ties.
constexpr double kMuchFaster = 1.5;

// with_momentum() changes the momentum and keeps the step. scaled() multiplies the step.
Setting with_momentum(Setting setting, double momentum) {
  setting.learning_rate = step_of(setting) * (1 - momentum);
  setting.momentum = momentum;
  return setting;
}

Setting scaled(Setting setting, double factor) {
  setting.learning_rate *= factor;
  return setting;
}

// Returns the largest momentum that a trial of this length can judge. A momentum averages gradients
// over 1 / (1 - momentum) iterations, and a trial must be kMemories times as long.
double longest_momentum(std::uint64_t iterations) {
  return std::max(0.0, 1 - kMemories / static_cast<double>(iterations));
}

class Race {
 public:
  Race(const Setting& given, const SearchPlan& plan, TrialRunner& runner)
      : given_(given), plan_(plan), runner_(runner), champion_(given), way_out_(given) {}

  Result<Found> run() {
    // If the trials of a cold search are too short to judge the given momentum, the search begins
    // with the same step and less momentum.
    most_ = std::min(kUsual, longest_momentum(plan_.length));
    if (plan_.cold && given_.momentum > longest_momentum(plan_.length))
      champion_ = with_momentum(given_, most_);
    if (plan_.cold) OMNI_CHECK(sweep());
    OMNI_CHECK(open());
    if (plan_.cold) OMNI_CHECK(find_magnitude());
    const std::vector<int>& more = plan_.more_groups;
    const bool groups_first = !more.empty() && is_much_faster(more.front());
    if (groups_first) OMNI_CHECK(try_groups());
    OMNI_CHECK(refine());
    OMNI_CHECK(try_momenta());
    if (!groups_first) OMNI_CHECK(try_groups());
    return Found{learns() ? champion_ : way_out_, end(), learns(), diverged_, range_.fails};
  }

 private:
  // Finds the best step and the step at which the training diverges. If a sweep from 1 / kBelow of
  // the given step diverges within kFewest iterations, another one begins at 1 / kFarBelow.
  Status sweep() {
    constexpr double kPerDecade = 10, kBelow = 10, kFarBelow = 1e5;
    constexpr std::size_t kFewest = 12;
    const std::size_t most = std::clamp<std::size_t>(4 * plan_.length, 40, 80);
    const double factor = std::pow(10, 1 / kPerDecade);
    for (const double below : {kBelow, kFarBelow}) {
      OMNI_TRY(const StepSweep sweep, runner_.sweep(step_of(given_) / below, factor, most));
      range_ = step_range(sweep, plan_.chance);
      runner_.swept(sweep, range_);
      if (!range_.fails) range_.fails = sweep.first * std::pow(factor, std::ssize(sweep.losses));
      if (sweep.losses.size() >= kFewest) break;
    }
    plan_.failing_step = *range_.fails;
    return {};
  }

  // Runs the champion's first trial. If it diverges, a smaller step replaces the champion's.
  Status open() {
    for (int cut = 0; cut <= kMostCuts; ++cut) {
      OMNI_TRY(const TrialResult first, runner_.challenge(champion_, plan_.length));
      tried_.push_back(champion_);
      if (first.end != TrialEnd::diverged || cut == kMostCuts) {
        runner_.promote();
        runner_.decided("the setting to beat");
        champions_ = {{plan_.length, first}};
        way_out_ = champion_;
        if (first.end == TrialEnd::diverged) break;
        return {};
      }
      diverged_.push_back(champion_);
      const Setting next = cut_step();
      runner_.decided(fmt::format("diverged: next, the rate {:.3g}", next.learning_rate));
      champion_ = next;
    }
    return Error{ErrorKind::diverged, "--auto",
                 fmt::format("all {} trials diverged, down to the learning rate {:.3g}",
                             tried_.size(), champion_.learning_rate),
                 "check the data, or lower --learning-rate, or add --burn-in"};
  }

  // Returns the champion with a tenth of its step, or with the suggested step if that is smaller.
  Setting cut_step() const {
    const Setting tenth = scaled(champion_, 1 / kCoarse);
    return plan_.cold && swept_step() < step_of(tenth) ? with_step(champion_, swept_step()) : tenth;
  }

  // Returns the step that the sweep suggests. If something was learned, it is half of the step with
  // the lowest loss, as the loss follows the step with a delay.
  double swept_step() const { return range_.best ? *range_.best / 2 : *range_.fails / kLikely; }

  const TrialResult& result() const { return champions_.rbegin()->second; }
  TrialEnd end() const { return result().end; }
  bool learns() const {
    return end() == TrialEnd::learns && result().loss() < kNearChance * plan_.chance;
  }

  bool is_much_faster(int groups) const {
    return runner_.seconds_of(champion_.groups) > kMuchFaster * runner_.seconds_of(groups);
  }

  bool pointless(const Setting& setting) const {
    const double slack = 0.99;  // for rounding errors
    return std::ranges::any_of(plan_.failed,
                               [&](const auto& failed) {
                                 return failed.first <= setting.groups &&
                                        step_of(setting) > slack * failed.second;
                               }) ||
           !runner_.can_afford(plan_.length) ||
           // Above the best step of the sweep, the loss of the sweep was rising again.
           (plan_.cold && range_.best && step_of(setting) > *range_.best) ||
           // If a setting diverged, larger steps with as many or more groups and no more momentum
           // would diverge as well.
           std::ranges::any_of(diverged_,
                               [&](const Setting& failed) {
                                 return failed.groups <= setting.groups &&
                                        failed.momentum >= setting.momentum &&
                                        step_of(setting) > slack * step_of(failed);
                               }) ||
           std::ranges::any_of(tried_, [&](const Setting& tried) {
             return tried.groups == setting.groups &&
                    std::abs(tried.momentum - setting.momentum) < kOtherMomentum &&
                    std::abs(std::log(step_of(tried) / step_of(setting))) < 0.01;
           });
  }

  // Compares the setting with the champion. Returns true if the setting becomes the champion.
  Result<bool> duel(const Setting& setting) {
    last_ = TrialEnd::diverged;  // stays so if the setting is not tried
    if (pointless(setting)) return false;
    tried_.push_back(setting);
    std::map<std::uint64_t, TrialResult> own;
    Comparison comparison;
    std::uint64_t length = plan_.length;
    const double edge = range_.best ? kPassed * *range_.best : plan_.failing_step / kEdge;
    const bool larger = step_of(setting) > step_of(champion_);
    const bool smaller = step_of(setting) < 0.99 * step_of(champion_);
    const double worth = smaller ? plan_.worth_smaller : kWorth;
    for (int doubling = 0;; ++doubling, length *= 2) {
      OMNI_TRY(own[length], runner_.challenge(setting, length));
      if (!champions_.contains(length)) {
        OMNI_TRY(champions_[length], runner_.defend(length));
        if (champions_[length].end == TrialEnd::diverged) diverged_.push_back(champion_);
      }
      comparison = compare(own[length], champions_[length], plan_.chance, worth);
      if (comparison.verdict != Verdict::unsure || doubling == kDoublings ||
          !runner_.can_afford(3 * length))
        break;
    }
    const bool tie = comparison.verdict == Verdict::tie || comparison.verdict == Verdict::unsure;
    // Steps above `edge` often are too large in the long run, which a trial does not show. So in a
    // cold search a champion with such a step loses ties with steps that are not larger. Below
    // `edge`, a larger step wins one tie in a search if its loss is lower. It must be larger only
    // by about kFine, and the champion must not be the given setting.
    const bool tells = tie && learns() && setting.groups == champion_.groups;
    const bool prefers = tells && comparison.gain > 0 && larger && !prefers_larger_ &&
                         !(champion_ == given_) && step_of(setting) < edge &&
                         step_of(setting) < 1.1 * kFine * step_of(champion_);
    const bool safer = plan_.cold && tells && !larger && step_of(champion_) > edge;
    // In a short trial the noise of a step may hide what more iterations gain, which pays later. So
    // much faster groups win a tie, unless the loss is higher by more than its standard error.
    const bool faster = tie && learns() && !smaller && is_much_faster(setting.groups) &&
                        comparison.gain >= -comparison.error;
    const bool wins = comparison.verdict == Verdict::better || prefers || safer || faster;
    prefers_larger_ = prefers_larger_ || prefers;
    last_ = own[length].end;
    if (last_ == TrialEnd::diverged) diverged_.push_back(setting);
    runner_.decided(why(comparison, wins, setting));
    if (!wins) return false;
    runner_.promote();
    champion_ = setting;
    champions_ = std::move(own);
    return true;
  }

  std::string why(const Comparison& comparison, bool wins, const Setting& setting) const {
    const std::string numbers = comparison.text();
    const std::string than =
        fmt::format("than {}", setting.groups == champion_.groups
                                   ? fmt::format("momentum {:.3g}, rate {:.3g}", champion_.momentum,
                                                 champion_.learning_rate)
                                   : describe(champion_));
    if (numbers.empty()) return wins ? "it learns more surely " + than : "no better " + than;
    const bool smaller = step_of(setting) < 0.99 * step_of(champion_);
    const std::string sure =
        fmt::format("more than {:.0f} % and {} standard errors",
                    100 * (wins && smaller ? plan_.worth_smaller : kWorth), kSureErrors);
    const std::string rule =
        comparison.verdict == Verdict::better || comparison.verdict == Verdict::worse ? sure
        : comparison.gain > kSureErrors * comparison.error && !wins ? "not by enough: the older one"
        : wins && is_much_faster(setting.groups)        ? "no sure difference: the faster groups"
        : wins && step_of(setting) < step_of(champion_) ? "no sure difference: the safer step"
        : wins                                          ? "no sure difference: the larger step"
                                                        : "no sure difference: the older one";
    return fmt::format("loss {} {} ({})", numbers, than, rule);
  }

  // Multiplies the champion's step by `factor` as long as the new step wins. Returns true if a new
  // step won.
  Result<bool> climb(double factor) {
    bool any = false;
    while (true) {
      OMNI_TRY(const bool won, duel(scaled(champion_, factor)));
      if (!won) return any;
      any = true;
    }
  }

  // Compares the champion's step with the step that the sweep suggests. While that one diverges,
  // smaller steps follow.
  Status find_magnitude() {
    if (!range_.best) return leave_chance(*range_.fails);
    const double factor = swept_step() / step_of(champion_);
    if (factor > 0.5 && factor < 2) return {};
    // A step that did not diverge in the sweep may diverge with less momentum than the sweep had.
    // So a smaller momentum is raised.
    Setting swept =
        champion_.momentum < kSweepMomentum ? with_momentum(champion_, most_) : champion_;
    swept = with_step(swept, swept_step());
    last_ = TrialEnd::diverged;
    for (int cut = 0; cut < kFarthest && last_ == TrialEnd::diverged; ++cut) {
      OMNI_CHECK(duel(swept));
      swept = scaled(swept, 1 / kFine);
    }
    return {};
  }

  // Nothing was learned in the sweep, so trials of this length only show which steps are too large.
  // If the champion's step has a usual size and does no harm, it is kept. Otherwise the training
  // goes on with the suggested step, or with the largest smaller one that does no harm.
  Status leave_chance(double fails) {
    const double step = step_of(champion_);
    // With small steps the loss stays above chance, as it is at first. Such a loss shows no harm.
    const bool harms = end() < TrialEnd::above_chance ||
                       (end() == TrialEnd::above_chance && step > fails / kLeast);
    if (!harms && step < fails / kMost && step > fails / kLeast) return {};
    Setting next =
        with_step(champion_, harms ? std::min(swept_step(), step / kCoarse) : swept_step());
    last_ = TrialEnd::diverged;
    for (int cut = 0; cut < kFarthest && last_ < TrialEnd::above_chance; ++cut) {
      OMNI_CHECK(duel(next));
      if (last_ >= TrialEnd::above_chance) way_out_ = next;
      next = scaled(next, 1 / kFine);
    }
    return {};
  }

  Status refine() {
    if (!learns()) return {};
    // Later in a training the best step is rarely larger than the current one, so smaller steps are
    // tried first.
    const double first = plan_.cold ? kFine : 1 / kFine;
    OMNI_TRY(const bool any, climb(first));
    if (!any) OMNI_CHECK(climb(1 / first));
    return {};
  }

  Status try_momenta() {
    if (!learns()) return {};
    for (const double momentum : {most_, 0.0, given_.momentum}) {
      if (momentum > longest_momentum(plan_.length)) continue;
      const Setting same_step = with_momentum(champion_, momentum);
      const bool more = momentum > champion_.momentum + kOtherMomentum;
      OMNI_TRY(bool won, duel(same_step));
      // With more momentum larger steps are stable, so they are tried next.
      if (!won && more) {
        OMNI_TRY(won, duel(scaled(same_step, kFine)));
      }
      if (won) OMNI_CHECK(climb(kFine));
    }
    return {};
  }

  Status try_groups() {
    if (!learns()) return {};
    // More groups mean staler gradients, with which only smaller steps are stable. The largest
    // number of groups that wins becomes the champion; then smaller numbers are compared with it.
    // Once the champion has more groups than the given setting, much slower numbers are not tried.
    for (const int groups : plan_.more_groups) {
      const double slower = runner_.seconds_of(groups) / runner_.seconds_of(champion_.groups);
      if (given_.groups < champion_.groups && slower > kMuchFaster) break;
      Setting more = champion_;
      more.groups = groups;
      bool won = false;
      for (const double factor : {1.0, 1 / kFine, 1 / kCoarse}) {
        // Gradients of fewer groups are less stale. They need no smaller step if this one learns.
        if (won || (factor < 1 && groups < champion_.groups && last_ == TrialEnd::learns)) break;
        OMNI_TRY(won, duel(scaled(more, factor)));
      }
    }
    return {};
  }

  Setting given_;
  SearchPlan plan_;
  double most_ = 0;  // the usual momentum, or the largest that trials can judge if that is lower
  StepRange range_;  // `fails` is known after the sweep
  TrialRunner& runner_;
  Setting champion_, way_out_;  // way_out_ is found if the champion learns nothing
  std::map<std::uint64_t, TrialResult> champions_;  // results of the champion, by iterations
  std::vector<Setting> tried_;
  TrialEnd last_ = TrialEnd::diverged;  // of the last challenger
  std::vector<Setting> diverged_;
  bool prefers_larger_ = false;  // a larger step has won a tie, which may happen only once
};

}  // namespace

std::string describe(const Setting& setting) {
  return fmt::format("{} group{}, momentum {:.3g}, rate {:.3g}", setting.groups,
                     setting.groups == 1 ? "" : "s", setting.momentum, setting.learning_rate);
}

double step_of(const Setting& setting) { return setting.learning_rate / (1 - setting.momentum); }

Setting with_step(Setting setting, double step) {
  setting.learning_rate = step * (1 - setting.momentum);
  return setting;
}

Result<Found> search(const Setting& given, const SearchPlan& plan, TrialRunner& runner) {
  return Race(given, plan, runner).run();
}

}  // namespace omni
