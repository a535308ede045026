// This file plays cuDNN's engines: which engines the heuristics offer for a graph, which of them
// can be planned, and what they compute.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>

#include "tests/played_gpu/device.hpp"
#include "tests/played_gpu/dnn/graph.hpp"
#include "tests/played_gpu/dnn/loops.hpp"
#include "tests/played_gpu/kernel.hpp"
#include "tests/played_gpu/rounding.hpp"

namespace omni::played {
namespace {

using Notes = std::vector<cudnnBackendNumericalNote_t>;

// These are the engines' numbers. kHalves rounds the factors to bf16, and kTensorCores rounds
// floats to TF32. The backward sums of kAnyOrder differ in every run. kCompiled gives zeros in the
// forward pass. Engines with a workspace overwrite all of it. Only kTensorCores, kSlow and
// kCompiled can compute operations after the convolution.
enum Engine : std::int64_t {
  kHalves,
  kRefusesToRun,
  kTensorCores,
  kAnyOrder,
  kUnplanned,
  kSlow,
  kCompiled
};

constexpr cudnnBackendKnobType_t kKnob = CUDNN_KNOB_TYPE_TILE_SIZE;
constexpr std::int64_t kMostTurned = 3;  // with this value of the knob, relu makes 0 of NaN

// The heuristics offer these engines in this order, the best one first.
struct Offer {
  std::int64_t engine, turned = 0;
};
constexpr Offer kOffers[]{{kCompiled},       {kHalves},   {kRefusesToRun},
                          {kTensorCores, 3}, {kAnyOrder}, {kTensorCores, 2},
                          {kUnplanned},      {kSlow, 3},  {kSlow, 2}};

bool has_knob(std::int64_t engine) { return engine == kTensorCores || engine == kSlow; }

Notes notes_on(std::int64_t engine, const Graph& graph) {
  switch (engine) {
    case kHalves:
      return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS};
    case kTensorCores: return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
    case kAnyOrder:
      return graph.is_forward() ? Notes{} : Notes{CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
    default: return {};
  }
}

std::int64_t workspace_of(std::int64_t engine, std::int64_t turned, const Graph& graph) {
  const auto floats = static_cast<std::int64_t>(graph.shape.filter_count());
  return has_knob(engine) ? turned * floats * std::int64_t{sizeof(float)} : 0;
}

// The real cuDNN 9.19 accepts a padding as large as the filter. The played one refuses it, so that
// tests can see what happens then.
bool can_compute(const Convolution& shape) {
  for (const std::size_t i : {0u, 1u})
    if (shape.pad[i] > ((i == 0 ? shape.filter_h : shape.filter_w) - 1) * shape.dilation[i])
      return false;
  return true;
}

std::shared_ptr<const Descriptor> graph_of(const Descriptor& engine) {
  return engine.part(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
}

cudnnStatus_t complete_engine(Descriptor& its) {
  const auto number = its.value<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  const auto described = graph_of(its);
  if (!number || !described) return CUDNN_STATUS_BAD_PARAM;
  if (*number < 0 || *number > kCompiled) return CUDNN_STATUS_NOT_SUPPORTED;
  Graph graph;
  read_graph(*described, graph);
  its.set(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes_on(*number, graph));
  std::vector<cudnnBackendBehaviorNote_t> behavior;
  if (*number == kCompiled) behavior.push_back(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
  its.set(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, behavior);
  return CUDNN_STATUS_SUCCESS;
}

// Returns the value of the engine's only knob, or nothing if it is not set.
std::optional<std::int64_t> turned(const Descriptor& config) {
  const auto knob = config.part(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
  return knob ? knob->value<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE) : std::nullopt;
}

cudnnStatus_t complete_config(Descriptor& its) {
  const auto engine = its.part(CUDNN_ATTR_ENGINECFG_ENGINE);
  if (!engine || engine->type != CUDNN_BACKEND_ENGINE_DESCRIPTOR) return CUDNN_STATUS_BAD_PARAM;
  const auto number = *engine->value<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  const Descriptor::Parts& knobs = its.parts(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
  if (knobs.size() > (has_knob(number) ? 1u : 0u)) return CUDNN_STATUS_NOT_SUPPORTED;
  for (const auto& knob : knobs)
    if (knob->value<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE) != kKnob ||
        turned(its) < 1 || turned(its) > kMostTurned)
      return CUDNN_STATUS_NOT_SUPPORTED;
  if (knobs.empty()) its.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, Descriptor::Parts{});
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t complete_plan(Descriptor& its) {
  const auto config = its.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const auto handle = its.value<cudnnHandle_t>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
  if (!config || !handle) return CUDNN_STATUS_BAD_PARAM;
  const auto engine = config->part(CUDNN_ATTR_ENGINECFG_ENGINE);
  if (handle != graph_of(*engine)->value<cudnnHandle_t>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE))
    return CUDNN_STATUS_BAD_PARAM;
  const auto number = *engine->value<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  Graph graph;
  read_graph(*graph_of(*engine), graph);
  if (number == kUnplanned || (!graph.steps.empty() && !has_knob(number) && number != kCompiled))
    return CUDNN_STATUS_NOT_SUPPORTED;
  const std::vector bytes{workspace_of(number, turned(*config).value_or(1), graph)};
  its.set(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, bytes);
  return CUDNN_STATUS_SUCCESS;
}

template <class Set>
std::shared_ptr<Descriptor> finalized(cudnnBackendDescriptorType_t type, Set set) {
  auto made = std::make_shared<Descriptor>();
  made->type = type;
  set(*made);
  made->finalized = complete(*made) == CUDNN_STATUS_SUCCESS;
  return made;
}

std::shared_ptr<Descriptor> config_of(const Offer& offer, std::shared_ptr<const Descriptor> graph) {
  const auto engine = finalized(CUDNN_BACKEND_ENGINE_DESCRIPTOR, [&](Descriptor& its) {
    its.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, {graph});
    its.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, std::vector{offer.engine});
  });
  return finalized(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, [&](Descriptor& its) {
    its.set(CUDNN_ATTR_ENGINECFG_ENGINE, {engine});
    if (has_knob(offer.engine))
      its.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
              {finalized(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, [&](Descriptor& knob) {
                knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE,
                         std::vector{kKnob});
                knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64,
                         std::vector{offer.turned});
              })});
  });
}

