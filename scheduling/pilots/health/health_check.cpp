#include "scheduling/pilots/health/health_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/tasks/codelet.hpp"
#include "scheduling/pilots/registry.hpp"
#include "scheduling/pilots/saved_numbers.hpp"
#include "scheduling/training/rate_policy.hpp"

namespace omni {
namespace {

constexpr const char* kLowerRate = "lower learning_rate by 10";

std::string named(const Layer& layer) {
  return fmt::format("layer {} [{}]", layer.index(), layer.type());
}

std::optional<Finding> find_same_data(const Inspection& found) {
  if (!found.data.is_same()) return {};
  return Finding{.kind = FindingKind::same_data,
                 .sure = found.data.difference == 0,
                 .where = "--data",
                 .what = fmt::format("all {} samples looked at are the same", found.samples),
                 .remedy = "check the data and their scale"};
}

std::optional<Finding> find_same_output(const Inspection& found, LossIs loss) {
  const auto first = std::ranges::find_if(found.layers, [&](const InspectedLayer& layer) {
    return loss == LossIs::at_chance ? layer.is_same() : layer.difference == 0;
  });
  if (first == found.layers.end()) return {};
  constexpr float kSaturated = 1e-3f;
  constexpr double kLargeData = 32;
  const bool zero = first->largest == 0;
  const bool saturated = std::ranges::all_of(first->first, [](float value) {
    const float size = std::abs(value);
    return size < kSaturated || std::abs(size - 1) < kSaturated;
  });
  Finding finding{.kind = FindingKind::same_output,
                  .layer = first->layer->index(),
                  .sure = first->difference == 0 && found.all_alike(),
                  .where = first->layer->where()};
  finding.what = fmt::format(
      "{} gives the same output for all {} samples looked at{}; what follows learns "
      "nothing about them",
      named(*first->layer), found.samples,
      zero        ? ", all zeros"
      : saturated ? ", saturated"
                  : "");
  if (found.data.largest > kLargeData)
    finding.remedy =
        fmt::format("scale the data, which reach {:.4g}, to 0 to 1", found.data.largest);
  else if (zero)
    finding.remedy = fmt::format("{}, or use activation=leaky", kLowerRate);
  else if (saturated)
    finding.remedy =
        fmt::format("{}, add batch_normalize=1, or begin with smaller weights", kLowerRate);
  else
    finding.remedy = "add batch_normalize=1, use activation=relu, or begin with larger weights";
  return finding;
}

// Returns norm of the change / norm of the parameters for one iteration. The layer's own multiplier
// of the learning rate is not included.
double relative_step(const InspectedLayer& layer, const Learning& learning) {
  if (layer.gradient == 0 || learning.rate == 0) return 0;
  if (layer.parameters == 0) return std::numeric_limits<double>::infinity();
  double length = layer.gradient / (1 - std::min(learning.momentum, 0.999));
  if (learning.adam) {
    const double root = std::sqrt(layer.values), per_value = layer.gradient / root;
    length = root * per_value / (per_value + learning.epsilon);
  }
  return learning.rate * length / layer.parameters;
}

// Relative steps below kSwallowed are lost in rounding. In all iterations together, a layer should
// change by the share kTooLittle of its norm. If the loss is already below chance, kTooLittleToHelp
// suffices.
constexpr double kSwallowed = 1e-9, kTooLittle = 0.01, kTooLittleToHelp = 1e-4;

std::optional<Finding> find_no_gradient(const Inspection& found, const Learning& learning,
                                        LossIs loss) {
  const double least = loss == LossIs::at_chance ? kTooLittle : kTooLittleToHelp;
  double largest = 0;
  const InspectedLayer *first = nullptr, *last = nullptr;
  const auto iterations = static_cast<double>(learning.iterations);
  for (const InspectedLayer& layer : found.layers) {
    if (!layer.learns) continue;
    const double step = relative_step(layer, learning);
    largest = std::max(largest, step);
    if (step * iterations >= least) continue;
    if (first == nullptr) first = &layer;
    last = &layer;
  }
  if (first == nullptr) return {};
  const bool gradients = std::ranges::any_of(
      found.layers, [](const InspectedLayer& layer) { return layer.gradient > 0; });
  if (gradients && largest * iterations < least)
    return Finding{.kind = FindingKind::small_steps,
                   .sure = largest < kSwallowed,
                   .where = "",
                   .what = learning.rate == 0
                               ? "the learning rate is 0: nothing is learned"
                               : fmt::format("a learning rate of {:.4g} changes no layer by 1 % in "
                                             "{} iterations",
                                             learning.rate, learning.iterations),
                   .remedy = "raise learning_rate: 0.01, say"};
  Finding finding{.kind = FindingKind::no_gradient,
                  .layer = first->layer->index(),
                  .sure = !gradients,
                  .where = first->layer->where()};
  const std::string which =
      first == last ? named(*first->layer)
                    : fmt::format("{} to {}", named(*first->layer), named(*last->layer));
  finding.what =
      first->gradient == 0
          ? fmt::format("the gradient of {} is zero: no more is learned there", which)
          : fmt::format("the gradient of {} is too small to change it by 1 % in {} iterations",
                        which, learning.iterations);
  finding.remedy =
      "add batch_normalize=1, use activation=leaky from there on, or begin with other weights";
  return finding;
}

// A net that learns nothing counts as stuck after kEpochs at the earliest. The user is warned after
// kEpochsEarly at the earliest.
constexpr std::uint64_t kEpochs = 2, kEpochsEarly = 6;

// On a GPU an inspection costs the time of many iterations. So the first inspections come later by
// this factor.
constexpr std::uint64_t kLaterOnGpus = 4;

std::optional<Finding> find_one_class(std::span<const double> shares) {
  const auto only = std::ranges::find(shares, 1.0);
  if (only == shares.end()) return {};
  return Finding{.kind = FindingKind::one_class,
                 .sure = true,
                 .where = "--data",
                 .what = fmt::format("all training samples have label {}: there is nothing to tell "
                                     "apart",
                                     only - shares.begin()),
                 .remedy = "check the labels"};
}

const PilotRegistration health_registration(
    {.name = "health", .make = [](const PilotOptions& options) -> std::unique_ptr<Pilot> {
       if (!options.health) return nullptr;
       return std::make_unique<HealthCheck>(HealthOptions{.strict = options.strict});
     }});

}  // namespace

std::optional<Finding> diagnose(const Inspection& inspection, const Learning& learning,
                                LossIs loss) {
  if (inspection.samples < 2) return {};
  if (auto finding = find_same_data(inspection)) return finding;
  if (auto finding = find_same_output(inspection, loss)) return finding;
  return loss == LossIs::low ? std::nullopt : find_no_gradient(inspection, learning, loss);
}

double loss_at_chance(const Net& net, const Dataset& data) {
  const std::optional<double> loss = chance_loss(net, class_shares(data, net));
  if (!loss) return INFINITY;
  return *loss > 0 ? *loss : std::log(net.classes());
}

Result<std::optional<Finding>> find_dead_layer(Trainer& training) {
  OMNI_TRY(const Inspection inspection, inspect(training.groups().net(), training.feed(),
                                                training.state().seed, training.state().samples));
  return inspection.samples < 2 ? std::nullopt : find_same_output(inspection, LossIs::at_chance);
}

std::vector<double> class_shares(const Dataset& data, const Net& net) {
  constexpr std::size_t kMost = 1 << 20;  // labels
  const std::size_t stride = data.size() / kMost + 1;
  std::vector<double> shares(net.classes());
  const int ignored = net.layers().back()->ignored_labels().in_loss;
  double count = 0;
  for (std::size_t i = 0; i < data.size(); i += stride) {
    const int label = data.label(i);
    if (label < 0 || label == ignored || label >= net.classes()) continue;
    ++shares[label];
    ++count;
  }
  for (double& share : shares) share /= std::max(count, 1.0);
  return shares;
}

Status HealthCheck::begin(Trainer& training, std::span<const double> saved) {
  const Net& net = training.groups().net();
  const Dataset& data = training.feed().dataset();
  const std::vector<double> shares = class_shares(data, net);
  training_ = &training;
  solver_ = training.solver();
  batch_ = net.options().batch;
  epoch_ = data.size() / batch_ + 1;
  level_.emplace(chance_loss(net, shares), epoch_);
  stuck_ = std::max(options_.stuck, kEpochs * epoch_);
  early_ = std::max({options_.early, options_.early_samples / batch_, kEpochsEarly * epoch_});
  const std::uint64_t later = gpus_compute() ? kLaterOnGpus : 1;
  next_ = later * options_.first;
  next_usual_ = later * options_.usual;
  one_class_ = find_one_class(shares);
  return saved.empty() ? Status() : take(saved);
}

// Iterations of the burn-in do not count for the early warning, as the rate is still low in them.
HealthCheck::Stuck HealthCheck::stuck() const {
  if (level_->at_chance() >= stuck_) return surely;
  const auto rising = static_cast<std::uint64_t>(solver_.burn_in);
  const std::uint64_t risen = last_.iteration - std::min(last_.iteration, rising);
  const std::uint64_t count = std::min(level_->at_chance(), risen);
  return level_->risen() == 0 && count >= early_ ? long_enough_to_warn : not_long;
}

LossIs HealthCheck::loss() const {
  constexpr double kLow = 0.2;  // of chance
  if (is_at_chance() || is_risen()) return LossIs::at_chance;
  const double known = level_->chance().value_or(0);
  return level_->recent() > kLow * known && known > 0 ? LossIs::lower : LossIs::low;
}

Advice HealthCheck::judge(const StepReport& report) {
  level_->note(report.loss);
  last_ = report;
  idle_ = has_vanished(report.learning_rate) ? idle_ + report.group_samples : 0;
  if (is_idle()) tell(idle());
  most_rate_ = std::max(most_rate_, report.learning_rate);
  if (one_class_) {
    tell(*one_class_);
    if (report.iteration >= next_) fail(*one_class_);
    return failure_ ? Advice::end : Advice::go_on;
  }
  if (!is_at_chance() && level_->risen() == 0) {
    current_.reset();
    had_finding_ = false;
  }
  if (is_risen()) {
    const Finding finding = risen();
    tell(finding);
    if (level_->risen() >= kRisenSurely) fail(finding);
  }
  seen_stuck_ = std::min(seen_stuck_, stuck());
  inspects_ = (report.iteration >= next_ && loss() == LossIs::at_chance) ||
              report.iteration >= next_usual_ || stuck() > seen_stuck_;
  return failure_ ? Advice::end : inspects_ ? Advice::rest : Advice::go_on;
}

Status HealthCheck::rested(Trainer& training) {
  if (!inspects_) return {};
  inspects_ = false;
  OMNI_CHECK(inspect_now());
  if (failure_) training.end_here();
  return {};
}

Status HealthCheck::inspect_now() {
  if (last_.iteration >= next_) next_ = 2 * last_.iteration;
  if (last_.iteration >= next_usual_) next_usual_ = 2 * last_.iteration;
  ++inspections_;
  if (is_idle()) {
    warned_.erase(FindingKind::small_steps);  // the user is warned again at every inspection
    tell(idle());
    fail(idle());
  }
  OMNI_TRY(const Inspection inspection,
           inspect(training_->groups().net(), training_->feed(), training_->state().seed,
                   training_->state().samples));
  seen_stuck_ = stuck();
  const LossIs loss = this->loss();
  std::optional<Finding> finding = diagnose(inspection, learning(), loss);
  if (!finding && stuck() != not_long) finding = at_chance();
  if (!finding) return {};
  tell(*finding);
  if (loss != LossIs::at_chance) return {};
  current_ = finding;
  if (finding->sure || stuck() == surely) fail(*finding);
  return {};
}

Status HealthCheck::end(Trainer& /*training*/) {
  if (had_finding_ && !current_) OMNI_CHECK(inspect_now());
  if (one_class_)
    fail(*one_class_);
  else if (is_risen())
    fail(risen());
  else if (current_)
    fail(*current_);
  return failure_ ? failure_->error() : Status();
}

Learning HealthCheck::learning() const {
  constexpr std::uint64_t kCount = 10000;
  const bool rises = last_.iteration < static_cast<std::uint64_t>(solver_.burn_in);
  const std::uint64_t left = last_.iterations - std::min(last_.iterations, last_.iteration);
  return {.rate = rises ? std::max(most_rate_, solver_.learning_rate) : most_rate_,
          .momentum = std::max(last_.momentum.total(), last_.momentum.explicit_part),
          .adam = !has_momentum(solver_.rule, solver_.adam),
          .epsilon = solver_.epsilon,
          .iterations = std::max(kCount, left)};
}

Finding HealthCheck::at_chance() const {
  return {
      .kind = FindingKind::at_chance,
      .where = "",
      .what = fmt::format("the loss has been {:.4g} for {} mini-batches, {:.2g} epochs; without "
                          "learning anything about samples it is {:.4g}",
                          level_->mean_at_chance(), level_->at_chance(),
                          static_cast<double>(level_->at_chance()) / static_cast<double>(epoch_),
                          *level_->chance()),
      .remedy =
          "try a tenth of learning_rate, and ten times as much; check that labels and "
          "samples belong together"};
}

Finding HealthCheck::idle() const {
  const bool meant = has_vanished(solver_.learning_rate);
  return {.kind = FindingKind::small_steps,
          .sure = true,
          .where = "",
          .what = "the learning rate is 0: nothing is learned",
          .remedy = meant ? "raise learning_rate: 0.01, say"
                          : "policy and its values made it so; stop the training, or change them"};
}

Finding HealthCheck::risen() const {
  return {.kind = FindingKind::risen,
          .where = "",
          .what = fmt::format("the loss has risen from {:.4g} to {:.4g} and stays there",
                              level_->lowest(), level_->recent()),
          .remedy = kLowerRate};
}

void HealthCheck::tell(const Finding& finding) {
  const auto warned = warned_.find(finding.kind);
  if (warned != warned_.end() && warned->second == finding.layer) return;
  warned_[finding.kind] = finding.layer;
  training_->warn(finding.error().message());
}

std::vector<double> HealthCheck::numbers() const {
  std::vector<double> numbers = level_->numbers();
  numbers.insert(numbers.end(), {static_cast<double>(next_), static_cast<double>(next_usual_),
                                 static_cast<double>(most_rate_), static_cast<double>(seen_stuck_),
                                 static_cast<double>(idle_), current_ || had_finding_ ? 1.0 : 0.0});
  return numbers;
}

Status HealthCheck::take(std::span<const double> numbers) {
  constexpr std::size_t kOlder = 3, kOwn = 6;
  const bool is_older = numbers.size() == LossLevel::kOlder + kOlder;
  const std::size_t levels = numbers.size() - std::min(is_older ? kOlder : kOwn, numbers.size());
  SavedNumbers read(numbers.subspan(levels));
  next_ = static_cast<std::uint64_t>(read.between(1, SavedNumbers::kMostIterations));
  next_usual_ = static_cast<std::uint64_t>(read.between(1, SavedNumbers::kMostIterations));
  most_rate_ = static_cast<float>(read.between(0, SavedNumbers::kLargest));
  if (!is_older) {
    seen_stuck_ = static_cast<Stuck>(read.between(not_long, surely));
    idle_ = read.count();
    had_finding_ = read.between(0, 1) != 0;
  }
  OMNI_CHECK(read.status(name()));
  return level_->take(numbers.first(levels)) ? Status() : SavedNumbers::impossible(name());
}

}  // namespace omni
