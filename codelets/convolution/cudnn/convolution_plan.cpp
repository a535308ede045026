// Choosing: by the table of choices, else by trying what cuDNN offers; where results must repeat,
// the first of that which works, or there is too little memory.
#ifdef OMNI_CUDA

#include "codelets/convolution/cudnn/convolution_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <new>
#include <optional>
#include <string_view>
#include <vector>

#include "codelets/convolution/cudnn/bf16_sum.hpp"
#include "codelets/cuda/choice_table.hpp"
#include "codelets/cuda/fastest.hpp"
#include "codelets/cuda/trial_memory.hpp"
#include "codelets/elementwise/channel_bias.hpp"
#include "runtime/bf16/gpu_rounding.hpp"
#include "runtime/log.hpp"

namespace omni::cudnn {
namespace {

constexpr std::size_t kSrc = 0, kWeights = 1, kDst = 2;  // in ConvolutionTensors
// Of one engine with its knobs turned: cuDNN offers up to 39, best first as it guesses. On Hopper
// nearly all that it offers is one engine, and a peer that tries the first ten must not find
// better.
constexpr int kMostVariants = 12;

// cuDNN's tensors begin where whole vectors do.
std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

std::string_view name_of(Pass pass) {
  return pass == Pass::forward            ? "forward"
         : pass == Pass::backward_weights ? "backward weights"
                                          : "backward data";
}

std::size_t result_of(Pass pass) {
  return pass == Pass::forward ? kDst : pass == Pass::backward_weights ? kWeights : kSrc;
}

bool multiplies_bf16(const ConvolutionTask& task) {
  return task.bf16_values || implementation_policy().precision == Precision::bf16;
}

}  // namespace

bool is_copied(const ConvolutionTask& task, std::size_t tensor) {
  return multiplies_bf16(task) && (!task.bf16_values || tensor == kWeights);
}

ConvolutionPlan::ConvolutionPlan(CudaWorker& worker, const ConvolutionTask& task,
                                 const ConvolutionTensors& tensors)
    : task_(task),
      precision_(implementation_policy().precision),
      multiplies_bf16_(multiplies_bf16(task)),
      demands_{.single_precision = !multiplies_bf16_ && precision_ == Precision::fp32,
               .deterministic = implementation_policy().deterministic},
      result_(result_of(task.pass)),
      counts_{task.shape.src_count(), task.shape.weights_count(), task.shape.dst_count()},
      most_workspace_(worker.most_workspace()) {
  choose(worker, tensors);
  if (!usable())
    log::warn("cuDNN has no algorithm for the convolution {}: it is lowered to matrix products",
              description());
}

void ConvolutionPlan::run(CudaWorker& worker, const ConvolutionTensors& tensors) const {
  check(
      enqueue(worker, *way_, tensors, static_cast<std::byte*>(worker.workspace(memory_for(*way_)))),
      "a convolution of cuDNN");
}

std::size_t ConvolutionPlan::bytes_of_copy(std::size_t tensor) const {
  return is_copied(task_, tensor)
             ? aligned(sizeof(Bf16) * static_cast<std::size_t>(counts_[tensor]))
             : 0;
}
std::size_t ConvolutionPlan::bytes_of_bias_copy(const Way& way) const {
  return multiplies_bf16_ && way.ends
             ? aligned(sizeof(Bf16) * static_cast<std::size_t>(task_.shape.filters))
             : 0;
}
std::size_t ConvolutionPlan::memory_for(const Way& way) const {
  return aligned(way.plan.workspace_bytes()) + bytes_of_copy(kSrc) + bytes_of_copy(kWeights) +
         bytes_of_copy(kDst) + bytes_of_bias_copy(way);
}
std::size_t ConvolutionPlan::bytes_of_result_value() const {
  const bool floats = !task_.bf16_values || result_ == kWeights;
  return floats ? sizeof(float) : sizeof(Bf16);
}

cudnnStatus_t ConvolutionPlan::enqueue(CudaWorker& worker, const Way& way,
                                       const ConvolutionTensors& tensors, std::byte* memory) const {
  ConvolutionTensors used{.bias = way.ends ? tensors.bias : nullptr};
  std::byte* copy = memory + aligned(way.plan.workspace_bytes());
  const auto round = [&](std::int64_t count, const void* floats) {
    gpu::round(worker, count, static_cast<const float*>(floats), reinterpret_cast<Bf16*>(copy));
  };
  for (const std::size_t i : {kSrc, kWeights, kDst}) {
    used.values[i] = is_copied(task_, i) ? copy : tensors.values[i];
    if (is_copied(task_, i) && i != result_) round(counts_[i], tensors.values[i]);
    copy += bytes_of_copy(i);
  }
  if (bytes_of_bias_copy(way) > 0) {
    used.bias = copy;
    round(task_.shape.filters, tensors.bias);
  }
  const cudnnStatus_t status = way.plan.run(worker.dnn(), used, memory);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  void* result = tensors.values[result_];
  if (is_copied(task_, result_))
    gpu::add_bf16(worker, counts_[result_], static_cast<const Bf16*>(used.values[result_]),
                  task_.adds ? 1.0f : 0.0f, static_cast<float*>(result));
  if (task_.pass != Pass::forward || way.ends) return status;
  const auto end = [&](auto* values) {
    gpu::add_bias_and_activate(worker, task_.shape.pixels(), task_.shape.filters,
                               static_cast<const float*>(tensors.bias), task_.activation, values);
  };
  if (task_.bf16_values)
    end(static_cast<Bf16*>(result));
  else
    end(static_cast<float*>(result));
  return status;
}

// ---- what cuDNN offers ----
std::vector<bool> ConvolutionPlan::endings() const {
  const bool can_end = task_.may_end && (task_.activation == Activation::linear ||
                                         task_.activation == Activation::relu);
  return can_end ? std::vector{true, false} : std::vector{false};
}

ConvolutionGraph ConvolutionPlan::graph(bool ends, const Target& target) const {
  return ConvolutionGraph({.pass = task_.pass,
                           .shape = task_.shape,
                           .type = multiplies_bf16_ ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT,
                           .alignment = task_.alignment,
                           .adds = task_.adds && !is_copied(task_, result_),
                           .bias = ends,
                           .relu = ends && task_.activation == Activation::relu},
                          target);
}

std::optional<ConvolutionPlan::Way> ConvolutionPlan::way(const Target& target, bool ends,
                                                         EngineConfig config) const {
  if (!config.meets(demands_)) return std::nullopt;
  ExecutionPlan plan(config, target);
  if (!succeeds(plan.status()) || plan.workspace_bytes() > most_workspace_) return std::nullopt;
  return Way{ends, std::move(config), std::move(plan)};
}

void ConvolutionPlan::for_each_way(const Target& target, bool ends, std::size_t most_memory,
                                   const std::function<bool(Way)>& visit) const {
  std::map<std::uint64_t, int> variants;  // of an engine
  for (EngineConfig& config : engine_configs(graph(ends, target), target)) {
    if (config.numbers.empty() || variants[config.numbers[0]] == kMostVariants) continue;
    std::optional<Way> one = way(target, ends, std::move(config));
    if (!one || memory_for(*one) > most_memory) continue;
    ++variants[one->config.numbers[0]];
    if (!visit(std::move(*one))) return;
  }
}

// ---- choosing ----
// Where there was no memory for it, another one may need none; but where results must repeat,
// memory must not decide.
bool ConvolutionPlan::succeeds(cudnnStatus_t status) const {
  if (demands_.deterministic) check_memory(status, "a convolution");
  return status == CUDNN_STATUS_SUCCESS;
}

// An end is tried with a bias that is NaN: cuDNN's relu need not keep that, though it is asked to.
bool ConvolutionPlan::works(CudaWorker& worker, const Way& way, ConvolutionTensors tensors,
                            std::byte* memory) const {
  const auto runs = [&] { return succeeds(enqueue(worker, way, tensors, memory)); };
  if (!way.ends) return runs();
  const std::size_t bytes = sizeof(float) * static_cast<std::size_t>(task_.shape.filters);
  const TrialMemory nan(worker, bytes);
  nan.fill(0xFF, bytes);
  tensors.bias = nan.data();
  return runs() && kept_nan(worker, tensors.values[result_], bytes_of_result_value());
}

bool ConvolutionPlan::take(CudaWorker& worker, const ConvolutionTensors& tensors, Way way) {
  try {
    auto* memory = static_cast<std::byte*>(worker.workspace(memory_for(way)));
    if (works(worker, way, tensors, memory)) way_.emplace(std::move(way));
  } catch (const std::bad_alloc&) {  // what is left is too little
    if (demands_.deterministic) throw;
  }
  return usable();
}

std::optional<ConvolutionPlan::Numbers> ConvolutionPlan::take_fastest(
    CudaWorker& worker, const Target& target, const ConvolutionTensors& tensors) {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for free memory");
  // What is free may be in pieces, and others may be faster to take it.
  for (std::size_t most = free / 2; most > 0; most /= 4) {
    try {
      return take_fastest_with(most, worker, target, tensors);
    } catch (const std::bad_alloc&) {
    }
  }
  return take_fastest_with(0, worker, target, tensors);
}

std::optional<ConvolutionPlan::Numbers> ConvolutionPlan::take_fastest_with(
    std::size_t most_memory, CudaWorker& worker, const Target& target,
    const ConvolutionTensors& tensors) {
  std::size_t most = 0;
  std::vector<Way> ways;
  for (const bool ends : endings())
    for_each_way(target, ends, most_memory, [&](Way one) {
      most = std::max(most, memory_for(one));
      ways.push_back(std::move(one));
      return true;
    });
  std::optional<Way*> best;
  {
    const TrialMemory memory(worker, most);
    std::vector<Way*> candidates;
    for (Way& one : ways)
      if (works(worker, one, tensors, memory.data())) candidates.push_back(&one);
    best = fastest(worker.stream(), candidates, [&](const Way* one) {
      return enqueue(worker, *one, tensors, memory.data()) == CUDNN_STATUS_SUCCESS;
    });
  }
  if (!best) return std::nullopt;
  Numbers numbers{(*best)->ends ? 1u : 0u};
  numbers.insert(numbers.end(), (*best)->config.numbers.begin(), (*best)->config.numbers.end());
  if (!take(worker, tensors, std::move(**best))) return std::nullopt;
  return numbers;
}

void ConvolutionPlan::choose(CudaWorker& worker, ConvolutionTensors tensors) {
  // What is overwritten in the end can be tried where it lies.
  std::optional<TrialMemory> apart;
  if (task_.adds) {
    apart.emplace(worker, static_cast<std::size_t>(counts_[result_]) * bytes_of_result_value());
    tensors.values[result_] = apart->data();
  }
  const Target target{.handle = worker.dnn()};
  // What measuring chooses may change from run to run, and with it how results are rounded.
  if (demands_.deterministic) {
    for (const bool ends : endings())
      if (!usable())
        for_each_way(target, ends, std::numeric_limits<std::size_t>::max(),
                     [&](Way one) { return !take(worker, tensors, std::move(one)); });
    return;
  }
  ChoiceTable::shared(worker.device_name(), {"cuDNN", cudnnGetVersion()})
      .choose(
          description(),
          [&](const Numbers& numbers) {
            if (numbers.empty()) return false;
            const bool ends = numbers[0] != 0;
            if (ends && !endings().front()) return false;  // no other bias, no other activation
            std::optional<Way> one = way(
                target, ends,
                engine_config(graph(ends, target), target, {numbers.begin() + 1, numbers.end()}));
            return one && take(worker, tensors, std::move(*one));
          },
          [&] { return take_fastest(worker, target, tensors); });
}

// What distinguishes measurements on a device.
std::string ConvolutionPlan::description() const {
  const ConvShape& s = task_.shape;
  return fmt::format(
      "{}{} {}x{}x{}x{}, {} {}x{}, stride {}x{}, pad {}x{}, dilation {}x{}, groups {}, {}{}, "
      "{}-byte tensors{}",
      name_of(task_.pass), task_.adds ? " (adds)" : "", s.n, s.h, s.w, s.c, s.filters, s.kernel_h,
      s.kernel_w, s.stride_h, s.stride_w, s.pad_h, s.pad_w, s.dilation_h, s.dilation_w, s.groups,
      multiplies_bf16_ ? "bf16" : omni::name_of(precision_),
      multiplies_bf16_ && !task_.bf16_values ? " of floats" : "", task_.alignment,
      !endings().front()                       ? ""
      : task_.activation == Activation::linear ? " and bias"
                                               : " and bias and relu");
}

}  // namespace omni::cudnn

#endif
