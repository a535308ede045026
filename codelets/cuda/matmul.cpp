// A plan of a matrix product on cuBLASLt has the library's descriptors and the chosen algorithm.
#include "codelets/cuda/matmul.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "codelets/cuda/choice_table.hpp"
#include "codelets/cuda/fastest.hpp"
#include "codelets/cuda/plans.hpp"
#include "codelets/cuda/trial_time.hpp"
#include "runtime/cuda/first_launch.hpp"
#include "runtime/log.hpp"
#include "runtime/tasks/calls/task_chain.hpp"

namespace omni {
namespace {

using gpu::Matmul;
using gpu::MatmulOperands;

std::size_t most_workspace(const CudaWorker& worker) {
  return std::min(std::size_t{32} << 20, worker.most_workspace());
}
constexpr int kMostCandidates = 8;

struct Alignments {
  int a, b, product;  // alignments in bytes

  auto operator<=>(const Alignments&) const = default;
};

std::size_t bytes_of(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }
std::size_t bytes_of(const Matmul::Matrix& matrix, int rows, int columns) {
  return static_cast<std::size_t>(matrix.transposed ? columns : rows) *
         static_cast<std::size_t>(matrix.stride) * bytes_of(matrix.type);
}
const char* name_of(cudaDataType_t type) { return type == CUDA_R_32F ? "fp32" : "bf16"; }

// cuBLASLt's description of an algorithm is opaque. Its numbers may be stored for the same version
// of the library.
constexpr std::size_t kNumbers = std::extent_v<decltype(cublasLtMatmulAlgo_t::data)>;

cublasLtMatmulAlgo_t algorithm_of(const ChoiceTable::Numbers& numbers) {
  cublasLtMatmulAlgo_t algorithm;
  std::copy(numbers.begin(), numbers.end(), algorithm.data);
  return algorithm;
}

// Returns whether the algorithm computes the same bits every time. Split-K with an in-place
// reduction may add partial sums in any order.
bool repeats(const cublasLtMatmulAlgo_t& algorithm) {
  const auto get = [&]<class T>(cublasLtMatmulAlgoConfigAttributes_t attribute, T value) {
    check(
        cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof value, nullptr),
        "asking how an algorithm of cuBLASLt adds");
    return value;
  };
  return get(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, std::int32_t{}) <= 1 ||
         (get(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, std::uint32_t{}) &
          CUBLASLT_REDUCTION_SCHEME_INPLACE) == 0;
}

// Returns whether the status means that cuBLASLt cannot compute a product; it has several such
// codes. Other codes are failures. An internal error may also be a failure, but then later calls
// will fail.
bool refused(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
         status == CUBLAS_STATUS_ARCH_MISMATCH || status == CUBLAS_STATUS_INTERNAL_ERROR;
}

class MatmulPlan {
 public:
  MatmulPlan(CudaWorker& worker, const Matmul& matmul, const Alignments& alignments,
             const MatmulOperands& operands)
      : matmul_(matmul), alignments_(alignments) {
    describe(operands);
    choose(worker, operands);
    if (!usable_)
      log::warn("cuBLASLt has no algorithm for the product {}: it is computed otherwise",
                description());
  }

  bool usable() const { return usable_; }

  // If other work has disturbed the trials, they are repeated when nothing else computes and the
  // time of the call does not count.
  void run(CudaWorker& worker, const MatmulOperands& operands) {
    if (!settled_ && !time_counts() && TrialTime::of_process().left() &&
        CudaWorker::OthersAtRest(worker).so_far()) {
      const auto before = algorithm_;
      try {
        choose(worker, operands);
      } catch (const std::bad_alloc&) {
        usable_ = false;
      }
      if (!usable_) usable_ = become(worker, before);
    }
    check(enqueue(worker, operands, operands.product), "a matrix product of cuBLASLt");
  }

 private:
  void set(cublasLtMatmulDescAttributes_t attribute, auto value) {
    check(cublasLtMatmulDescSetAttribute(&operation_, attribute, &value, sizeof value),
          "describing a matrix product to cuBLASLt");
  }

