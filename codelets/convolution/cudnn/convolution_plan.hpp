// What cuDNN needs to run one pass of a convolution: descriptors of its tensors and, chosen once
// per shape, the algorithm. The three passes differ only in which functions of cuDNN they are; all
// take two tensors, and write or add to a third one. In bf16 the three are copies.
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
#include "codelets/convolution/cudnn/algorithm_table.hpp"
#include "codelets/convolution/cudnn/bf16_copies.hpp"
#include "codelets/cuda/trial_memory.hpp"
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

struct ForwardPass {  // src, weights -> dst
  static constexpr std::string_view kName = "forward";
  using Result = cudnnConvolutionFwdAlgoPerf_t;
  static constexpr auto find = cudnnFindConvolutionForwardAlgorithmEx;
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
  using Result = cudnnConvolutionBwdFilterAlgoPerf_t;
  static constexpr auto find = cudnnFindConvolutionBackwardFilterAlgorithmEx;
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
  using Result = cudnnConvolutionBwdDataAlgoPerf_t;
  static constexpr auto find = cudnnFindConvolutionBackwardDataAlgorithmEx;
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
  ConvolutionPlan(CudaWorker& worker, const ConvShape& shape, float keep, const float* first,
                  const float* second)
      : shape_(shape),
        keep_(keep),
        precision_(implementation_policy().precision),
        in_bf16_(precision_ == Precision::bf16),
        geometry_(shape, in_bf16_ ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT) {
    if (geometry_.describable && in_bf16_) {
      const TrialMemory memory(worker, copies_bytes());
      const Copies copies = copy(worker, first, second, memory.data());
      choose(worker, copies.first, copies.second, copies.out);
    } else if (geometry_.describable) {
      const TrialMemory out(worker,
                            sizeof(float) * static_cast<std::size_t>(Pass::out_count(shape)));
      choose(worker, first, second, out.data());
    }
    if (!usable_)
      log::warn("cuDNN has no algorithm for the convolution {}: it is lowered to matrix products",
                description());
  }

  // False: cuDNN can do nothing with this shape.
  bool usable() const { return usable_; }

  void run(CudaWorker& worker, const float* first, const float* second, float* out) const {
    constexpr auto kWhat = "a convolution of cuDNN";
    if (!in_bf16_) {
      check(enqueue(worker, first, second, keep_, out), kWhat);
      return;
    }
    const Copies copies =
        copy(worker, first, second, workspace(worker) + aligned(workspace_bytes_));
    check(enqueue(worker, copies.first, copies.second, 0.0f, copies.out), kWhat);
    gpu::add_bf16(worker, Pass::out_count(shape_), copies.out, keep_, out);
  }

  // False: cuDNN's tensors are copies, with which nothing can be fused.
  bool in_place() const { return !in_bf16_; }
  const Geometry& geometry() const { return geometry_; }
  Algorithm algorithm() const { return algorithm_; }
  std::byte* workspace(CudaWorker& worker) const {
    return static_cast<std::byte*>(
        worker.workspace(aligned(workspace_bytes_) + (in_bf16_ ? copies_bytes() : 0)));
  }
  std::size_t workspace_bytes() const { return workspace_bytes_; }

 private:
  static constexpr std::size_t kMostWorkspace = std::size_t{1} << 30;

  using Candidates = std::vector<typename Pass::Result>;

  struct Copies {
    gpu::Bf16 *first, *second, *out;
  };

