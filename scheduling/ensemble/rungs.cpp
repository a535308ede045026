#include "scheduling/ensemble/rungs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "runtime/rng.hpp"

namespace omni {
namespace {

constexpr std::size_t kLeastOthers = 3;  // of whom the median rule takes the median
constexpr double kSlower = 0.8, kFaster = 1.25;

constexpr const char* kRuleNames[] = {"asha", "median"};

Error refuse_losses(int member, std::string what) {
  return {ErrorKind::failed, fmt::format("member {}", member), std::move(what),
          "compare members on the same images"};
}

Error impossible_rungs() {
  return {ErrorKind::data, "--resume", "the checkpoint has impossible numbers of the sweep",
          "use another checkpoint"};
}

// Reads a list of losses. Returns false if the value of `key` is no such list.
bool read_losses(const nlohmann::json& from, const char* key, std::vector<float>& losses) {
  const auto list = from.find(key);
  if (list == from.end() || !list->is_array()) return false;
  for (const nlohmann::json& each : *list)
    if (!each.is_number() && !each.is_null()) return false;
  losses = losses_of(*list);
  return true;
}

template <class Number>
bool read_number(const nlohmann::json& from, const char* key, Number& number) {
  if (!from.is_object()) return false;
  const auto found = from.find(key);
  if (found == from.end() || !found->is_number_unsigned()) return false;
  const auto value = found->get<std::uint64_t>();
  number = static_cast<Number>(value);
  return value <= static_cast<std::uint64_t>(std::numeric_limits<Number>::max());
}

}  // namespace

double mean_loss(std::span<const float> losses) {
  double sum = 0;
  for (const float loss : losses) sum += loss;
  return std::isfinite(sum) ? sum / static_cast<double>(losses.size()) : INFINITY;
}

nlohmann::json losses_json(std::span<const float> losses) {
  nlohmann::json list = nlohmann::json::array();
  for (const float loss : losses)
    list.push_back(std::isfinite(loss) ? nlohmann::json(loss) : nlohmann::json());
  return list;
}

std::vector<float> losses_of(const nlohmann::json& list) {
  std::vector<float> losses;
  for (const nlohmann::json& each : list)
    losses.push_back(each.is_null() ? NAN : each.get<float>());
  return losses;
}

LossExcess loss_excess(std::span<const float> losses, std::span<const float> others) {
  const double mine = mean_loss(losses), theirs = mean_loss(others);
  LossExcess excess{.images = losses.size()};
  if (std::isinf(mine) || std::isinf(theirs)) {
    if (mine != theirs) excess.mean = mine - theirs;
    return excess;
  }
  excess.mean = mine - theirs;
  double squares = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const double away = double{losses[i]} - others[i] - excess.mean;
    squares += away * away;
  }
  const double images = static_cast<double>(losses.size());
  excess.error = images > 1 ? std::sqrt(squares / (images - 1) / images) : INFINITY;
  return excess;
}

// A normal variable exceeds z with a probability below exp(-z^2 / 2). For the largest of n
// variables the same bound holds if 2 ln n is added to z^2. With few images the standard error is
// uncertain. So Student's distribution is used, after Wallace 1959.
bool LossExcess::is_sure(double errors, std::size_t comparisons) const {
  if (std::isinf(mean)) return mean > 0;
  if (images < 2) return false;
  const double square =
      errors * errors + 2 * std::log(static_cast<double>(std::max<std::size_t>(comparisons, 1)));
  const double freedom = static_cast<double>(images - 1);
  const double factor = (8 * freedom + 3) / (8 * freedom + 1);
  return mean > error * std::sqrt(freedom * std::expm1(square * factor * factor / freedom)) &&
         mean > 0;
}

Result<Rungs> Rungs::make(const RungOptions& options) {
  if (options.first < 1)
    return Error{ErrorKind::usage, "--stop", "the first rung is at iteration 0", "1 or later"};
  if (options.eta < 2)
    return Error{ErrorKind::usage, "--stop",
                 fmt::format("the best 1 / {} of all members are to go on", options.eta),
                 "1 / 2 or less"};
  if (!(options.errors >= 0 && std::isfinite(options.errors)))
    return Error{ErrorKind::usage, "--stop",
                 fmt::format("{} standard errors are no measure", options.errors), "2, say"};
  return Rungs(options);
}

