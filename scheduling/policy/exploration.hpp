// Chooses the implementation of a task: the fastest by the models. The models learn only from runs,
// so an implementation that was first measured on a busy machine would never be chosen again. So
// another one is tried now and then.
#pragma once

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
  Chosen choose(const Model& model, std::span<const Choice> known);
  void took(const Model& model, const Choice& choice, double length);

 private:
  struct History {
    std::uint64_t choices = 0;
    std::vector<double> saved{};  // time, by implementation: it pays for a try of that one
    double& saved_for(unsigned implementation);
  };
  std::map<Model, History> histories_;
};

}  // namespace omni
