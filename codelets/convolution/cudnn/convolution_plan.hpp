// What cuDNN needs to run one pass of a convolution: descriptors of its tensors and, chosen once
// per shape, the algorithm. The three passes differ only in which functions of cuDNN they are; all
// take two tensors, and write or add to a third one.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codelets/convolution/convolution_shape.hpp"
#include "codelets/convolution/cudnn/algorithm_table.hpp"
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

// cuDNN says in several ways that it cannot do something; everything else is a failure.
inline bool refused(cudnnStatus_t status) {
  const int category = CUDNN_STATUS_CATEGORY(status);
  return category == CUDNN_STATUS_NOT_SUPPORTED || category == CUDNN_STATUS_BAD_PARAM;
}

// Device memory for as long as something is tried out.
class TrialMemory {
 public:
  TrialMemory(const CudaWorker& worker, std::size_t bytes) : stream_(worker.stream()) {
    // There is no allocation of nothing.
    check(cudaMallocAsync(&data_, std::max<std::size_t>(bytes, 1), stream_),
          "allocating memory to try a convolution");
  }
  ~TrialMemory() { cudaFreeAsync(data_, stream_); }
  TrialMemory(const TrialMemory&) = delete;
  TrialMemory& operator=(const TrialMemory&) = delete;
  float* data() const { return static_cast<float*>(data_); }

 private:
  cudaStream_t stream_;
  void* data_ = nullptr;
};

struct Geometry {
  explicit Geometry(const ConvShape& s);

  TensorDescriptor src, dst;
  FilterDescriptor weights;
  ConvolutionDescriptor convolution;
  bool describable = true;  // not more values than cuDNN can count
};

inline Geometry::Geometry(const ConvShape& s) {
  const auto set = [this](cudnnStatus_t status) {
    if (!refused(status)) check(status, "describing a convolution to cuDNN");
    describable = describable && status == CUDNN_STATUS_SUCCESS;
  };
  constexpr auto kLayout = CUDNN_TENSOR_NHWC;
  constexpr auto kType = CUDNN_DATA_FLOAT;
  set(cudnnSetTensor4dDescriptor(src, kLayout, kType, s.n, s.c, s.h, s.w));
  set(cudnnSetTensor4dDescriptor(dst, kLayout, kType, s.n, s.filters, s.out_h(), s.out_w()));
  set(cudnnSetFilter4dDescriptor(weights, kType, kLayout, s.filters, s.group_c(), s.kernel_h,
                                 s.kernel_w));
  set(cudnnSetConvolution2dDescriptor(convolution, s.pad_h, s.pad_w, s.stride_h, s.stride_w,
                                      s.dilation_h, s.dilation_w, CUDNN_CROSS_CORRELATION, kType));
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
  static std::int64_t out_count(const ConvShape& shape) { return shape.src_count(); }
};

template <class Pass>
class ConvolutionPlan {
 public:
  using Algorithm = decltype(Pass::Result::algo);

  // Chooses the algorithm by trying on these inputs. keep: 1 adds to the output, 0 overwrites it.
  ConvolutionPlan(CudaWorker& worker, const ConvShape& shape, float keep, const float* first,
                  const float* second)
      : shape_(shape), keep_(keep), geometry_(shape) {
    if (geometry_.describable) choose(worker, first, second);
    if (!usable_)
      log::warn("cuDNN has no algorithm for the convolution {}: it is lowered to matrix products",
                description());
  }

  // False: cuDNN can do nothing with this shape.
  bool usable() const { return usable_; }

  void run(CudaWorker& worker, const float* first, const float* second, float* out) const {
    check(enqueue(worker, first, second, out), "a convolution of cuDNN");
  }

  const Geometry& geometry() const { return geometry_; }
  Algorithm algorithm() const { return algorithm_; }
  void* workspace(CudaWorker& worker) const { return worker.workspace(workspace_bytes_); }
  std::size_t workspace_bytes() const { return workspace_bytes_; }

