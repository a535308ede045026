#include "scheduling/health/health_check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

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
      solver_(net.options().solver),
      level_(chance_loss(net, class_shares(data, net.classes()))),
      stuck_(std::max(options_.stuck, 2 * (data.size() / net.options().batch + 1))),
      next_(options_.first),
      next_usual_(options_.usual),
      one_class_(find_one_class(class_shares(data, net.classes()))) {
  if (!gpus_compute()) return;
  next_ *= kLaterOnGpus;
  next_usual_ *= kLaterOnGpus;
}

// Where there is one class, the best loss is 0, and a net comes near it.
bool HealthCheck::is_at_chance() const { return !one_class_ && level_.at_chance() > 0; }

LossIs HealthCheck::loss() const {
  constexpr double kLow = 0.2;  // of chance
  if (is_at_chance() || is_risen()) return LossIs::at_chance;
  const double known = level_.chance().value_or(0);
  return level_.recent() > kLow * known && known > 0 ? LossIs::lower : LossIs::low;
}

bool HealthCheck::note(const StepReport& report) {
  level_.note(report.loss);
  last_ = report;
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
  if (!is_stuck()) seen_stuck_ = false;
  return (report.iteration >= next_ && loss() == LossIs::at_chance) ||
         report.iteration >= next_usual_ || (is_stuck() && !seen_stuck_);
}

Status HealthCheck::inspect(Net& net, DataFeed& feed, std::uint64_t seed,
                            std::uint64_t first_sample) {
  if (last_.iteration >= next_) next_ = 2 * last_.iteration;
  if (last_.iteration >= next_usual_) next_usual_ = 2 * last_.iteration;
  ++inspections_;
  OMNI_TRY(const Inspection inspection, omni::inspect(net, feed, seed, first_sample));
  seen_stuck_ = is_stuck();
  const LossIs loss = this->loss();
  std::optional<Finding> finding = diagnose(inspection, learning(), loss);
  if (!finding && is_stuck()) finding = at_chance();
  if (!finding) return {};
  tell(*finding);
  if (loss != LossIs::at_chance) return {};
  current_ = finding;
  if (finding->sure || is_stuck()) fail(*finding);
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
  return {.kind = Ailment::at_chance,
          .where = "",
          .what = fmt::format("the loss has been {:.4g} for {} mini-batches; without learning "
                              "anything about samples it is {:.4g}",
                              level_.recent(), level_.at_chance(), *level_.chance()),
          .remedy =
              "try a tenth of learning_rate, and ten times as much; check that labels and "
              "samples belong together"};
}

Finding HealthCheck::risen() const {
  return {.kind = Ailment::risen,
          .where = "",
          .what = fmt::format("the loss has risen from {:.4g} to {:.4g} and stays there",
                              level_.lowest(), level_.recent()),
          .remedy = "lower learning_rate by 10"};
}

void HealthCheck::tell(const Finding& finding) {
  const auto told = told_.find(finding.kind);
  if (told != told_.end() && told->second == finding.layer) return;
  told_[finding.kind] = finding.layer;
  if (options_.warn) options_.warn(finding.error().message());
}

void HealthCheck::fail(const Finding& finding) {
  if (options_.strict && !failure_) failure_ = finding;
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
