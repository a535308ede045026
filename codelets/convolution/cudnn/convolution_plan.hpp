// What cuDNN needs to run one pass of a convolution: descriptors of its tensors and, chosen once
// per shape, the algorithm. The three passes differ only in which functions of cuDNN they are; all
// take two tensors, and write or add to a third one. In bf16, those that are floats are copies.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codelets/convolution/convolution_shape.hpp"
#include "codelets/convolution/cudnn/bf16_sum.hpp"
#include "codelets/cuda/choice_table.hpp"
#include "codelets/cuda/fastest.hpp"
#include "codelets/cuda/trial_memory.hpp"
#include "runtime/bf16/gpu_rounding.hpp"
#include "runtime/cuda/worker.hpp"
#include "runtime/log.hpp"
#include "runtime/tasks/codelet.hpp"

namespace omni::cudnn {

template <class Handle, cudnnStatus_t (*create)(Handle*), cudnnStatus_t (*destroy)(Handle)>
class Descriptor {
 public:
  Descriptor() { check(create(&handle_), "making a descriptor of cuDNN"); }
  ~Descriptor() { destroy(handle_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator Handle() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};
using TensorDescriptor =
    Descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using FilterDescriptor =
    Descriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using ConvolutionDescriptor =
    Descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor,
               cudnnDestroyConvolutionDescriptor>;

// cuDNN says in several ways that it cannot do something; everything else is a failure. Internal
// errors, but those of memory, are what it could not compile or look up, which an algorithm or a
// lowering without cuDNN does not need; a GPU that has failed will say so again.
inline bool refused(cudnnStatus_t status) {
  const int category = CUDNN_STATUS_CATEGORY(status);
  return category == CUDNN_STATUS_NOT_SUPPORTED || category == CUDNN_STATUS_BAD_PARAM ||
         (category == CUDNN_STATUS_INTERNAL_ERROR && !is_out_of_memory(status));
}

struct Geometry {
  Geometry(const ConvShape& s, cudnnDataType_t type);

  TensorDescriptor src, dst;
  FilterDescriptor weights;
  ConvolutionDescriptor convolution;
  bool describable = true;  // not more values than cuDNN can count
};

inline Geometry::Geometry(const ConvShape& s, cudnnDataType_t type) {
  const auto set = [this](cudnnStatus_t status) {
    if (!refused(status)) check(status, "describing a convolution to cuDNN");
    describable = describable && status == CUDNN_STATUS_SUCCESS;
  };
  constexpr auto kLayout = CUDNN_TENSOR_NHWC;
  set(cudnnSetTensor4dDescriptor(src, kLayout, type, s.n, s.c, s.h, s.w));
  set(cudnnSetTensor4dDescriptor(dst, kLayout, type, s.n, s.filters, s.out_h(), s.out_w()));
  set(cudnnSetFilter4dDescriptor(weights, type, kLayout, s.filters, s.group_c(), s.kernel_h,
                                 s.kernel_w));
  set(cudnnSetConvolution2dDescriptor(convolution, s.pad_h, s.pad_w, s.stride_h, s.stride_w,
                                      s.dilation_h, s.dilation_w, CUDNN_CROSS_CORRELATION,
                                      CUDNN_DATA_FLOAT));  // the sums
  set(cudnnSetConvolutionGroupCount(convolution, s.groups));
}

enum class Operand { first, second, out };

struct ForwardPass {  // src, weights -> dst
  static constexpr std::string_view kName = "forward";
  static constexpr Operand kWeights = Operand::second;
  using Result = cudnnConvolutionFwdAlgoPerf_t;
  static constexpr auto guess = cudnnGetConvolutionForwardAlgorithm_v7;
  static constexpr auto workspace_size = cudnnGetConvolutionForwardWorkspaceSize;
  static constexpr auto run = cudnnConvolutionForward;
  static const auto& first(const Geometry& geometry) { return geometry.src; }
  static const auto& second(const Geometry& geometry) { return geometry.weights; }
  static const auto& out(const Geometry& geometry) { return geometry.dst; }
  static std::int64_t first_count(const ConvShape& shape) { return shape.src_count(); }
  static std::int64_t second_count(const ConvShape& shape) { return shape.weights_count(); }
  static std::int64_t out_count(const ConvShape& shape) { return shape.dst_count(); }
};

struct WeightsPass {  // src, diff_dst -> diff_weights
  static constexpr std::string_view kName = "backward weights";
  static constexpr Operand kWeights = Operand::out;
  using Result = cudnnConvolutionBwdFilterAlgoPerf_t;
  static constexpr auto guess = cudnnGetConvolutionBackwardFilterAlgorithm_v7;
  static constexpr auto workspace_size = cudnnGetConvolutionBackwardFilterWorkspaceSize;
  static constexpr auto run = cudnnConvolutionBackwardFilter;
  static const auto& first(const Geometry& geometry) { return geometry.src; }
  static const auto& second(const Geometry& geometry) { return geometry.dst; }
  static const auto& out(const Geometry& geometry) { return geometry.weights; }
  static std::int64_t first_count(const ConvShape& shape) { return shape.src_count(); }
  static std::int64_t second_count(const ConvShape& shape) { return shape.dst_count(); }
  static std::int64_t out_count(const ConvShape& shape) { return shape.weights_count(); }
};

struct DataPass {  // weights, diff_dst -> diff_src
  static constexpr std::string_view kName = "backward data";
  static constexpr Operand kWeights = Operand::first;
  using Result = cudnnConvolutionBwdDataAlgoPerf_t;
  static constexpr auto guess = cudnnGetConvolutionBackwardDataAlgorithm_v7;
  static constexpr auto workspace_size = cudnnGetConvolutionBackwardDataWorkspaceSize;
  static constexpr auto run = cudnnConvolutionBackwardData;
  static const auto& first(const Geometry& geometry) { return geometry.weights; }
  static const auto& second(const Geometry& geometry) { return geometry.dst; }
  static const auto& out(const Geometry& geometry) { return geometry.src; }
  static std::int64_t first_count(const ConvShape& shape) { return shape.weights_count(); }
  static std::int64_t second_count(const ConvShape& shape) { return shape.dst_count(); }
  static std::int64_t out_count(const ConvShape& shape) { return shape.src_count(); }
};

template <class Pass>
class ConvolutionPlan {
 public:
  using Algorithm = decltype(Pass::Result::algo);

  // Chooses the algorithm by trying on these inputs. keep: 1 adds to the output, 0 overwrites it.
  // bf16_values: what is no weights is in bf16. spare: bytes that who runs it wants beside.
  ConvolutionPlan(CudaWorker& worker, const ConvShape& shape, float keep, bool bf16_values,
                  const void* first, const void* second, std::size_t spare = 0)
      : shape_(shape),
        keep_(keep),
        precision_(implementation_policy().precision),
        multiplies_bf16_(bf16_values || precision_ == Precision::bf16),
        tensors_are_bf16_(bf16_values),
        spare_(aligned(spare)),
        geometry_(shape, multiplies_bf16_ ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT) {
    if (geometry_.describable) {
      const std::size_t out_bytes = static_cast<std::size_t>(Pass::out_count(shape)) *
                                    (multiplies_bf16_ ? sizeof(Bf16) : sizeof(float));
      const TrialMemory memory(worker, copies_bytes() + out_bytes);
      choose(worker, bring(worker, first, second, memory.data() + copies_bytes(), memory.data()));
    }
    if (!usable_)
      log::warn("cuDNN has no algorithm for the convolution {}: it is lowered to matrix products",
                description());
  }

  // False: cuDNN can do nothing with this shape.
  bool usable() const { return usable_; }

  // The tensors as cuDNN gets them.
  struct Operands {
    const void *first, *second;
    void* out;
  };
  Operands bring(CudaWorker& worker, const void* first, const void* second, void* out) const {
    return bring(worker, first, second, out, workspace(worker) + aligned(workspace_bytes_));
  }

  void run(CudaWorker& worker, const void* first, const void* second, void* out) const {
    const Operands operands = bring(worker, first, second, out);
    check(enqueue(worker, operands, keep_in_cudnn(), workspace(worker)), "a convolution of cuDNN");
    if (copied(Operand::out))
      gpu::add_bf16(worker, Pass::out_count(shape_), static_cast<const Bf16*>(operands.out), keep_,
                    static_cast<float*>(out));
  }

  // False: what it gives is a copy, with which nothing can be fused.
  bool in_place() const { return !copied(Operand::out); }
  const Geometry& geometry() const { return geometry_; }
  cudnnDataType_t type() const { return multiplies_bf16_ ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT; }
  Algorithm algorithm() const { return algorithm_; }
  std::byte* workspace(CudaWorker& worker) const {
    return static_cast<std::byte*>(
        worker.workspace(aligned(workspace_bytes_) + copies_bytes() + spare_));
  }
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  std::byte* spare(CudaWorker& worker) const {
    return workspace(worker) + aligned(workspace_bytes_) + copies_bytes();
  }

 private:
  static constexpr std::size_t kMostWorkspace = std::size_t{1} << 30;

  using Guess = typename Pass::Result;

  // cuDNN's tensors begin where whole vectors do.
  static std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }
  bool copied(Operand operand) const {
    return multiplies_bf16_ && !(tensors_are_bf16_ && operand != Pass::kWeights);
  }
  std::size_t copy_bytes(Operand operand) const {
    if (!copied(operand)) return 0;
    const std::int64_t count = operand == Operand::first    ? Pass::first_count(shape_)
                               : operand == Operand::second ? Pass::second_count(shape_)
                                                            : Pass::out_count(shape_);
    return aligned(sizeof(Bf16) * static_cast<std::size_t>(count));
  }
  std::size_t copies_bytes() const {
    return copy_bytes(Operand::first) + copy_bytes(Operand::second) + copy_bytes(Operand::out);
  }

  // Rounds what is multiplied and is not in bf16, into `memory`.
  Operands bring(CudaWorker& worker, const void* first, const void* second, void* out,
                 std::byte* memory) const {
    const auto rounded = [&](Operand operand, std::int64_t count, const void* from) -> const void* {
      if (!copied(operand)) return from;
      auto* copy = reinterpret_cast<Bf16*>(memory);
      memory += copy_bytes(operand);
      gpu::round(worker, count, static_cast<const float*>(from), copy);
      return copy;
    };
    Operands operands{};
    operands.first = rounded(Operand::first, Pass::first_count(shape_), first);
    operands.second = rounded(Operand::second, Pass::second_count(shape_), second);
    operands.out = copied(Operand::out) ? memory : out;
    return operands;
  }

  // What distinguishes measurements on a device.
  std::string description() const {
    const ConvShape& s = shape_;
    return fmt::format(
        "{}{} {}x{}x{}x{}, {} {}x{}, stride {}x{}, pad {}x{}, dilation {}x{}, groups {}, {}",
        Pass::kName, adds() ? " (adds)" : "", s.n, s.h, s.w, s.c, s.filters, s.kernel_h, s.kernel_w,
        s.stride_h, s.stride_w, s.pad_h, s.pad_w, s.dilation_h, s.dilation_w, s.groups,
        multiplies_bf16_ ? "bf16" : name_of(precision_));
  }
  // In cuDNN.
  bool adds() const { return keep_ != 0 && !copied(Operand::out); }

  cudnnStatus_t enqueue(CudaWorker& worker, const Operands& operands, float keep,
                        std::byte* workspace) const {
    const float one = 1;
    return Pass::run(worker.dnn(), &one, Pass::first(geometry_), operands.first,
                     Pass::second(geometry_), operands.second, geometry_.convolution, algorithm_,
                     workspace, workspace_bytes_, &keep, Pass::out(geometry_), operands.out);
  }
  float keep_in_cudnn() const { return adds() ? keep_ : 0.0f; }

  // How cuDNN computes it: its own numbers.
  struct Choice {
    int algorithm = 0;
    int math = 0;  // how it multiplies
  };
  static constexpr std::size_t kNumbers = 2;

  // Becomes a plan with this choice, if cuDNN can.
  bool prepare(CudaWorker& worker, const Choice& choice) {
    algorithm_ = static_cast<Algorithm>(choice.algorithm);
    return cudnnSetConvolutionMathType(geometry_.convolution,
                                       static_cast<cudnnMathType_t>(choice.math)) ==
               CUDNN_STATUS_SUCCESS &&
           Pass::workspace_size(worker.dnn(), Pass::first(geometry_), Pass::second(geometry_),
                                geometry_.convolution, Pass::out(geometry_), algorithm_,
                                &workspace_bytes_) == CUDNN_STATUS_SUCCESS &&
           workspace_bytes_ <= kMostWorkspace;
  }
  // And if it runs, also in the memory that is left.
  bool works(CudaWorker& worker, const Choice& choice, const Operands& operands) {
    try {
      usable_ = prepare(worker, choice) && enqueue(worker, operands, keep_in_cudnn(),
                                                   workspace(worker)) == CUDNN_STATUS_SUCCESS;
    } catch (const std::bad_alloc&) {
      usable_ = false;
    }
    cudaGetLastError();  // a refusal may leave one, which the next launch must not find
    return usable_;
  }

  // Best first, as cuDNN guesses.
  std::vector<Guess> candidates(const CudaWorker& worker) const {
    check(cudnnSetConvolutionMathType(geometry_.convolution,
                                      // The default allows the matrix units to round to TF32.
                                      multiplies_bf16_                ? CUDNN_TENSOR_OP_MATH
                                      : precision_ == Precision::fp32 ? CUDNN_FMA_MATH
                                                                      : CUDNN_DEFAULT_MATH),
          "choosing the precision of a convolution");
    std::vector<Guess> found(64);  // every algorithm, with several kinds of arithmetic
    int count = 0;
    const cudnnStatus_t status = Pass::guess(
        worker.dnn(), Pass::first(geometry_), Pass::second(geometry_), geometry_.convolution,
        Pass::out(geometry_), static_cast<int>(found.size()), &count, found.data());
    if (!refused(status)) check(status, "asking cuDNN for convolution algorithms");
    found.resize(status == CUDNN_STATUS_SUCCESS ? static_cast<std::size_t>(count) : 0);
    std::erase_if(found, [](const auto& each) {
      return each.status != CUDNN_STATUS_SUCCESS ||
             each.mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION ||
             (implementation_policy().deterministic && each.determinism != CUDNN_DETERMINISTIC);
    });
    if (!multiplies_bf16_ && precision_ == Precision::fp32) keep_single_precision(found);
    return found;
  }
  static Choice choice_of(const Guess& guess) { return {guess.algo, guess.mathType}; }

  // cuDNN offers TensorFloat-32 unasked. If it offers nothing else, the algorithms may still be
  // right, and are told to do without.
  static void keep_single_precision(std::vector<Guess>& found) {
    const auto rounds = [](const auto& each) { return each.mathType != CUDNN_FMA_MATH; };
    if (!std::all_of(found.begin(), found.end(), rounds)) std::erase_if(found, rounds);
    for (auto& each : found) each.mathType = CUDNN_FMA_MATH;
  }

  // The fastest; what the others need of a workspace is given back.
  std::optional<Choice> measured(CudaWorker& worker, const Operands& operands) {
    std::size_t free = 0, total = 0, most = 0;
    check(cudaMemGetInfo(&free, &total), "asking for free memory");
    std::vector<Guess> found = candidates(worker);
    std::erase_if(
        found, [&](const Guess& each) { return each.memory > std::min(kMostWorkspace, free / 2); });
    for (const Guess& each : found) most = std::max(most, each.memory);
    const TrialMemory workspace(worker, most);
    const Guess* prepared = nullptr;
    const auto best = fastest(worker.stream(), found, [&](const Guess& each) {
      if (prepared != &each && !(prepare(worker, choice_of(each)) && workspace_bytes_ <= most))
        return false;
      prepared = &each;
      return enqueue(worker, operands, keep_in_cudnn(), workspace.data()) == CUDNN_STATUS_SUCCESS;
    });
    if (!best) return std::nullopt;
    return choice_of(*best);
  }

  // operands.out: where trials may write.
  void choose(CudaWorker& worker, const Operands& operands) {
    // What measuring chooses may change from run to run, and with it how results are rounded.
    if (implementation_policy().deterministic) {
      std::ranges::any_of(candidates(worker), [&](const Guess& each) {
        return works(worker, choice_of(each), operands);
      });
      return;
    }
    using Numbers = ChoiceTable::Numbers;
    ChoiceTable::shared(worker.device_name(), {"cuDNN", cudnnGetVersion(), kNumbers})
        .choose(
            description(),
            [&](const Numbers& numbers) {
              return works(worker, {static_cast<int>(numbers[0]), static_cast<int>(numbers[1])},
                           operands);
            },
            [&]() -> std::optional<Numbers> {
              const auto best = measured(worker, operands);
              if (!best || !works(worker, *best, operands)) return std::nullopt;
              return Numbers{static_cast<std::uint64_t>(best->algorithm),
                             static_cast<std::uint64_t>(best->math)};
            });
  }

  ConvShape shape_;
  float keep_;
  Precision precision_;
  bool multiplies_bf16_, tensors_are_bf16_;
  std::size_t spare_;
  Geometry geometry_;
  Algorithm algorithm_{};
  std::size_t workspace_bytes_ = 0;
  bool usable_ = false;
};

}  // namespace omni::cudnn