  // cuDNN's tensors begin where whole vectors do.
  static std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }
  static std::size_t copy_bytes(std::int64_t count) {
    return aligned(sizeof(gpu::Bf16) * static_cast<std::size_t>(count));
  }
  std::size_t copies_bytes() const {
    return copy_bytes(Pass::first_count(shape_)) + copy_bytes(Pass::second_count(shape_)) +
           copy_bytes(Pass::out_count(shape_));
  }

  // Rounds what is multiplied.
  Copies copy(CudaWorker& worker, const float* first, const float* second,
              std::byte* memory) const {
    const auto bf16 = [&](std::size_t at) { return reinterpret_cast<gpu::Bf16*>(memory + at); };
    const std::int64_t firsts = Pass::first_count(shape_), seconds = Pass::second_count(shape_);
    const Copies copies{bf16(0), bf16(copy_bytes(firsts)),
                        bf16(copy_bytes(firsts) + copy_bytes(seconds))};
    gpu::round_to_bf16(worker, firsts, first, copies.first);
    gpu::round_to_bf16(worker, seconds, second, copies.second);
    return copies;
  }

  // What distinguishes measurements on a device.
  std::string description() const {
    const ConvShape& s = shape_;
    return fmt::format(
        "{}{} {}x{}x{}x{}, {} {}x{}, stride {}x{}, pad {}x{}, dilation {}x{}, groups {}, {}",
        Pass::kName, keep_ != 0 ? " (adds)" : "", s.n, s.h, s.w, s.c, s.filters, s.kernel_h,
        s.kernel_w, s.stride_h, s.stride_w, s.pad_h, s.pad_w, s.dilation_h, s.dilation_w, s.groups,
        name_of(precision_));
  }

  cudnnStatus_t enqueue(CudaWorker& worker, const void* first, const void* second, float keep,
                        void* out) const {
    const float one = 1;
    return Pass::run(worker.dnn(), &one, Pass::first(geometry_), first, Pass::second(geometry_),
                     second, geometry_.convolution, algorithm_, workspace(worker), workspace_bytes_,
                     &keep, Pass::out(geometry_), out);
  }

  // Becomes a plan with this choice, if it runs, also in the memory that is left.
  bool works(CudaWorker& worker, const AlgorithmChoice& choice, const void* first,
             const void* second, void* trial) {
    algorithm_ = static_cast<Algorithm>(choice.algorithm);
    try {
      usable_ =
          cudnnSetConvolutionMathType(geometry_.convolution,
                                      static_cast<cudnnMathType_t>(choice.math)) ==
              CUDNN_STATUS_SUCCESS &&
          Pass::workspace_size(worker.dnn(), Pass::first(geometry_), Pass::second(geometry_),
                               geometry_.convolution, Pass::out(geometry_), algorithm_,
                               &workspace_bytes_) == CUDNN_STATUS_SUCCESS &&
          workspace_bytes_ <= kMostWorkspace &&
          enqueue(worker, first, second, in_bf16_ ? 0.0f : keep_, trial) == CUDNN_STATUS_SUCCESS;
    } catch (const std::bad_alloc&) {
      usable_ = false;
    }
    cudaGetLastError();  // a refusal may leave one, which the next launch must not find
    return usable_;
  }

  // Best first. ask(most, count, results) is a function of cuDNN.
  template <class Ask>
  Candidates candidates(Ask ask) const {
    check(cudnnSetConvolutionMathType(geometry_.convolution,
                                      // The default allows the matrix units to round to TF32.
                                      precision_ == Precision::fp32   ? CUDNN_FMA_MATH
                                      : precision_ == Precision::tf32 ? CUDNN_DEFAULT_MATH
                                                                      : CUDNN_TENSOR_OP_MATH),
          "choosing the precision of a convolution");
    Candidates found(64);  // every algorithm, with several kinds of arithmetic
    int count = 0;
    const cudnnStatus_t status = ask(static_cast<int>(found.size()), &count, found.data());
    if (!refused(status)) check(status, "asking cuDNN for convolution algorithms");
    found.resize(status == CUDNN_STATUS_SUCCESS ? static_cast<std::size_t>(count) : 0);
    std::erase_if(found, [](const auto& each) {
      return each.status != CUDNN_STATUS_SUCCESS ||
             each.mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION ||
             (implementation_policy().deterministic && each.determinism != CUDNN_DETERMINISTIC);
    });
    if (precision_ == Precision::fp32) keep_single_precision(found);
    return found;
  }

  // cuDNN offers TensorFloat-32 unasked. If it offers nothing else, the algorithms may still be
  // right, and are told to do without.
  static void keep_single_precision(Candidates& found) {
    const auto rounds = [](const auto& each) { return each.mathType != CUDNN_FMA_MATH; };
    if (!std::all_of(found.begin(), found.end(), rounds)) std::erase_if(found, rounds);
    for (auto& each : found) each.mathType = CUDNN_FMA_MATH;
  }

  // out: where trials may write.
  void choose(CudaWorker& worker, const void* first, const void* second, void* out) {
    const Geometry& g = geometry_;
    const auto runs = [&](const AlgorithmChoice& choice) {
      return works(worker, choice, first, second, out);
    };
    const auto first_that_runs = [&](const Candidates& found) -> std::optional<AlgorithmChoice> {
      for (const auto& each : found)
        if (const AlgorithmChoice choice{each.algo, each.mathType}; runs(choice)) return choice;
      return std::nullopt;
    };
    const auto guessed = [&] {
      return candidates([&](int most, int* count, auto* results) {
        return Pass::guess(worker.dnn(), Pass::first(g), Pass::second(g), g.convolution,
                           Pass::out(g), most, count, results);
      });
    };
    const auto measured = [&] {
      std::size_t free = 0, total = 0, bytes = 0;
      check(cudaMemGetInfo(&free, &total), "asking for free memory");
      for (const auto& each : guessed())
        if (each.memory <= std::min(kMostWorkspace, free / 2)) bytes = std::max(bytes, each.memory);
      const TrialMemory workspace(worker, bytes);
      // cuDNN may measure in a stream of its own: what was enqueued before, and may use the memory
      // that trials were given since, must be done.
      check(cudaStreamSynchronize(worker.stream()), "waiting before convolutions are tried");
      return candidates([&](int most, int* count, auto* results) {
        return Pass::find(worker.dnn(), Pass::first(g), first, Pass::second(g), second,
                          g.convolution, Pass::out(g), out, most, count, results, workspace.data(),
                          bytes);
      });
    };
    if (implementation_policy().deterministic) {
      // What measuring chooses may change from run to run, and with it how results are rounded.
      first_that_runs(guessed());
      return;
    }
    cudaDeviceProp device;
    check(cudaGetDeviceProperties(&device, worker.device()), "asking for the device's name");
    AlgorithmTable::shared(device.name, cudnnGetVersion()).choose(description(), runs, [&] {
      return first_that_runs(measured());
    });
  }

  ConvShape shape_;
  float keep_;
  Precision precision_;
  bool in_bf16_;
  Geometry geometry_;
  Algorithm algorithm_{};
  std::size_t workspace_bytes_ = 0;
  bool usable_ = false;
};

}  // namespace omni::cudnn
