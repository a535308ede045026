// This file decides in which phases a layer is, by its rules include and exclude.
#include <array>
#include <limits>

#include "layers/formats/caffe/caffe_layers.hpp"

namespace omni {
namespace {

constexpr int kAnyLevel = std::numeric_limits<int>::max();

bool rule_applies(CaffeFields rule, const CaffeState& to) {
  if (rule.has("phase") && rule.word("phase") != to.phase) return false;
  const auto level = [&](std::string_view name) { return rule.whole(name, -kAnyLevel, kAnyLevel); };
  if (rule.has("min_level") && to.level < level("min_level")) return false;
  if (rule.has("max_level") && to.level > level("max_level")) return false;
  for (int i = 0; i < rule.count("stage"); ++i)
    if (!to.stages.contains(rule.text("stage", i))) return false;
  for (int i = 0; i < rule.count("not_stage"); ++i)
    if (to.stages.contains(rule.text("not_stage", i))) return false;
  return true;
}

// Returns whether `list` (include or exclude) has a rule that applies to the state.
bool any_rule_applies(const CaffeFields& layer, std::string_view list, const CaffeState& to) {
  for (int i = 0; i < layer.count(list); ++i)
    if (rule_applies(layer.nested(list, i), to)) return true;
  return false;
}

// Adds what a message NetState says.
void add_state(CaffeFields said, CaffeState& to) {
  if (said.has("level")) to.level = said.whole("level", -kAnyLevel, kAnyLevel);
  for (int i = 0; i < said.count("stage"); ++i) to.stages.insert(said.text("stage", i));
}

// Adds the states that the solver has for the two phases.
void add_states(CaffeFields& solver, CaffeStates& states) {
  if (solver.has("train_state")) add_state(solver.nested("train_state"), states.train);
  if (solver.count("test_state") > 1)
    solver.refuse("test_state", "several test_state", "a training has one test", 1);
  if (solver.has("test_state")) add_state(solver.nested("test_state", 0), states.test);
}

}  // namespace

bool CaffeState::has(const CaffeFields& layer) const {
  if (layer.has("include")) return any_rule_applies(layer, "include", *this);
  return !any_rule_applies(layer, "exclude", *this);
}

bool asks_for_stages(const CaffeFields& layer) {
  for (const std::string_view list : {"include", "exclude"})
    for (int i = 0; i < layer.count(list); ++i)
      for (const std::string_view field : {"stage", "not_stage", "min_level", "max_level"})
        if (layer.nested(list, i).has(field)) return true;
  return false;
}

CaffeStates read_caffe_states(const CaffeFields& net, CaffeFields* solver, const ReadOptions& how) {
  CaffeStates states;
  const std::array both{&states.train, &states.test};
  if (net.has("state"))
    for (CaffeState* state : both) add_state(net.nested("state"), *state);
  if (solver != nullptr) add_states(*solver, states);
  for (CaffeState* state : both) {
    state->stages.insert(how.stages.begin(), how.stages.end());
    state->level = how.level.value_or(state->level);
  }
  return states;
}

}  // namespace omni
