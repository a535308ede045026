#include "scheduling/policy/exploration.hpp"

#include <algorithm>

namespace omni {
namespace {

// One choice in kOtherChoices goes to another implementation that seems at most kWorthALook times
// as slow. With the usual two or three, that costs well below 1 %.
constexpr std::uint64_t kOtherChoices = 200;
constexpr double kWorthALook = 4;
// For the others, all together, this share of what the model's tasks take is saved up. What seems a
// hundred times as slow is tried after 10 000 tasks. It pays what it really takes: one of which too
// much was believed gets its savings back, so that the ten looks or more that StarPU needs to
// forget follow at once.
constexpr double kSavedUp = 0.01;

}  // namespace

double& Exploration::History::saved_for(unsigned implementation) {
  if (saved.size() <= implementation) saved.resize(implementation + 1);
  return saved[implementation];
}

Exploration::Chosen Exploration::choose(const Model& model, std::span<const Choice> known) {
  const Choice& best = *std::ranges::min_element(known, {}, &Choice::length);
  if (known.size() == 1) return {best};
  const auto seems_close = [&](const Choice& each) {
    return each.length <= kWorthALook * best.length;
  };
  History& history = histories_[model];
  if (++history.choices % kOtherChoices == 0) {  // in turn, the best one too
    const Choice& other = known[history.choices / kOtherChoices % known.size()];
    if (seems_close(other)) return {other};
  }
  const double share = kSavedUp / static_cast<double>(known.size() - 1);
  const Choice* affordable = nullptr;
  for (const Choice& each : known) {
    if (seems_close(each)) continue;
    double& saved = history.saved_for(each.implementation);
    saved += share * best.length;
    if (saved >= each.length) affordable = &each;
  }
  if (affordable == nullptr) return {best};
  history.saved_for(affordable->implementation) -= affordable->length;
  return {*affordable, true};
}

void Exploration::took(const Model& model, const Choice& choice, double length) {
  histories_[model].saved_for(choice.implementation) += choice.length - length;
}

}  // namespace omni