cudnnStatus_t complete_heuristics(Descriptor& its) {
  const auto described = its.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  const auto mode = its.value<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE);
  if (!described || !mode) return CUDNN_STATUS_BAD_PARAM;
  Graph graph;
  if (const auto status = read_graph(*described, graph); status != CUDNN_STATUS_SUCCESS)
    return status;
  if (!can_compute(graph.shape)) return CUDNN_STATUS_NOT_SUPPORTED;
  Descriptor::Parts results;
  if (*mode == CUDNN_HEUR_MODE_FALLBACK)
    results.push_back(config_of({kAnyOrder}, described));
  else
    for (const Offer& offer : kOffers) results.push_back(config_of(offer, described));
  its.set(CUDNN_ATTR_ENGINEHEUR_RESULTS, std::move(results));
  return CUDNN_STATUS_SUCCESS;
}

// The next functions run an engine.
Region values(const Convolution& shape, const void* begin, std::size_t count) {
  return {begin, count * (shape.bf16 ? sizeof(std::uint16_t) : sizeof(float))};
}

// A Pixels has the number of a tensor's values, those of a pixel, and those from pixel to pixel.
struct Pixels {
  std::size_t count, channels, stride;

  std::size_t place(std::size_t i) const { return i / channels * stride + i % channels; }
  std::size_t end() const { return place(count - 1) + 1; }
};
Pixels pixels(std::size_t count, int channels, int stride) {
  return {count, static_cast<std::size_t>(channels), static_cast<std::size_t>(stride)};
}
Pixels x_of(const Convolution& shape) { return pixels(shape.x_count(), shape.c, shape.x_stride); }
Pixels y_of(const Convolution& shape) { return pixels(shape.y_count(), shape.k, shape.y_stride); }
Pixels in_a_row(std::size_t count) { return {count, 1, 1}; }

