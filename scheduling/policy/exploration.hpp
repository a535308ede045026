// Exploration chooses the implementation of a task. Usually it is the fastest one by the
// performance models. The models only learn from runs. So an implementation that was first measured
// on a busy machine would never run again. Therefore other implementations are tried at intervals.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace omni {

struct Choice {
  unsigned implementation;
  double length;  // expected; NaN: the model has too few measurements
};

class Exploration {
 public:
  // A Model identifies one performance model: a codelet and a footprint, on one type of workers.
  using Model = std::pair<std::uintptr_t, std::uint64_t>;

  struct Chosen {
    Choice choice;
    bool paid = false;  // true: a try whose cost is reported with took() when it has run
  };

  // `known` are all implementations that can run the task, at least one. Their lengths are in one
  // unit.
  Chosen choose(const Model& model, std::span<const Choice> known) {
    const Choice& best = *std::ranges::min_element(known, {}, &Choice::length);
    if (known.size() == 1) return {best};
    const auto seems_close = [&](const Choice& each) {
      return each.length <= kWorthALook * best.length;
    };
    History& history = histories_[model];
    if (++history.choices % kOtherChoices == 0) {  // each in turn, also the best
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

  void took(const Model& model, const Choice& choice, double length) {
    histories_[model].saved_for(choice.implementation) += choice.length - length;
  }

 private:
  // One choice in kOtherChoices goes to the implementations in turn, if they seem at most
  // kWorthALook times as slow as the best. With two or three implementations this costs at most one
  // percent.
  static constexpr std::uint64_t kOtherChoices = 200;
  static constexpr double kWorthALook = 4;
  // Each slower implementation has a budget. All budgets together grow by at most this share of the
  // time of the model's tasks. Of two, one that seems a hundred times as slow is tried after 10 000
  // tasks. In the end only the measured time is subtracted. If the length was overestimated, the
  // rest pays for the ten or more runs that StarPU needs to correct its model.
  static constexpr double kSavedUp = 0.01;

  struct History {
    std::uint64_t choices = 0;
    std::vector<double> saved{};  // by implementation: time saved up for a try of it
    double& saved_for(unsigned implementation) {
      if (saved.size() <= implementation) saved.resize(implementation + 1);
      return saved[implementation];
    }
  };
  std::map<Model, History> histories_;
};

}  // namespace omni