std::uint64_t Rungs::next(std::uint64_t iteration) const {
  const std::uint64_t factor = options_.eta;
  if (options_.rule == StopRule::median) {
    const std::uint64_t rungs = iteration / options_.first + 1;
    return rungs > UINT64_MAX / options_.first ? UINT64_MAX : rungs * options_.first;
  }
  std::uint64_t rung = options_.first;
  while (rung <= iteration && rung < UINT64_MAX)
    rung = rung > UINT64_MAX / factor ? UINT64_MAX : rung * factor;
  return rung;
}

bool Rungs::has_reached(int member, std::uint64_t iteration) const {
  const auto rung = rungs_.find(iteration);
  return rung != rungs_.end() &&
         std::ranges::find(rung->second, member, &Entry::member) != rung->second.end();
}

Status Rungs::reach(int member, std::uint64_t iteration, std::vector<float> losses) {
  if (losses.empty()) return refuse_losses(member, "has no losses");
  if (iteration == 0 || next(iteration - 1) != iteration)
    return refuse_losses(member, fmt::format("iteration {} is no rung", iteration));
  Entry entry{.member = member};
  if (const auto rung = rungs_.find(iteration);
      rung != rungs_.end() && rung->second.front().losses.size() != losses.size())
    return refuse_losses(member,
                         fmt::format("has {} losses at iteration {}, others have {}", losses.size(),
                                     iteration, rung->second.front().losses.size()));
  const Entry* before = nullptr;
  for (const auto& [at, rung] : rungs_) {
    const auto own = std::ranges::find(rung, member, &Entry::member);
    if (own == rung.end()) continue;
    if (at >= iteration)
      return refuse_losses(member, fmt::format("has been at iteration {} before", at));
    before = &*own;
  }
  entry.mean = mean_loss(losses);
  entry.losses = std::move(losses);
  if (options_.rule == StopRule::median) {
    entry.running = entry.losses;
    if (before != nullptr) {
      if (before->losses.size() != entry.losses.size())
        return refuse_losses(member, "had another number of losses before");
      entry.reports = before->reports + 1;
      for (std::size_t i = 0; i < entry.running.size(); ++i)
        entry.running[i] = before->running[i] + (entry.losses[i] - before->running[i]) /
                                                    static_cast<float>(entry.reports);
      if (before->mean < entry.mean) {
        entry.mean = before->mean;
        entry.losses = before->losses;
      }
    }
    entry.running_mean = mean_loss(entry.running);
  }
  rungs_[iteration].push_back(std::move(entry));
  return {};
}

// Judges a member at this rung. Returns false if too few members have reached the rung.
bool Rungs::judge(const Rung& rung, RungVerdict& verdict) const {
  const Entry& own = *std::ranges::find(rung, verdict.member, &Entry::member);
  const bool median = options_.rule == StopRule::median;
  const std::size_t least = median ? kLeastOthers + 1 : static_cast<std::size_t>(options_.eta);
  if (rung.size() < least) return false;
  const auto place = [](const Entry& entry) { return std::pair(entry.mean, entry.member); };
  const auto running = [](const Entry& entry) {
    return std::pair(entry.running_mean, entry.member);
  };
  std::vector<const Entry*> order;
  for (const Entry& each : rung)
    if (!median || each.member != own.member) order.push_back(&each);
  std::ranges::sort(order, [&](const Entry* a, const Entry* b) {
    return median ? running(*a) < running(*b) : place(*a) < place(*b);
  });
  verdict.reached = rung.size();
  verdict.better =
      std::ranges::count_if(rung, [&](const Entry& each) { return place(each) < place(own); });
  // The rival is the member with which others are compared. By halving it is the last of the best
  // members. By the median rule it is the middle one, or the worse of two in the middle.
  const std::size_t last = median ? order.size() / 2 : rung.size() / options_.eta - 1;
  const Entry& rival = *order[last];
  const bool among = median ? own.mean <= rival.running_mean : verdict.better <= last;
  if (among) return true;
  verdict.rival = rival.member;
  verdict.worse = loss_excess(own.losses, median ? rival.running : rival.losses);
  verdict.stops = verdict.worse.is_sure(options_.errors, rung.size());
  return true;
}

std::vector<RungVerdict> Rungs::verdicts() const {
  std::set<int> members;
  for (const auto& [iteration, rung] : rungs_)
    for (const Entry& each : rung)
      if (!left_.contains(each.member)) members.insert(each.member);
  std::vector<RungVerdict> verdicts;
  for (const int member : members) {
    RungVerdict verdict{.member = member};
    for (auto rung = rungs_.rbegin(); rung != rungs_.rend(); ++rung) {
      if (std::ranges::find(rung->second, member, &Entry::member) == rung->second.end()) continue;
      if (!judge(rung->second, verdict)) continue;
      verdict.iteration = rung->first;
      break;
    }
    verdicts.push_back(verdict);
  }
  return verdicts;
}