// Floats gives a tensor's values as floats one after the other: in place, or as a copy.
class Floats {
 public:
  Floats(const Convolution& shape, void* begin, const Pixels& pixels)
      : bf16_(shape.bf16 ? static_cast<std::uint16_t*>(begin) : nullptr),
        tensor_(static_cast<float*>(begin)),
        pixels_(pixels) {
    if (begin == nullptr || (bf16_ == nullptr && pixels.channels == pixels.stride)) return;
    copy_.resize(pixels.count);
    for (std::size_t i = 0; i < pixels.count; ++i) {
      const std::size_t at = pixels.place(i);
      copy_[i] =
          bf16_ == nullptr ? tensor_[at] : std::bit_cast<float>(std::uint32_t{bf16_[at]} << 16);
    }
  }
  float* begin() { return copy_.empty() ? tensor_ : copy_.data(); }
  // Writes the copy back to the tensor, rounded if that is in bf16.
  void back() const {
    for (std::size_t i = 0; i < copy_.size(); ++i) {
      const std::size_t at = pixels_.place(i);
      if (bf16_ == nullptr)
        tensor_[at] = copy_[i];
      else
        bf16_[at] = static_cast<std::uint16_t>(
            std::bit_cast<std::uint32_t>(rounded(copy_[i], kBf16)) >> 16);
    }
  }

 private:
  std::uint16_t* bf16_;
  float* tensor_;
  Pixels pixels_;
  std::vector<float> copy_;
};

// Computes the graph's operations after the convolution on `values`, the convolution's result.
void go_on(const Graph& graph, bool loses_nan, const float* bias, std::vector<float>& values) {
  const auto channels = static_cast<std::size_t>(graph.shape.k);
  for (const Graph::Step& step : graph.steps)
    for (std::size_t i = 0; i < values.size(); ++i)
      if (step.mode == CUDNN_POINTWISE_ADD)
        values[i] += bias[i % channels];
      else if (loses_nan || !step.keeps_nan || !std::isnan(values[i]))
        values[i] = std::fmax(values[i], 0.0f);  // 0 of NaN
}

// Changes the sums a little in every second call, as another order of additions would.
void add_in_another_order(float* sums, std::size_t count) {
  static std::atomic<unsigned> turn;
  if (turn++ % 2 == 1)
    for (std::size_t i = 0; i < count; ++i) sums[i] = std::nextafter(sums[i], 0.0f);
}

// A Manner tells how an engine's results differ from the exact ones.
struct Manner {
  bool any_order, loses_nan, zeros;
};

void compute(const Graph& graph, const Manner& manner, void* x, void* filter, void* y, void* bias) {
  const Convolution& shape = graph.shape;
  Floats of_x(shape, x, x_of(shape)), of_y(shape, y, y_of(shape));
  Floats of_filter(shape, filter, in_a_row(shape.filter_count()));
  if (graph.is_forward()) {
    Floats of_bias(shape, bias, in_a_row(static_cast<std::size_t>(shape.k)));
    std::vector<float> result(shape.y_count());
    forward(shape, of_x.begin(), of_filter.begin(), result.data());
    go_on(graph, manner.loses_nan, of_bias.begin(), result);
    if (manner.zeros) std::ranges::fill(result, 0.0f);
    std::ranges::copy(result, of_y.begin());
    of_y.back();
  } else if (graph.pass == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR) {
    backward_data(shape, of_filter.begin(), of_y.begin(), graph.beta, of_x.begin());
    if (manner.any_order) add_in_another_order(of_x.begin(), shape.x_count());
    of_x.back();
  } else {
    backward_filter(shape, of_x.begin(), of_y.begin(), graph.beta, of_filter.begin());
    if (manner.any_order) add_in_another_order(of_filter.begin(), shape.filter_count());
    of_filter.back();
  }
}

