#include "scheduling/pilots/health/health_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/tasks/codelet.hpp"
#include "scheduling/training/rate_policy.hpp"

namespace omni {
namespace {

constexpr const char* kLowerRate = "lower learning_rate by 10";

std::string named(const Layer& layer) {
  return fmt::format("layer {} [{}]", layer.index(), layer.type());
}

std::optional<Finding> find_same_data(const Inspection& found) {
  if (!found.data.is_same()) return {};
  return Finding{.kind = Ailment::same_data,
                 .sure = found.data.difference == 0,
                 .where = "--data",
                 .what = fmt::format("all {} samples looked at are the same", found.samples),
                 .remedy = "check the data and their scale"};
}

std::optional<Finding> find_same_output(const Inspection& found, LossIs loss) {
  const auto first = std::ranges::find_if(found.layers, [&](const InspectedLayer& each) {
    return loss == LossIs::at_chance ? each.is_same() : each.difference == 0;
  });
  if (first == found.layers.end()) return {};
  constexpr float kSaturated = 1e-3f;
  constexpr double kLargeData = 32;
  const bool zero = first->largest == 0;
  const bool saturated = std::ranges::all_of(first->first, [](float value) {
    const float size = std::abs(value);
    return size < kSaturated || std::abs(size - 1) < kSaturated;
  });
  Finding finding{.kind = Ailment::same_output,
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

// By how much an iteration changes the parameters: norm of the change / norm of the parameters,
// without the layer's own multiplier of the learning rate.
double relative_step(const InspectedLayer& layer, const Learning& learning) {
  if (layer.gradient == 0 || learning.rate == 0) return 0;
  if (layer.parameters == 0) return std::numeric_limits<double>::infinity();
  double length = layer.gradient / (1 - std::min(learning.momentum, 0.999));
  if (learning.adam) {
    const double root = std::sqrt(layer.values), each = layer.gradient / root;
    length = root * each / (each + learning.epsilon);
  }
  return learning.rate * length / layer.parameters;
}

// Steps that rounding swallows; and steps that change parameters too little to matter.
constexpr double kSwallowed = 1e-9, kTooLittle = 0.01, kTooLittleToHelp = 1e-4;

std::optional<Finding> find_no_gradient(const Inspection& found, const Learning& learning,
                                        LossIs loss) {
  const double least = loss == LossIs::at_chance ? kTooLittle : kTooLittleToHelp;
  double largest = 0;
  const InspectedLayer *first = nullptr, *last = nullptr;
  const auto iterations = static_cast<double>(learning.iterations);
  for (const InspectedLayer& each : found.layers) {
    if (!each.learns) continue;
    const double step = relative_step(each, learning);
    largest = std::max(largest, step);
    if (step * iterations >= least) continue;
    if (first == nullptr) first = &each;
    last = &each;
  }
  if (first == nullptr) return {};
  const bool gradients = std::ranges::any_of(
      found.layers, [](const InspectedLayer& each) { return each.gradient > 0; });
  if (gradients && largest * iterations < least)
    return Finding{.kind = Ailment::small_steps,
                   .sure = largest < kSwallowed,
                   .where = "",
                   .what = learning.rate == 0
                               ? "the learning rate is 0: nothing is learned"
                               : fmt::format("a learning rate of {:.4g} changes no layer by 1 % in "
                                             "{} iterations",
                                             learning.rate, learning.iterations),
                   .remedy = "raise learning_rate: 0.01, say"};
  Finding finding{.kind = Ailment::no_gradient,
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

// Without anything learned, until a net is stuck, and until the user is told.
constexpr std::uint64_t kEpochs = 2, kEpochsEarly = 6;

// On a GPU many iterations take as long as to fetch what is looked at.
constexpr std::uint64_t kLaterOnGpus = 4;

std::optional<Finding> find_one_class(std::span<const double> shares) {
  const auto only = std::ranges::find(shares, 1.0);
  if (only == shares.end()) return {};
  return Finding{.kind = Ailment::one_class,
                 .sure = true,
                 .where = "--data",
                 .what = fmt::format("all training samples have label {}: there is nothing to tell "
                                     "apart",
                                     only - shares.begin()),
                 .remedy = "check the labels"};
}

}  // namespace

std::optional<Finding> diagnose(const Inspection& inspection, const Learning& learning,
                                LossIs loss) {
  if (inspection.samples < 2) return {};
  if (auto finding = find_same_data(inspection)) return finding;
  if (auto finding = find_same_output(inspection, loss)) return finding;
  return loss == LossIs::low ? std::nullopt : find_no_gradient(inspection, learning, loss);
}

std::vector<double> class_shares(const Dataset& data, int classes) {
  constexpr std::size_t kMost = 1 << 20;  // labels
  const std::size_t stride = data.size() / kMost + 1;
  std::vector<double> shares(classes);
  double count = 0;
  for (std::size_t i = 0; i < data.size(); i += stride) {
    const std::size_t label = data.label(i);
    if (label < shares.size()) ++shares[label];
    ++count;
  }
  for (double& share : shares) share /= count;
  return shares;
}

HealthCheck::HealthCheck(const Net& net, const Dataset& data, HealthOptions options)
    : options_(std::move(options)),
      solver_(options_.solver),
      epoch_(data.size() / net.options().batch + 1),
      level_(chance_loss(net, class_shares(data, net.classes())), epoch_),
      stuck_(std::max(options_.stuck, kEpochs * epoch_)),
      early_(std::max(
          {options_.early, options_.early_samples / net.options().batch, kEpochsEarly * epoch_})),
      next_(options_.first),
      next_usual_(options_.usual),
      one_class_(find_one_class(class_shares(data, net.classes()))),
      batch_(net.options().batch) {
  if (!gpus_compute()) return;
  next_ *= kLaterOnGpus;
  next_usual_ *= kLaterOnGpus;
}

// Small data sets have few mini-batches in an epoch. While the rate rises, little is learned.
HealthCheck::Stuck HealthCheck::stuck() const {
  if (level_.at_chance() >= stuck_) return surely;
  const auto rising = static_cast<std::uint64_t>(solver_.burn_in);
  const std::uint64_t risen = last_.iteration - std::min(last_.iteration, rising);
  const std::uint64_t count = std::min(level_.at_chance(), risen);
  return level_.risen() == 0 && count >= early_ ? told_early : not_long;
}

LossIs HealthCheck::loss() const {
  constexpr double kLow = 0.2;  // of chance
  if (is_at_chance() || is_risen()) return LossIs::at_chance;
  const double known = level_.chance().value_or(0);
  return level_.recent() > kLow * known && known > 0 ? LossIs::lower : LossIs::low;
}

bool HealthCheck::note(const StepReport& report) {
  level_.note(report.loss);
  last_ = report;
  idle_ = has_vanished(report.learning_rate) ? idle_ + report.group_samples : 0;
  if (is_idle()) tell(idle());
  most_rate_ = std::max(most_rate_, report.learning_rate);
  if (one_class_) {
    tell(*one_class_);
    if (report.iteration >= next_) fail(*one_class_);
    return false;
  }
  if (!is_at_chance() && level_.risen() == 0) current_.reset();
  if (is_risen()) {
    const Finding finding = risen();
    tell(finding);
    if (level_.risen() >= kRisenSurely) fail(finding);
  }
  seen_stuck_ = std::min(seen_stuck_, stuck());
  return (report.iteration >= next_ && loss() == LossIs::at_chance) ||
         report.iteration >= next_usual_ || stuck() > seen_stuck_;
}

Status HealthCheck::inspect(Net& net, DataFeed& feed, std::uint64_t seed,
                            std::uint64_t first_sample) {
  if (last_.iteration >= next_) next_ = 2 * last_.iteration;
  if (last_.iteration >= next_usual_) next_usual_ = 2 * last_.iteration;
  ++inspections_;
  if (is_idle()) {
    told_.erase(Ailment::small_steps);  // at every inspection anew
    tell(idle());
    fail(idle());
  }
  OMNI_TRY(const Inspection inspection, omni::inspect(net, feed, seed, first_sample));
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

void HealthCheck::end() {
  if (one_class_) return fail(*one_class_);
  if (is_risen()) fail(risen());
  if (current_) fail(*current_);
}

Learning HealthCheck::learning() const {
  constexpr std::uint64_t kCount = 10000;
  const bool rises = last_.iteration < static_cast<std::uint64_t>(solver_.burn_in);
  const std::uint64_t left = last_.iterations - std::min(last_.iterations, last_.iteration);
  return {.rate = rises ? std::max(most_rate_, solver_.learning_rate) : most_rate_,
          .momentum = std::max(last_.momentum.total(), last_.momentum.explicit_part),
          .adam = solver_.adam,
          .epsilon = solver_.epsilon,
          .iterations = std::max(kCount, left)};
}

Finding HealthCheck::at_chance() const {
  return {
      .kind = Ailment::at_chance,
      .where = "",
      .what = fmt::format("the loss has been {:.4g} for {} mini-batches, {:.2g} epochs; without "
                          "learning anything about samples it is {:.4g}",
                          level_.mean_at_chance(), level_.at_chance(),
                          static_cast<double>(level_.at_chance()) / static_cast<double>(epoch_),
                          *level_.chance()),
      .remedy =
          "try a tenth of learning_rate, and ten times as much; check that labels and "
          "samples belong together"};
}

Finding HealthCheck::idle() const {
  const bool meant = has_vanished(solver_.learning_rate);
  return {.kind = Ailment::small_steps,
          .sure = true,
          .where = "",
          .what = "the learning rate is 0: nothing is learned",
          .remedy = meant ? "raise learning_rate: 0.01, say"
                          : "policy and its values made it so; stop the training, or change them"};
}

Finding HealthCheck::risen() const {
  return {.kind = Ailment::risen,
          .where = "",
          .what = fmt::format("the loss has risen from {:.4g} to {:.4g} and stays there",
                              level_.lowest(), level_.recent()),
          .remedy = kLowerRate};
}

void HealthCheck::tell(const Finding& finding) {
  const auto told = told_.find(finding.kind);
  if (told != told_.end() && told->second == finding.layer) return;
  told_[finding.kind] = finding.layer;
  if (options_.warn) options_.warn(finding.error().message());
}

std::vector<double> HealthCheck::numbers() const {
  std::vector<double> numbers = level_.numbers();
  numbers.insert(numbers.end(), {static_cast<double>(next_), static_cast<double>(next_usual_),
                                 static_cast<double>(most_rate_)});
  return numbers;
}

void HealthCheck::take(std::span<const double> numbers) {
  constexpr std::size_t kOwn = 3;
  const auto fits = [](double each) { return each >= 1 && each <= 1e12; };
  if (numbers.size() < kOwn) return;
  const auto own = numbers.last(kOwn);
  if (!fits(own[0]) || !fits(own[1]) || !(own[2] >= 0 && own[2] <= 1e30) ||
      !level_.take(numbers.first(numbers.size() - kOwn)))
    return;
  next_ = static_cast<std::uint64_t>(own[0]);
  next_usual_ = static_cast<std::uint64_t>(own[1]);
  most_rate_ = static_cast<float>(own[2]);
}

}  // namespace omni
