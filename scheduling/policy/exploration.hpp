// Chooses the implementation of a task: the fastest by the models. The models learn only from runs,
// so an implementation that was first measured on a busy machine would never be chosen again. So
// another one is tried now and then.
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
  double length;  // that is expected; NaN: the model is not sure yet
};

class Exploration {
 public:
  // Tasks of one model: codelet and footprint, on one type of workers.
  using Model = std::pair<std::uintptr_t, std::uint64_t>;

  struct Chosen {
    Choice choice;
    bool paid = false;  // a look whose price is known when it has run: to be told took()
  };

  // `known`: all that can run the task, at least one; all lengths in one unit.
  Chosen choose(const Model& model, std::span<const Choice> known) {
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

  void took(const Model& model, const Choice& choice, double length) {
    histories_[model].saved_for(choice.implementation) += choice.length - length;
  }

 private:
  // One choice in kOtherChoices goes to another implementation that seems at most kWorthALook times
  // as slow. With the usual two or three, that costs well below 1 %.
  static constexpr std::uint64_t kOtherChoices = 200;
  static constexpr double kWorthALook = 4;
  // For the others, all together, this share of what the model's tasks take is saved up. What seems
  // a hundred times as slow is tried after 10 000 tasks. It pays what it really takes: one of which
  // too much was believed gets its savings back, so that the ten looks or more that StarPU needs to
  // forget follow at once.
  static constexpr double kSavedUp = 0.01;

  struct History {
    std::uint64_t choices = 0;
    std::vector<double> saved{};  // time, by implementation: it pays for a try of that one
    double& saved_for(unsigned implementation) {
      if (saved.size() <= implementation) saved.resize(implementation + 1);
      return saved[implementation];
    }
  };
  std::map<Model, History> histories_;
};

}  // namespace omni