// Returns null if the pack has no such tensor, or if its address is not aligned as the graph says.
void* find_tensor(const Descriptor& pack, const Graph& graph, std::int64_t name) {
  const std::size_t count = pack.attributes.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).count;
  const auto names = pack.values<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, count);
  const auto pointers = pack.values<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, count);
  for (std::size_t i = 0; i < count; ++i)
    if ((*names)[i] == name &&
        reinterpret_cast<std::intptr_t>((*pointers)[i]) % graph.alignments.at(name) == 0)
      return (*pointers)[i];
  return nullptr;
}

}  // namespace

cudnnStatus_t complete(Descriptor& its) {
  switch (its.type) {
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: {
      Graph graph;
      return read_graph(its, graph);
    }
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR: return complete_heuristics(its);
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR: return complete_engine(its);
    case CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR:
      return its.value<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE) &&
                     its.value<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE)
                 ? CUDNN_STATUS_SUCCESS
                 : CUDNN_STATUS_BAD_PARAM;
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR: return complete_config(its);
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: return complete_plan(its);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR: {
      const auto names = its.attributes.find(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
      const auto pointers = its.attributes.find(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
      return names != its.attributes.end() && pointers != its.attributes.end() &&
                     names->second.count == pointers->second.count &&
                     its.value<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE)
                 ? CUDNN_STATUS_SUCCESS
                 : CUDNN_STATUS_BAD_PARAM;
    }
    default: return check_part_of_graph(its);
  }
}

}  // namespace omni::played

using namespace omni::played;

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variables) {
  const auto planned = find_descriptor(plan), pack = find_descriptor(variables);
  if (handle == nullptr || !planned || !planned->finalized || !pack || !pack->finalized ||
      planned->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
    return CUDNN_STATUS_BAD_PARAM;
  if (planned->value<cudnnHandle_t>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE) != handle)
    return CUDNN_STATUS_BAD_PARAM;  // the real one asks for the same device
  const auto config = planned->part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const auto engine = config->part(CUDNN_ATTR_ENGINECFG_ENGINE);
  const auto number = *engine->value<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  if (number == kRefusesToRun) return CUDNN_STATUS_NOT_SUPPORTED;
  Graph graph;
  read_graph(*graph_of(*engine), graph);
  Convolution& shape = graph.shape;
  shape.mantissa = number == kHalves ? kBf16 : number == kTensorCores ? kTf32 : kExact;

  void* x = find_tensor(*pack, graph, graph.x);
  void* filter = find_tensor(*pack, graph, graph.filter);
  void* y = find_tensor(*pack, graph, graph.is_forward() ? graph.result : graph.y);
  const bool has_bias = graph.bias != 0;
  void* bias = has_bias ? find_tensor(*pack, graph, graph.bias) : nullptr;
  auto* workspace = *pack->value<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  const auto bytes = static_cast<std::size_t>(
      *planned->value<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  if (x == nullptr || filter == nullptr || y == nullptr || (has_bias && bias == nullptr) ||
      (bytes != 0 && workspace == nullptr))
    return CUDNN_STATUS_BAD_PARAM;
  std::vector<Region> used{values(shape, x, x_of(shape).end()), values(shape, y, y_of(shape).end()),
                           values(shape, filter, shape.filter_count())};
  if (bytes != 0) used.push_back({workspace, bytes});
  if (bias != nullptr) used.push_back(values(shape, bias, static_cast<std::size_t>(shape.k)));
  const Manner manner{.any_order = number == kAnyOrder,
                      .loses_nan = turned(*config) == kMostTurned,
                      .zeros = number == kCompiled};
  const cudaError_t error = enqueue_kernel(handle->stream, std::move(used), [=] {
    if (bytes != 0) std::memset(workspace, 0xFF, bytes);
    compute(graph, manner, x, filter, y, bias);
  });
  return error == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}