 private:
  static constexpr std::size_t kMostWorkspace = std::size_t{1} << 30;

  using Candidates = std::vector<typename Pass::Result>;

  // What distinguishes measurements on a device.
  std::string description() const {
    const ConvShape& s = shape_;
    return fmt::format(
        "{}{} {}x{}x{}x{}, {} {}x{}, stride {}x{}, pad {}x{}, dilation {}x{}, groups {}, {}",
        Pass::kName, keep_ != 0 ? " (adds)" : "", s.n, s.h, s.w, s.c, s.filters, s.kernel_h,
        s.kernel_w, s.stride_h, s.stride_w, s.pad_h, s.pad_w, s.dilation_h, s.dilation_w, s.groups,
        implementation_policy().precision == Precision::tf32 ? "tf32" : "fp32");
  }

  cudnnStatus_t enqueue(CudaWorker& worker, const float* first, const float* second,
                        float* out) const {
    const float one = 1;
    return Pass::run(worker.dnn(), &one, Pass::first(geometry_), first, Pass::second(geometry_),
                     second, geometry_.convolution, algorithm_, workspace(worker), workspace_bytes_,
                     &keep_, Pass::out(geometry_), out);
  }

  // Becomes a plan with this choice, if it runs.
  bool works(CudaWorker& worker, const AlgorithmChoice& choice, const float* first,
             const float* second, float* trial) {
    algorithm_ = static_cast<Algorithm>(choice.algorithm);
    usable_ = cudnnSetConvolutionMathType(geometry_.convolution,
                                          static_cast<cudnnMathType_t>(choice.math)) ==
                  CUDNN_STATUS_SUCCESS &&
              Pass::workspace_size(worker.dnn(), Pass::first(geometry_), Pass::second(geometry_),
                                   geometry_.convolution, Pass::out(geometry_), algorithm_,
                                   &workspace_bytes_) == CUDNN_STATUS_SUCCESS &&
              workspace_bytes_ <= kMostWorkspace &&
              enqueue(worker, first, second, trial) == CUDNN_STATUS_SUCCESS;
    cudaGetLastError();  // a refusal may leave one, which the next launch must not find
    return usable_;
  }

  // Best first. ask(most, count, results) is a function of cuDNN.
  template <class Ask>
  Candidates candidates(Ask ask) const {
    const bool tf32 = implementation_policy().precision == Precision::tf32;
    check(cudnnSetConvolutionMathType(geometry_.convolution,
                                      // The default allows the matrix units to round to TF32.
                                      tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH),
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
    if (!tf32) keep_single_precision(found);
    return found;
  }

  // cuDNN offers TensorFloat-32 unasked. If it offers nothing else, the algorithms may still be
  // right, and are told to do without.
  static void keep_single_precision(Candidates& found) {
    const auto rounds = [](const auto& each) { return each.mathType != CUDNN_FMA_MATH; };
    if (!std::all_of(found.begin(), found.end(), rounds)) std::erase_if(found, rounds);
    for (auto& each : found) each.mathType = CUDNN_FMA_MATH;
  }

  void choose(CudaWorker& worker, const float* first, const float* second) {
    const Geometry& g = geometry_;
    const TrialMemory out(worker,
                          sizeof(float) * static_cast<std::size_t>(Pass::out_count(shape_)));
    const auto runs = [&](const AlgorithmChoice& choice) {
      return works(worker, choice, first, second, out.data());
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
      return candidates([&](int most, int* count, auto* results) {
        return Pass::find(worker.dnn(), Pass::first(g), first, Pass::second(g), second,
                          g.convolution, Pass::out(g), out.data(), most, count, results,
                          workspace.data(), bytes);
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
  Geometry geometry_;
  Algorithm algorithm_{};
  std::size_t workspace_bytes_ = 0;
  bool usable_ = false;
};

}  // namespace omni::cudnn