nlohmann::json Rungs::to_json() const {
  nlohmann::json rungs = nlohmann::json::array();
  for (const auto& [iteration, rung] : rungs_)
    for (const Entry& each : rung)
      rungs.push_back({{"iteration", iteration},
                       {"member", static_cast<std::uint64_t>(each.member)},
                       {"reports", each.reports},
                       {"losses", losses_json(each.losses)},
                       {"running", losses_json(each.running)}});
  return {{"rule", kRuleNames[static_cast<int>(options_.rule)]},
          {"first", options_.first},
          {"eta", static_cast<std::uint64_t>(options_.eta)},
          {"reached", rungs},
          {"left", left_}};
}

Result<Rungs> Rungs::from_json(const nlohmann::json& json, const RungOptions& options) {
  OMNI_TRY(Rungs rungs, make(options));
  std::uint64_t& first = rungs.options_.first;
  int eta = 0;
  if (!read_number(json, "first", first) || first == 0 || !read_number(json, "eta", eta) ||
      !json.contains("rule") || !json.contains("reached") || !json["reached"].is_array() ||
      !json.contains("left") || !json["left"].is_array())
    return impossible_rungs();
  if (json["rule"] != kRuleNames[static_cast<int>(options.rule)] || eta != options.eta ||
      (first != options.first && !options.keeps_first))
    return Error{ErrorKind::data, "--resume", "the checkpoint is of a sweep with another --stop",
                 "give the same one, or begin anew"};
  const bool median = options.rule == StopRule::median;
  for (const nlohmann::json& each : json["reached"]) {
    std::uint64_t iteration = 0;
    Entry entry;
    if (!read_number(each, "iteration", iteration) || !read_number(each, "member", entry.member) ||
        !read_number(each, "reports", entry.reports) || entry.reports == 0 ||
        !read_losses(each, "losses", entry.losses) || !read_losses(each, "running", entry.running))
      return impossible_rungs();
    Rung& rung = rungs.rungs_[iteration];
    if (iteration == 0 || rungs.next(iteration - 1) != iteration || entry.losses.empty() ||
        entry.running.size() != (median ? entry.losses.size() : 0) ||
        (!rung.empty() && rung.front().losses.size() != entry.losses.size()) ||
        std::ranges::find(rung, entry.member, &Entry::member) != rung.end())
      return impossible_rungs();
    entry.mean = mean_loss(entry.losses);
    if (median) entry.running_mean = mean_loss(entry.running);
    rung.push_back(std::move(entry));
  }
  for (const nlohmann::json& each : json["left"]) {
    if (!each.is_number_integer()) return impossible_rungs();
    rungs.left_.insert(each.get<int>());
  }
  return rungs;
}

Result<std::vector<Takeover>> tournament(std::vector<Contestant> members, std::uint64_t seed,
                                         std::uint64_t round, double errors) {
  std::ranges::sort(members, {}, &Contestant::member);
  for (const Contestant& each : members)
    if (each.losses.empty() || each.losses.size() != members.front().losses.size())
      return refuse_losses(each.member,
                           fmt::format("has {} losses, others have {}", each.losses.size(),
                                       members.front().losses.size()));
  const Philox philox(seed, RandomStream::tournament);
  Draws order(philox, round << 32);
  for (std::size_t left = members.size(); left > 1; --left)
    std::swap(members[left - 1], members[order.below(static_cast<std::uint32_t>(left))]);
  std::vector<Takeover> takeovers;
  const std::size_t pairs = members.size() / 2;
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    const Contestant *winner = &members[2 * pair], *loser = &members[2 * pair + 1];
    if (mean_loss(winner->losses) > mean_loss(loser->losses)) std::swap(winner, loser);
    const LossExcess worse = loss_excess(loser->losses, winner->losses);
    if (!worse.is_sure(errors, pairs)) continue;
    Draws own(philox, (round << 32) + static_cast<std::uint32_t>(loser->member) + 1);
    takeovers.push_back(
        {winner->member, loser->member, own.below(2) == 0 ? kSlower : kFaster, worse});
  }
  std::ranges::sort(takeovers, {}, &Takeover::loser);
  return takeovers;
}

}  // namespace omni
