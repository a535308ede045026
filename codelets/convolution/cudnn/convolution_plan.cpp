// This file chooses a way to compute a pass: from the ChoiceTable or, if that has none, by
// measuring what cuDNN offers. In a deterministic run the first offer that works is taken. Too
// little memory for it is then an error.
#include "codelets/convolution/cudnn/convolution_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <new>
#include <string_view>

#include "codelets/convolution/cudnn/folded_tensors.hpp"
#include "codelets/cuda/choice_table.hpp"
#include "codelets/cuda/fastest.hpp"
#include "codelets/elementwise/channel_bias.hpp"
#include "runtime/bf16/float_copies.hpp"
#include "runtime/log.hpp"

namespace omni::cudnn {
namespace {

constexpr std::size_t kSrc = 0, kWeights = 1, kDst = 2;  // indices into ConvolutionTensors::values
// At most this many variants of one engine, which differ in their knobs, are tried. cuDNN offers up
// to 39, those that it expects to be best first. On Hopper nearly all offers are of one engine. The
// number is above ten, so that programs that try ten offers do not find a better one.
constexpr int kMostVariants = 12;

// The ChoiceTable stores a Form as these bits.
constexpr std::uint64_t kEnds = 1, kFolds = 2;

// Rounds the size of a piece of memory up, so that the next piece is aligned to vectors.
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
  return multiplies_bf16(task) && (!task.bf16_values || (tensor == kWeights && !task.bf16_weights));
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
      folded_(may_fold() ? gpu::folded(task.shape) : task.shape),
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

bool ConvolutionPlan::is_folded(Form form, std::size_t tensor) const {
  return form.folds && tensor != kDst;
}
std::size_t ConvolutionPlan::bytes_of_copy(Form form, std::size_t tensor) const {
  const bool folds = is_folded(form, tensor);
  if (!folds && !is_copied(task_, tensor)) return 0;
  const std::int64_t count = !folds           ? counts_[tensor]
                             : tensor == kSrc ? folded_.src_count()
                                              : folded_.weights_count();
  return aligned((multiplies_bf16_ ? sizeof(Bf16) : sizeof(float)) * count);
}
std::size_t ConvolutionPlan::bytes_of_bias_copy(const Way& way) const {
  return multiplies_bf16_ && way.form.ends ? aligned(sizeof(Bf16) * task_.shape.filters) : 0;
}
std::size_t ConvolutionPlan::memory_for(const Way& way) const {
  std::size_t bytes = aligned(way.plan.workspace_bytes()) + bytes_of_bias_copy(way);
  for (const std::size_t tensor : {kSrc, kWeights, kDst}) bytes += bytes_of_copy(way.form, tensor);
  return bytes;
}
std::size_t ConvolutionPlan::bytes_of_result_value() const {
  const bool floats = !task_.bf16_values || result_ == kWeights;
  return floats ? sizeof(float) : sizeof(Bf16);
}

void ConvolutionPlan::copy_tensor(CudaWorker& worker, Form form, std::size_t tensor,
                                  const void* from, std::byte* to) const {
  const auto* floats = static_cast<const float*>(from);
  const auto fold = [&](const auto* values, auto* folded) {
    if (tensor == kWeights)
      gpu::fold_weights(worker, task_.shape, values, folded);
    else
      gpu::fold_src(worker, task_.shape, values, folded);
  };
  if (!is_folded(form, tensor))
    gpu::round(worker, counts_[tensor], floats, reinterpret_cast<Bf16*>(to));
  else if (tensor == kWeights ? task_.bf16_weights : task_.bf16_values)
    fold(static_cast<const Bf16*>(from), reinterpret_cast<Bf16*>(to));
  else if (multiplies_bf16_)
    fold(floats, reinterpret_cast<Bf16*>(to));
  else
    fold(floats, reinterpret_cast<float*>(to));
}

void ConvolutionPlan::copy_result(CudaWorker& worker, Form form, const void* from, void* to) const {
  const float keep = task_.adds ? 1.0f : 0.0f;
  auto* result = static_cast<float*>(to);
  if (!is_folded(form, result_))
    gpu::widen(worker, counts_[result_], static_cast<const Bf16*>(from), result, task_.adds);
  else if (multiplies_bf16_)
    gpu::add_unfolded_weights(worker, task_.shape, static_cast<const Bf16*>(from), keep, result);
  else
    gpu::add_unfolded_weights(worker, task_.shape, static_cast<const float*>(from), keep, result);
}

cudnnStatus_t ConvolutionPlan::enqueue(CudaWorker& worker, const Way& way,
                                       const ConvolutionTensors& tensors, std::byte* memory) const {
  ConvolutionTensors used{.bias = way.form.ends ? tensors.bias : nullptr};
  std::byte* copy = memory + aligned(way.plan.workspace_bytes());
  for (const std::size_t i : {kSrc, kWeights, kDst}) {
    const std::size_t bytes = bytes_of_copy(way.form, i);
    used.values[i] = bytes > 0 ? copy : tensors.values[i];
    if (bytes > 0 && i != result_) copy_tensor(worker, way.form, i, tensors.values[i], copy);
    copy += bytes;
  }
  if (bytes_of_bias_copy(way) > 0) {
    used.bias = copy;
    gpu::round(worker, task_.shape.filters, static_cast<const float*>(tensors.bias),
               reinterpret_cast<Bf16*>(copy));
  }
  const cudnnStatus_t status = way.plan.run(worker.dnn(), used, memory);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  void* result = tensors.values[result_];
  if (used.values[result_] != result) copy_result(worker, way.form, used.values[result_], result);
  if (task_.pass != Pass::forward || way.form.ends) return status;
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

// The following functions find what cuDNN offers.
bool ConvolutionPlan::may_fold() const {
  return task_.pass != Pass::backward_data && gpu::is_worth_folding(task_.shape);
}

std::vector<ConvolutionPlan::Form> ConvolutionPlan::forms() const {
  const bool can_end = task_.may_end && (task_.activation == Activation::linear ||
                                         task_.activation == Activation::relu);
  std::vector<Form> forms;
  for (const bool folds : {false, true})
    for (const bool ends : {true, false})
      if ((can_end || !ends) && (may_fold() || !folds)) forms.push_back({ends, folds});
  return forms;
}

ConvolutionGraph ConvolutionPlan::graph(Form form, const Target& target) const {
  return ConvolutionGraph({.pass = task_.pass,
                           .shape = form.folds ? folded_ : task_.shape,
                           .type = multiplies_bf16_ ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT,
                           .alignment = task_.alignment,
                           .adds = task_.adds && bytes_of_copy(form, result_) == 0,
                           .bias = form.ends,
                           .relu = form.ends && task_.activation == Activation::relu},
                          target);
}

std::optional<ConvolutionPlan::Way> ConvolutionPlan::way(const Target& target, Form form,
                                                         EngineConfig config) const {
  if (!config.meets(demands_)) return std::nullopt;
  ExecutionPlan plan(config, target);
  if (!succeeds(plan.status()) || plan.workspace_bytes() > most_workspace_) return std::nullopt;
  return Way{form, std::move(config), std::move(plan)};
}

void ConvolutionPlan::for_each_way(const Target& target, Form form, std::size_t most_memory,
                                   const std::function<bool(Way)>& visit) const {
  std::map<std::uint64_t, int> variants;  // tried so far, by engine
  for (EngineConfig& config : engine_configs(graph(form, target), target)) {
    if (config.numbers.empty() || variants[config.numbers[0]] == kMostVariants) continue;
    std::optional<Way> one = way(target, form, std::move(config));
    if (!one || memory_for(*one) > most_memory) continue;
    ++variants[one->config.numbers[0]];
    if (!visit(std::move(*one))) return;
  }
}

// The following functions choose.

// Returns false after an error, so that another way is tried. In a deterministic run, lack of
// memory throws instead, because memory must not decide on the way.
bool ConvolutionPlan::succeeds(cudnnStatus_t status) const {
  if (demands_.deterministic) check_memory(status, "a convolution");
  return status == CUDNN_STATUS_SUCCESS;
}

// Returns whether the way works. If cuDNN adds the bias, the trial has a bias of NaN, because
// cuDNN's relu may lose NaN although it is asked to keep it.
bool ConvolutionPlan::works(CudaWorker& worker, const Way& way, ConvolutionTensors tensors,
                            std::byte* memory) const {
  const auto runs = [&] { return succeeds(enqueue(worker, way, tensors, memory)); };
  if (!way.form.ends) return runs();
  const std::size_t bytes = sizeof(float) * task_.shape.filters;
  const TrialMemory nan(worker, bytes);
  nan.fill(0xFF, bytes);
  tensors.bias = nan.data();
  return runs() && kept_nan(worker, tensors.values[result_], bytes_of_result_value());
}

bool ConvolutionPlan::take(CudaWorker& worker, const ConvolutionTensors& tensors, Way way) {
  try {
    auto* memory = static_cast<std::byte*>(worker.workspace(memory_for(way)));
    if (works(worker, way, tensors, memory)) way_.emplace(std::move(way));
  } catch (const std::bad_alloc&) {  // the memory that is left is too little
    if (demands_.deterministic) throw;
  }
  return usable();
}

std::optional<ConvolutionPlan::Numbers> ConvolutionPlan::take_fastest(
    CudaWorker& worker, const Target& target, const ConvolutionTensors& tensors) {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for free memory");
  // Allocating half of the free memory may fail, because it is fragmented or another program takes
  // it first. So smaller sizes follow.
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
  for (const Form form : forms())
    for_each_way(target, form, most_memory, [&](Way one) {
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
  Numbers numbers{((*best)->form.ends ? kEnds : 0) | ((*best)->form.folds ? kFolds : 0)};
  numbers.insert(numbers.end(), (*best)->config.numbers.begin(), (*best)->config.numbers.end());
  if (!take(worker, tensors, std::move(**best))) return std::nullopt;
  return numbers;
}

void ConvolutionPlan::choose(CudaWorker& worker, ConvolutionTensors tensors) {
  // If the result will be overwritten anyway, trials write to it. Otherwise they write to `apart`.
  std::optional<TrialMemory> apart;
  if (task_.adds) {
    apart.emplace(worker, static_cast<std::size_t>(counts_[result_]) * bytes_of_result_value());
    tensors.values[result_] = apart->data();
  }
  const Target target{.handle = worker.dnn()};
  // Measurements may choose another way in each run, which rounds results differently. So a
  // deterministic run does not measure.
  if (demands_.deterministic) {
    for (const Form form : forms())
      if (!usable())
        for_each_way(target, form, std::numeric_limits<std::size_t>::max(),
                     [&](Way one) { return !take(worker, tensors, std::move(one)); });
    return;
  }
  ChoiceTable::shared(worker.device_name(), {"cuDNN", cudnnGetVersion()})
      .choose(
          description(),
          [&](const Numbers& numbers) {
            if (numbers.empty()) return false;
            const Form form{(numbers[0] & kEnds) != 0, (numbers[0] & kFolds) != 0};
            // The task must allow this Form.
            if ((form.ends && !forms().front().ends) || (form.folds && !may_fold())) return false;
            std::optional<Way> one = way(
                target, form,
                engine_config(graph(form, target), target, {numbers.begin() + 1, numbers.end()}));
            return one && take(worker, tensors, std::move(*one));
          },
          [&] { return take_fastest(worker, target, tensors); });
}

// Returns the text that identifies a measurement on one kind of device.
std::string ConvolutionPlan::description() const {
  const ConvShape& s = task_.shape;
  return fmt::format(
      "{}{} {}x{}x{}x{}, {} {}x{}, stride {}x{}, pad {}x{}, dilation {}x{}, groups {}, {}{}, "
      "{}-byte tensors{}",
      name_of(task_.pass), task_.adds ? " (adds)" : "", s.n, s.h, s.w, s.c, s.filters, s.kernel_h,
      s.kernel_w, s.stride_h, s.stride_w, s.pad_h, s.pad_w, s.dilation_h, s.dilation_w, s.groups,
      multiplies_bf16_ ? "bf16" : omni::name_of(precision_),
      multiplies_bf16_ && !task_.bf16_values ? " of floats" : "", task_.alignment,
      !forms().front().ends                    ? ""
      : task_.activation == Activation::linear ? " and bias"
                                               : " and bias and relu");
}

}  // namespace omni::cudnn
