#include "scheduling/health/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

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

}  // namespace

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

std::optional<Finding> diagnose(const Inspection& inspection, const Learning& learning,
                                LossIs loss) {
  if (inspection.samples < 2) return {};
  if (auto finding = find_same_data(inspection)) return finding;
  if (auto finding = find_same_output(inspection, loss)) return finding;
  return loss == LossIs::low ? std::nullopt : find_no_gradient(inspection, learning, loss);
}

}  // namespace omni
