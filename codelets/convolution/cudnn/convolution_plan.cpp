// This file computes a pass in one of the ways that cuDNN offers.
#include "codelets/convolution/cudnn/convolution_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "codelets/convolution/cudnn/folded_tensors.hpp"
#include "codelets/cuda/plans.hpp"
#include "codelets/elementwise/channel_bias.hpp"
#include "runtime/bf16/float_copies.hpp"
#include "runtime/log.hpp"
#include "runtime/tasks/calls/task_chain.hpp"

namespace omni::cudnn {
namespace {

constexpr std::size_t kSrc = 0, kWeights = 1, kDst = 2;  // indices into ConvolutionTensors::values
// Each group has a launch of its own if it is a convolution by itself.
constexpr int kMostGroups = 8;

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

void ConvolutionPlan::run(CudaWorker& worker, const ConvolutionTensors& tensors) {
  if (!untried_.empty() && !time_counts() && TrialTime::of_process().left()) go_on(worker, tensors);
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
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  const std::int64_t bytes_of_value = multiplies_bf16_ ? sizeof(Bf16) : sizeof(float);
  for (int group = 0; group < (way.form.splits ? task_.shape.groups : 1); ++group) {
    ConvolutionTensors part = used;
    const auto of_group = [&](auto* tensor, std::size_t i) {
      return reinterpret_cast<decltype(tensor)>(reinterpret_cast<std::uintptr_t>(tensor) +
                                                group * step(i) * bytes_of_value);
    };
    for (const std::size_t i : {kSrc, kWeights, kDst}) part.values[i] = of_group(used.values[i], i);
    if (used.bias != nullptr) part.bias = of_group(used.bias, kDst);
    status = way.plan.run(worker.dnn(), part, memory);
    if (status != CUDNN_STATUS_SUCCESS) return status;
  }
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

bool ConvolutionPlan::may_split() const {
  return task_.shape.groups > 1 && task_.shape.groups <= kMostGroups;
}

ConvShape ConvolutionPlan::shape_of_group() const {
  ConvShape shape = task_.shape;
  shape.c = shape.group_c();
  shape.filters = shape.group_filters();
  shape.groups = 1;
  return shape;
}

std::int64_t ConvolutionPlan::step(std::size_t tensor) const {
  const ConvShape& s = task_.shape;
  return tensor == kSrc       ? s.group_c()
         : tensor == kWeights ? std::int64_t{s.group_filters()} * s.taps()
                              : s.group_filters();
}

std::vector<ConvolutionPlan::Form> ConvolutionPlan::forms() const {
  const bool can_end = task_.may_end && (task_.activation == Activation::linear ||
                                         task_.activation == Activation::relu);
  std::vector<Form> forms;
  for (const bool folds : {false, true})
    for (const bool ends : {true, false})
      if ((can_end || !ends) && (may_fold() || !folds)) forms.push_back({ends, folds});
  const auto bytes =
      static_cast<std::size_t>(step(kDst)) * (multiplies_bf16_ ? sizeof(Bf16) : sizeof(float));
  for (const bool ends : {true, false})  // the bias of each group must be aligned
    if (may_split() && (!ends || (can_end && bytes % kWidestLoad == 0)))
      forms.push_back({.ends = ends, .splits = true});
  return forms;
}

ConvolutionGraph ConvolutionPlan::graph(Form form, const Target& target) const {
  int alignment = task_.alignment;
  if (form.splits)  // that of every group
    for (const std::size_t tensor : {kSrc, kWeights, kDst}) {
      const std::int64_t bytes = step(tensor) * (multiplies_bf16_ ? 2 : 4);
      alignment = static_cast<int>(std::min<std::int64_t>(alignment, bytes & -bytes));
    }
  return ConvolutionGraph({.pass = task_.pass,
                           .shape = form.folds    ? folded_
                                    : form.splits ? shape_of_group()
                                                  : task_.shape,
                           .type = multiplies_bf16_ ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT,
                           .stored_c = form.splits ? task_.shape.c : 0,
                           .stored_filters = form.splits ? task_.shape.filters : 0,
                           .alignment = alignment,
                           .adds = task_.adds && bytes_of_copy(form, result_) == 0,
                           .bias = form.ends,
                           .relu = form.ends && task_.activation == Activation::relu},
                          target);
}

// Returns the text that identifies a measurement on one kind of device.
std::string ConvolutionPlan::description() const {
  const ConvShape& s = task_.shape;
  return fmt::format(
      "{}{} {}x{}x{}x{}, {} {}x{}, stride {}x{}, pad {}x{}, dilation {}x{}, groups {}, {}{}, "
      "{}-byte tensors{}{}",
      name_of(task_.pass), task_.adds ? " (adds)" : "", s.n, s.h, s.w, s.c, s.filters, s.kernel_h,
      s.kernel_w, s.stride_h, s.stride_w, s.pad_h, s.pad_w, s.dilation_h, s.dilation_w, s.groups,
      multiplies_bf16_ ? "bf16" : omni::name_of(precision_),
      multiplies_bf16_ && !task_.bf16_values ? " of floats" : "", task_.alignment,
      !forms().front().ends                    ? ""
      : task_.activation == Activation::linear ? " and bias"
                                               : " and bias and relu",
      may_split() ? ", or by group" : "");
}

}  // namespace omni::cudnn
