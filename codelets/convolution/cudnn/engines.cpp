// This file asks cuDNN for engines, and makes an engine from the numbers by which cuDNN identifies
// it.
#include "codelets/convolution/cudnn/engines.hpp"

#include <algorithm>

#include "runtime/cuda/first_launch.hpp"

namespace omni::cudnn {
namespace {

void describe(Backend& part, cudnnBackendAttributeName_t name, const Target& target) {
  if (target.description != nullptr) part.set(name, *target.description);
}

std::vector<Backend> guesses(const ConvolutionGraph& graph, const Target& target,
                             cudnnBackendHeurMode_t mode) {
  Backend heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.operations());
  describe(heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, target);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  heuristics.finalize();
  if (!succeeded(heuristics.status())) return {};
  constexpr std::size_t kMost = 64;  // offers asked for; cuDNN 9.19 makes up to 40
  return heuristics.get_parts(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                              kMost);
}

void read_notes(Backend& engine, EngineConfig& found) {
  found.notes = engine.get<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                                        CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  const auto behavior = engine.get<cudnnBackendBehaviorNote_t>(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE,
                                                               CUDNN_BEHAVIOR_NOTE_TYPE_COUNT);
  found.is_compiled =
      std::ranges::find(behavior, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) != behavior.end();
  found.config.depend_on(engine);
}

// Reads an engine that cuDNN's heuristics offer.
EngineConfig read(Backend guess) {
  EngineConfig found{std::move(guess)};
  const auto add = [&](const auto& numbers) {
    for (const auto number : numbers) found.numbers.push_back(static_cast<std::uint64_t>(number));
  };
  for (Backend& engine :
       found.config.get_parts(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1)) {
    add(engine.get<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
    read_notes(engine, found);
  }
  for (Backend& knob :
       found.config.get_parts(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                              CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS)) {
    add(knob.get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE));
    add(knob.get<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
    found.config.depend_on(knob);
  }
  return found;
}

}  // namespace

bool EngineConfig::meets(const Demands& demands) const {
  const auto has = [&](cudnnBackendNumericalNote_t note) {
    return std::ranges::find(notes, note) != notes.end();
  };
  return config.usable() && !numbers.empty() &&  // without numbers the notes are unknown
         !is_compiled && !has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) &&
         !has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) &&
         !(demands.single_precision && has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE)) &&
         !(demands.deterministic && has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
}

std::vector<EngineConfig> engine_configs(const ConvolutionGraph& graph, const Target& target) {
  std::vector<EngineConfig> found;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (Backend& guess : guesses(graph, target, mode)) {
      EngineConfig one = read(std::move(guess));
      if (std::ranges::find(found, one.numbers, &EngineConfig::numbers) == found.end())
        found.push_back(std::move(one));
    }
  return found;
}

EngineConfig engine_config(const ConvolutionGraph& graph, const Target& target,
                           const std::vector<std::uint64_t>& numbers) {
  Backend engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph.operations());
  describe(engine, CUDNN_ATTR_ENGINE_DEVICEPROP, target);
  const bool whole = numbers.size() % 2 == 1;  // false: the engine, or a knob's value, is missing
  engine.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, whole ? static_cast<std::int64_t>(numbers[0]) : -1);
  engine.finalize();

  std::vector<Backend> knobs;
  for (std::size_t i = 1; i + 1 < numbers.size(); i += 2) {
    Backend& knob = knobs.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, static_cast<cudnnBackendKnobType_t>(numbers[i]));
    knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, static_cast<std::int64_t>(numbers[i + 1]));
    knob.finalize();
  }
  std::vector<const Backend*> choices;
  for (const Backend& knob : knobs) choices.push_back(&knob);

  EngineConfig found{Backend(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)};
  found.config.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (!choices.empty()) found.config.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, choices);
  found.config.finalize();
  found.numbers = numbers;
  read_notes(engine, found);
  return found;
}

ExecutionPlan::ExecutionPlan(const EngineConfig& config, const Target& target)
    : plan_(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
  if (target.handle != nullptr) plan_.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle);
  describe(plan_, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, target);
  plan_.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config.config);
  plan_.finalize();
  for (const std::int64_t bytes : plan_.get<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE))
    workspace_bytes_ = static_cast<std::size_t>(bytes);
}

cudnnStatus_t ExecutionPlan::run(cudnnHandle_t handle, const ConvolutionTensors& tensors,
                                 void* workspace) const {
  std::vector<std::int64_t> names;
  std::vector<void*> pointers;
  const auto add = [&](TensorName name, void* pointer) {
    names.push_back(static_cast<std::int64_t>(name));
    pointers.push_back(pointer);
  };
  add(TensorName::src, tensors.values[0]);
  add(TensorName::weights, tensors.values[1]);
  add(TensorName::dst, tensors.values[2]);
  if (tensors.bias != nullptr) add(TensorName::bias, const_cast<void*>(tensors.bias));
  Backend variables(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  variables.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, names);
  variables.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, pointers);
  variables.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace);
  variables.finalize();
  about_to_launch();
  return variables.usable() ? cudnnBackendExecute(handle, plan_.handle(), variables.handle())
                            : variables.status();
}

}  // namespace omni::cudnn
