// Implementations must not use more scratch memory than they declare, because the memory plan
// relies on the declaration.
#include <array>
#include <optional>
#include <thread>

#include "codelets/convolution/convolution.hpp"
#include "codelets/dense/connected.hpp"
#include "codelets/dense/local.hpp"
#include "codelets/spatial/pooling.hpp"
#include "tests/gradcheck/dense/convolution_shapes.hpp"
#ifdef OMNI_CUDA
#include "runtime/cuda/worker.hpp"
#endif

namespace omni::gradcheck {
namespace {

using Floats = std::vector<float>;

Floats zeros(std::int64_t count) { return Floats(static_cast<std::size_t>(count)); }

// Returns the scratch memory, in floats, of a new thread that has run the implementation. In bf16,
// tensors use the first half of the given memory.
template <class Args>
std::size_t scratch_of(const Implementation<Args>& implementation, const Args& args, bool in_bf16,
                       Floats first, Floats second, Floats result) {
  Floats bias(1 << 12);  // of those that have one
  std::array<void*, 4> pointers{first.data(), second.data(), result.data(), bias.data()};
  std::size_t floats = 0;
  std::thread([&] {
    implementation.kernel(args, Buffers(pointers, in_bf16), DeviceContext::current());
    floats = DeviceContext::current().scratch_floats();
  }).join();
  return floats;
}

// oneDNN's kernels may take a tenth and kUndeclared floats more than they declare.
template <class Args>
void check_scratch(const Codelet<Args>& codelet, const Args& args, const Floats& first,
                   const Floats& second, const Floats& result) {
  constexpr std::size_t kUndeclared = 1 << 16;
  for (const Implementation<Args>& each : implementations_here(codelet)) {
    if (each.role == Role::gpu || (each.supports != nullptr && !each.supports(args))) continue;
    for (const bool in_bf16 : {false, true}) {
      if (in_bf16 && (each.in_bf16.empty() || !omni::in_bf16())) continue;
      SCOPED_TRACE(codelet.name() + " (" + each.name + (in_bf16 ? ", tensors in bf16)" : ")"));
      const std::size_t declared =
          each.working == nullptr
              ? 0
              : each.working(args, in_bf16 ? each.in_bf16 : BufferSet()).scratch;
      const std::size_t taken = scratch_of(each, args, in_bf16, first, second, result);
      if (std::string_view(each.name) == "onednn")
        EXPECT_LE(taken, declared + declared / 10 + kUndeclared);
      else
        EXPECT_EQ(taken, declared);
    }
  }
}

void check_convolutions(Precision precision) {
  const Deterministic policy(precision);
  for (const Case<ConvShape>& each : kConvShapes) {
    SCOPED_TRACE(each.what);
    const ConvShape& s = each.args;
    const Floats src = zeros(s.src_count()), weights = zeros(s.weights_count()),
                 dst = zeros(s.dst_count());
    check_scratch(conv_forward, {.shape = s}, src, weights, dst);
    check_scratch(conv_backward_weights, {.shape = s}, src, dst, weights);
    for (const bool adds : {false, true})
      check_scratch(conv_backward_data, {.shape = s, .adds = adds}, dst, weights, src);
  }
}

TEST(WorkingMemory, of_convolutions_is_what_they_declare) { check_convolutions(Precision::fp32); }
TEST(WorkingMemory, of_convolutions_in_bf16_too) { check_convolutions(Precision::bf16); }

TEST(WorkingMemory, of_pools_is_what_they_declare) {
  const PoolShape s{.n = 2,
                    .h = 9,
                    .w = 7,
                    .c = 5,
                    .kernel_h = 3,
                    .kernel_w = 2,
                    .stride_h = 2,
                    .stride_w = 2,
                    .out_h = 4,
                    .out_w = 3};
  const Floats src = zeros(s.n * s.h * s.w * s.c), dst = zeros(s.n * s.out_h * s.out_w * s.c);
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const Deterministic policy(precision);
    check_scratch(max_pool_backward, s, dst, dst, src);
    check_scratch(average_pool_backward, s, dst, src, src);
  }
}

TEST(WorkingMemory, of_connected_layers_is_what_they_declare) {
  for (const Precision precision : {Precision::fp32, Precision::bf16})
    for (const ConnectedShape& s : {ConnectedShape{.n = 17, .inputs = 130, .outputs = 67},
                                    ConnectedShape{.n = 64, .inputs = 3000, .outputs = 1100}}) {
      const Deterministic policy(precision);
      const Floats src = zeros(s.src_count()), weights = zeros(s.weights_count()),
                   dst = zeros(s.dst_count());
      check_scratch(connected_forward, {.shape = s}, src, weights, dst);
      check_scratch(connected_backward_weights, {.shape = s}, src, dst, weights);
      check_scratch(connected_backward_data, {.shape = s}, dst, weights, src);
    }
}

TEST(WorkingMemory, of_local_layers_is_what_they_declare) {
  const Deterministic policy;
  const LocalShape s{{.n = 3, .h = 9, .w = 7, .c = 5, .filters = 6, .kernel_h = 3, .kernel_w = 3}};
  const Floats src = zeros(s.conv.src_count()), weights = zeros(s.weights_count()),
               dst = zeros(s.conv.dst_count());
  check_scratch(local_forward, {.shape = s}, src, weights, dst);
  check_scratch(local_backward_weights, {.shape = s}, src, dst, weights);
  check_scratch(local_backward_data, {.shape = s}, dst, weights, src);
}

#ifdef OMNI_CUDA
// Expects that the product of new tensors in floats takes as much memory for factors in bf16 as
// `declared` says.
template <class Args>
void check_factors(Kernel<Args> kernel, const Args& args, const WorkingFloats& declared,
                   std::vector<Floats> tensors) {
  std::vector<std::optional<gpu::Copy>> copies(4);
  std::array<void*, 4> pointers{};
  tensors.resize(4, Floats(1));
  for (std::size_t i = 0; i < pointers.size(); ++i)
    pointers[i] = copies[i].emplace(std::as_writable_bytes(std::span(tensors[i]))).data();
  std::size_t taken = 0;
  std::thread([&] {
    kernel(args, Buffers(pointers), DeviceContext::current());
    taken = CudaWorker::current().bytes_for_factors();
    cudaDeviceSynchronize();
  }).join();
  EXPECT_EQ(taken, declared.factors_on_gpu * sizeof(float));
  EXPECT_GT(taken, 0u);
}

template <class Args>
void check_factors(const Codelet<Args>& codelet, const Args& args, std::vector<Floats> tensors) {
  SCOPED_TRACE(codelet.name());
  for (const Implementation<Args>& each : codelet.implementations())
    if (each.role == Role::gpu)
      check_factors(each.kernel, args, each.working(args, {}), std::move(tensors));
}

TEST(WorkingMemory, of_factors_on_a_gpu_is_what_products_declare) {
  if (!gpu::present()) GTEST_SKIP() << "no GPU";
  const Deterministic policy(Precision::bf16);
  const ConnectedShape c{.n = 17, .inputs = 130, .outputs = 67};
  const Floats src = zeros(c.src_count()), weights = zeros(c.weights_count()),
               dst = zeros(c.dst_count()), bias = zeros(c.outputs);
  check_factors(connected_forward, {.shape = c}, {src, weights, dst});
  check_factors(connected_backward_weights, {.shape = c}, {src, dst, weights});
  check_factors(connected_backward_data, {.shape = c}, {dst, weights, src});
  const LocalShape l{{.n = 3, .h = 9, .w = 7, .c = 5, .filters = 6, .kernel_h = 3, .kernel_w = 3}};
  const Floats image = zeros(l.conv.src_count()), filters = zeros(l.weights_count()),
               result = zeros(l.conv.dst_count()), biases = zeros(l.outputs());
  check_factors(local_forward, {.shape = l}, {image, filters, biases, result});
  check_factors(local_backward_weights, {.shape = l}, {image, result, filters, biases});
  check_factors(local_backward_data, {.shape = l}, {result, filters, image});
}
#endif

}  // namespace
}  // namespace omni::gradcheck