  // Describes the matrices to cuBLASLt. It takes a row-major matrix as its transpose, so it
  // computes product^T = b^T * a^T.
  void describe(const MatmulOperands& operands) {
    const auto lay_out = [](cublasLtMatrixLayoutOpaque_t& layout, const Matmul::Matrix& matrix,
                            int rows, int columns) {
      if (matrix.transposed) std::swap(rows, columns);
      check(cublasLtMatrixLayoutInit(&layout, matrix.type, static_cast<std::uint64_t>(columns),
                                     static_cast<std::uint64_t>(rows), matrix.stride),
            "describing a matrix to cuBLASLt");
    };
    const auto& [m, n, k, a, b, product, adds, bias, relu] = matmul_;
    lay_out(a_, a, m, k);
    lay_out(b_, b, k, n);
    lay_out(product_, product, m, n);
    check(cublasLtMatmulDescInit(&operation_, gpu::compute_type(matmul_.a.type), CUDA_R_32F),
          "describing a matrix product to cuBLASLt");
    const auto order = [](bool transposed) {
      return static_cast<std::int32_t>(transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, order(b.transposed));
    set(CUBLASLT_MATMUL_DESC_TRANSB, order(a.transposed));
    set(CUBLASLT_MATMUL_DESC_EPILOGUE,
        static_cast<std::uint32_t>(bias && relu ? CUBLASLT_EPILOGUE_RELU_BIAS
                                   : bias       ? CUBLASLT_EPILOGUE_BIAS
                                   : relu       ? CUBLASLT_EPILOGUE_RELU
                                                : CUBLASLT_EPILOGUE_DEFAULT));
    if (bias)
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);  // cuBLASLt looks at its alignment
  }

