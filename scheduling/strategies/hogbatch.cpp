#include "scheduling/strategies/hogbatch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/number_in.hpp"
#include "runtime/shown_name.hpp"

namespace omni {

std::uint64_t BatchRule::next(std::uint64_t batch, double own, double least, double most,
                              const GroupBatch& bounds, std::uint64_t unit) const {
  const auto now = static_cast<double>(batch), one = static_cast<double>(unit);
  // Sizes change in whole units, and by at least one unit.
  const double step = factor > 1 ? one : 0;
  double wanted = now;
  if (own < least)
    wanted = std::max(std::min(now / factor, now - step), static_cast<double>(bounds.least));
  else if (own > most)
    wanted = std::min(std::max(now * factor, now + step), static_cast<double>(bounds.most));
  const auto units = static_cast<std::uint64_t>(wanted / one);
  return std::max<std::uint64_t>(1, units) * unit;
}

Hogbatch::Hogbatch(ComputeGroups& groups, const SolverOptions& solver, bool in_order,
                   std::vector<GroupBatch> batches, double rate_power,
                   std::optional<BatchRule> rule)
    : Async(groups, solver, Asynchrony::free, Momentum()),
      one_after_another_(in_order),
      rate_power_(rate_power),
      rule_(rule) {
  for (int group = 0; group < groups.count(); ++group) {
    const GroupBatch& own = batches[group % batches.size()];
    auto known = std::ranges::find(kinds_, own, &Kind::bounds);
    if (known == kinds_.end())
      known = kinds_.insert(kinds_.end(), {.bounds = own,
                                           .unit = groups.images_per_pass(group),
                                           .batch = static_cast<std::uint64_t>(own.start)});
    largest_ = std::max(largest_, static_cast<double>(std::max(own.start, own.most)));
    kind_of_.push_back(static_cast<std::size_t>(known - kinds_.begin()));
  }
}

std::uint64_t Hogbatch::next_batch(int group) {
  Kind& own = kind(group);
  if (rule_ && kinds_.size() > 1) {
    double least = INFINITY, most = -INFINITY;
    for (const Kind& other : kinds_)
      if (&other != &own) {
        least = std::min(least, other.updates);
        most = std::max(most, other.updates);
      }
    own.batch = rule_->next(own.batch, own.updates, least, most, own.bounds, own.unit);
  }
  return own.batch;
}

UpdateRule Hogbatch::rule(const MiniBatch& batch, float learning_rate) const {
  const double share = std::pow(static_cast<double>(batch.count) / largest_, rate_power_);
  return Async::rule(batch, learning_rate * static_cast<float>(share));
}

void Hogbatch::end(const GroupUpdate& update) {
  const Kind& smallest =
      *std::ranges::min_element(kinds_, {}, [](const Kind& kind) { return kind.bounds.start; });
  Kind& own = kind(update.batch.group);
  own.updates += rule_ && &own == &smallest ? rule_->weight : 1;
}

std::vector<StrategyFigure> Hogbatch::figures(int group) const {
  double all = 0;
  for (const Kind& any : kinds_) all += any.updates;
  const Kind& own = kind(group);
  return {{"kind", static_cast<double>(kind_of_[group])},
          {"update_share", all > 0 ? own.updates / all : 0}};
}

std::vector<double> Hogbatch::numbers() const {
  std::vector<double> all = Async::numbers();
  for (const Kind& kind : kinds_)
    all.insert(all.end(), {static_cast<double>(kind.batch), kind.updates});
  return all;
}

void Hogbatch::take(std::span<const double> numbers) {
  const std::size_t ages = numbers.size() - 2 * kinds_.size();
  Async::take(numbers.first(ages));
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    // A saved size is ignored if it does not fit the present bounds, or if sizes do not adapt.
    const auto saved = static_cast<std::uint64_t>(numbers[ages + 2 * i]);
    Kind& kind = kinds_[i];
    const bool fits = saved >= static_cast<std::uint64_t>(kind.bounds.least) &&
                      saved <= static_cast<std::uint64_t>(kind.bounds.most) &&
                      saved % kind.unit == 0;
    if (fits && rule_) kind.batch = saved;
    kind.updates = numbers[ages + 2 * i + 1];
  }
}

namespace {

constexpr DeclaredOption kGroupBatches{
    "--group-batches",
    "SAMPLES",
    "samples of each group's mini-batch, as in '3x4,64'; adaptive, with bounds: "
    "'3x4:1-16,64:16-256'",
    {OptionRange::Kind::text}};
constexpr DeclaredOption kBatchRate{
    "--batch-rate", "POWER",
    "learning rate of a mini-batch: the given one times (its size / the largest size) ^ POWER; 0: "
    "the same for all, 1: in proportion",
    number_from(0, 1)};
constexpr DeclaredOption kAdaptFactor{"--adapt-factor", "FACTOR",
                                      "factor by which mini-batches grow and shrink",
                                      number_from(1, 1024)};
constexpr DeclaredOption kAdaptWeight{
    "--adapt-weight", "WEIGHT",
    "weight of an update by the smallest mini-batch, in the balance of updates",
    number_from(1e-6, 1)};
constexpr OptionUse kUsualRate{&kBatchRate, 0.5};  // noise falls as the root of the size

std::optional<int> samples_in(std::string_view text) {
  const auto samples = number_in<int>(text);
  return samples && *samples >= 1 && *samples <= kMostImages ? samples : std::nullopt;
}

// Parses the mini-batch size of a group and its bounds, as "4" or "4:1-16".
std::optional<GroupBatch> group_batch(std::string_view text) {
  const std::size_t colon = text.find(':');
  const auto start = samples_in(text.substr(0, colon));
  if (!start) return {};
  if (colon == std::string_view::npos) return GroupBatch{*start, *start, *start};
  const std::string_view bounds = text.substr(colon + 1);
  const std::size_t dash = bounds.find('-');
  if (dash == std::string_view::npos) return {};
  const auto least = samples_in(bounds.substr(0, dash)), most = samples_in(bounds.substr(dash + 1));
  if (!least || !most || *least > *start || *start > *most) return {};
  return GroupBatch{*start, *least, *most};
}

// Parses a list like "3x4:1-16,64": three groups that begin with 4 samples and keep to 1 to 16, and
// one group with 64. Returns an entry per group. A list with one entry holds for all groups.
Result<std::vector<GroupBatch>> parse_group_batches(std::string_view text, std::size_t groups) {
  const auto refuse = [&](std::string what) {
    return Error{ErrorKind::usage, std::string(kGroupBatches.name), std::move(what),
                 fmt::format("{} in all, as in '4,64', '3x4,64' or '3x4:1-16,64:16-256'", groups)};
  };
  std::vector<GroupBatch> batches;
  for (const std::string_view item : split(text, ',')) {
    std::string_view entry = item;
    const std::size_t cross = entry.find('x');
    const auto times = cross == std::string_view::npos ? 1 : samples_in(entry.substr(0, cross));
    if (cross != std::string_view::npos) entry.remove_prefix(cross + 1);
    const auto batch = group_batch(entry);
    if (!times || !batch || *times > kMostGroups)
      return refuse(fmt::format("{} is no number of samples", shown_name(item)));
    batches.insert(batches.end(), *times, *batch);
  }
  if (batches.size() == 1) batches.resize(groups, batches.front());
  if (batches.size() != groups)
    return refuse(fmt::format("names {} groups, there are {}", batches.size(), groups));
  return batches;
}

// Returns the default mini-batch sizes by group. They are `batch`, but small on cores if other
// groups are on GPUs.
std::vector<GroupBatch> usual_batches(int batch, const std::vector<bool>& on_gpu) {
  const bool both = std::ranges::count(on_gpu, true) % std::ssize(on_gpu) != 0;
  const int small = both ? std::max(1, batch / 64) : batch;
  std::vector<GroupBatch> batches;
  for (const bool gpu : on_gpu)
    batches.push_back(gpu ? GroupBatch{batch, std::max(1, batch / 16), batch}
                          : GroupBatch{small, small, batch});
  return batches;
}

// Returns the sizes of passes and mini-batches. The size of a group's passes divides all its
// mini-batch sizes. The smallest pass must divide all others; otherwise an epoch could not end.
Result<GroupSizes> hogbatch_sizes(const StrategyOptions& options, int batch,
                                  const std::vector<bool>& on_gpu) {
  GroupSizes chosen{usual_batches(batch, on_gpu)};
  if (const OptionValue* const given = options.own.given(kGroupBatches)) {
    OMNI_TRY(chosen.batches, parse_group_batches(given->text, on_gpu.size()));
  }
  for (const GroupBatch& sizes : chosen.batches)
    chosen.images_per_pass.push_back(
        std::gcd(std::gcd(sizes.start, sizes.least), std::gcd(sizes.most, batch)));
  const int smallest = std::ranges::min(chosen.images_per_pass);
  for (const int pass : chosen.images_per_pass)
    if (pass % smallest != 0)
      return Error{ErrorKind::usage, std::string(kGroupBatches.name),
                   fmt::format("{} and {} samples are computed at once, which do not divide each "
                               "other: an epoch could not end",
                               smallest, pass),
                   "make all sizes multiples of the smallest"};
  return chosen;
}

// Makes the strategy. Mini-batch sizes adapt if `options` has the settings for it.
MakeStrategy make_hogbatch(const StrategyOptions& options) {
  std::optional<BatchRule> rule;
  if (const auto factor = options.own.number(kAdaptFactor))
    rule = {.factor = *factor, .weight = *options.own.number(kAdaptWeight)};
  return [options, rule](ComputeGroups& groups, const SolverOptions& solver) {
    return std::make_unique<Hogbatch>(groups, solver, options.in_order, options.group_batches,
                                      *options.own.number(kBatchRate), rule);
  };
}

const StrategyRegistration hogbatch(
    {.name = "hogbatch",
     .summary = "groups add their changes to one model; small mini-batches on cores, large on GPUs",
     .options = {{&kGroupBatches}, kUsualRate},
     .uses = {"--async"},
     .models = GroupModels::replicated,
     .sizes = hogbatch_sizes,
     .make = make_hogbatch});

const StrategyRegistration adaptive(
    {.name = "adaptive",
     .summary = "hogbatch whose mini-batches follow the balance of updates",
     .options = {{&kGroupBatches}, kUsualRate, {&kAdaptFactor, 2}, {&kAdaptWeight, 1}},
     .uses = {"--async"},
     .models = GroupModels::replicated,
     .sizes = [](const StrategyOptions& options, int batch,
                 const std::vector<bool>& on_gpu) -> Result<GroupSizes> {
       OMNI_TRY(GroupSizes chosen, hogbatch_sizes(options, batch, on_gpu));
       const GroupBatch& first = chosen.batches.front();
       if (std::ranges::count(chosen.batches, first) < std::ssize(chosen.batches)) return chosen;
       return Error{ErrorKind::usage, "--strategy adaptive",
                    "all groups are of one kind: there is nothing to balance",
                    "give two kinds: --group-batches '1:1-16,64:16-256', say"};
     },
     .make = make_hogbatch});

}  // namespace
}  // namespace omni