  // Returns the algorithms to try. Those that cuBLASLt expects to be best come first.
  std::vector<cublasLtMatmulAlgo_t> candidates(const CudaWorker& worker) const {
    cublasLtMatmulPreferenceOpaque_t preference;
    check(cublasLtMatmulPreferenceInit(&preference), "describing preferences to cuBLASLt");
    const auto prefer = [&]<class T>(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
      check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
            "describing preferences to cuBLASLt");
    };
    const bool deterministic = implementation_policy().deterministic;
    const auto bytes = [](int alignment) { return static_cast<std::uint32_t>(alignment); };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{most_workspace(worker)});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, bytes(alignments_.b));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, bytes(alignments_.a));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, bytes(alignments_.product));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, bytes(alignments_.product));
    if (deterministic)
      prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
             std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    std::array<cublasLtMatmulHeuristicResult_t, kMostCandidates> results{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        worker.blas_lt(), operation(), layout(b_), layout(a_), layout(product_), layout(product_),
        &preference, kMostCandidates, results.data(), &count);
    if (refused(status)) return {};
    check(status, "asking cuBLASLt for algorithms");
    std::vector<cublasLtMatmulAlgo_t> found;
    for (int i = 0; i < count; ++i)
      if (const auto& each = results[i];
          each.state == CUBLAS_STATUS_SUCCESS && (!deterministic || repeats(each.algo)))
        found.push_back(each.algo);
    return found;
  }

  void choose(CudaWorker& worker, const MatmulOperands& operands) {
    // If the result will be overwritten anyway, trials write to it. Otherwise they write to
    // `apart`.
    std::optional<TrialMemory> apart;
    if (matmul_.adds) apart.emplace(worker, bytes_of(matmul_.product, matmul_.m, matmul_.n));
    void* const trial = apart ? apart->data() : operands.product;
    const auto runs = [&](const cublasLtMatmulAlgo_t& algorithm) {
      return become(worker, algorithm) && enqueues(worker, operands, trial);
    };
    const auto works = [&](const cublasLtMatmulAlgo_t& algorithm) {
      return runs(algorithm) && (!matmul_.relu || keeps_nan(worker, operands, trial));
    };
    if (implementation_policy().deterministic) {
      // Measurements may choose another algorithm in each run, which rounds results differently. So
      // a deterministic run takes the first that works.
      for (const cublasLtMatmulAlgo_t& each : candidates(worker))
        if ((usable_ = works(each))) return;
      return;
    }
    const auto measure = [&]() -> std::optional<ChoiceTable::Choice> {
      const Trial counts;
      const CudaWorker::OthersAtRest others(worker);
      std::vector<cublasLtMatmulAlgo_t> found = candidates(worker);
      std::erase_if(found, [&](const auto& each) { return !works(each); });
      const auto best = fastest(worker.stream(), found, runs);
      if (!best) return std::nullopt;
      using enum ChoiceTable::Trials;
      return ChoiceTable::Choice{{std::begin(best->data), std::end(best->data)},
                                 others.so_far() ? finished : disturbed};
    };
    const auto chosen =
        ChoiceTable::shared(worker.device_name(), {"cuBLASLt", cublasLtGetVersion(), kNumbers})
            .choose(
                description(), [&](const auto& numbers) { return works(algorithm_of(numbers)); },
                measure);
    usable_ = chosen && become(worker, algorithm_of(chosen->numbers));
    settled_ = !chosen || chosen->trials == ChoiceTable::Trials::finished;
  }

  // Uses this algorithm from now on. Returns false if cuBLASLt does not know it, or cannot use it
  // for this product.
  bool become(const CudaWorker& worker, const cublasLtMatmulAlgo_t& algorithm) {
    cublasLtMatmulHeuristicResult_t result{};
    if (cublasLtMatmulAlgoCheck(worker.blas_lt(), operation(), layout(b_), layout(a_),
                                layout(product_), layout(product_), &algorithm,
                                &result) != CUBLAS_STATUS_SUCCESS ||
        result.workspaceSize > most_workspace(worker))
      return false;
    algorithm_ = algorithm;
    workspace_bytes_ = result.workspaceSize;
    return true;
  }

  bool enqueues(CudaWorker& worker, const MatmulOperands& operands, void* product) {
    try {
      if (enqueue(worker, operands, product) == CUBLAS_STATUS_SUCCESS) return true;
    } catch (const std::bad_alloc&) {  // there is no memory for a workspace
      if (implementation_policy().deterministic) throw;
    }
    cudaGetLastError();  // clears the error that a refusal may leave
    return false;
  }

  bool keeps_nan(CudaWorker& worker, MatmulOperands operands, void* product) {
    const std::size_t bytes = bytes_of(matmul_.a, matmul_.m, matmul_.k);
    const TrialMemory nan(worker, bytes);
    nan.fill(0xFF, bytes);
    operands.a = nan.data();
    return enqueues(worker, operands, product) &&
           kept_nan(worker, product, bytes_of(matmul_.product.type));
  }

  cublasStatus_t enqueue(CudaWorker& worker, const MatmulOperands& operands, void* product) {
    const float one = 1, keep = matmul_.adds ? 1 : 0;
    if (matmul_.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
    void* workspace = worker.workspace(workspace_bytes_);
    about_to_launch();
    return cublasLtMatmul(worker.blas_lt(), operation(), &one, operands.b, layout(b_), operands.a,
                          layout(a_), &keep, product, layout(product_), product, layout(product_),
                          &algorithm_, workspace, workspace_bytes_, worker.stream());
  }

  // Returns the text that identifies a measurement on one kind of device.
  std::string description() const {
    const auto text = [](const Matmul::Matrix& matrix, int alignment) {
      return fmt::format("{}{} {} at {}", name_of(matrix.type),
                         matrix.transposed ? " transposed" : "", matrix.stride, alignment);
    };
    return fmt::format("{}x{}x{}, a {}, b {}, product {}{}{}{}, {}", matmul_.m, matmul_.n,
                       matmul_.k, text(matmul_.a, alignments_.a), text(matmul_.b, alignments_.b),
                       text(matmul_.product, alignments_.product), matmul_.adds ? ", adds" : "",
                       matmul_.bias ? ", bias" : "", matmul_.relu ? ", relu" : "",
                       omni::name_of(implementation_policy().precision));
  }

  // cuBLASLt's functions only read these descriptors, although they take pointers to non-const.
  cublasLtMatmulDesc_t operation() const { return const_cast<cublasLtMatmulDesc_t>(&operation_); }
  static cublasLtMatrixLayout_t layout(const cublasLtMatrixLayoutOpaque_t& layout) {
    return const_cast<cublasLtMatrixLayout_t>(&layout);
  }

  Matmul matmul_;
  Alignments alignments_;
  cublasLtMatmulDescOpaque_t operation_;
  cublasLtMatrixLayoutOpaque_t a_, b_, product_;
  cublasLtMatmulAlgo_t algorithm_{};
  std::size_t workspace_bytes_ = 0;
  bool usable_ = false;
  bool settled_ = true;  // false: other work has disturbed the trials
};

struct AlignedMatmul {
  Matmul matmul;
  Alignments alignments;

  auto operator<=>(const AlignedMatmul&) const = default;
};

}  // namespace

bool gpu::matmul(CudaWorker& worker, const Matmul& matmul, const MatmulOperands& operands) {
  const Alignments alignments{alignment_of(operands.a), alignment_of(operands.b),
                              alignment_of(operands.product)};
  try {
    MatmulPlan& plan = plan_for<MatmulPlan>(worker, AlignedMatmul{matmul, alignments}, worker,
                                            matmul, alignments, operands);
    if (!plan.usable()) return false;
    plan.run(worker, operands);
    return true;
  } catch (const std::bad_alloc&) {
    // Memory does not suffice to try algorithms. In a deterministic run that must not change how
    // results are rounded, so it is an error.
    if (implementation_policy().deterministic) throw;
    return false;
  }
}

void gpu::multiply(CudaWorker& worker, const Matmul& matmul, const MatmulOperands& operands) {
  if (!gpu::matmul(worker, matmul, operands)) gemm(worker, matmul, operands);
}

}  // namespace omni
