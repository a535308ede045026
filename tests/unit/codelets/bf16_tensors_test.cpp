// These tests check tensors in bf16. A kernel that takes only floats gets copies in floats; the
// slowest kernels take bf16 themselves.
#include <gtest/gtest.h>

#include "codelets/convolution/convolution.hpp"
#include "codelets/dense/connected.hpp"
#include "codelets/dense/gemm.hpp"
#include "codelets/elementwise/accumulate.hpp"
#include "codelets/elementwise/activation.hpp"
#include "codelets/elementwise/channel_bias.hpp"
#include "codelets/elementwise/dropout.hpp"
#include "codelets/functions/power.hpp"
#include "codelets/functions/prelu.hpp"
#include "codelets/functions/product.hpp"
#include "codelets/functions/shortcut_add.hpp"
#include "codelets/normalise/batchnorm.hpp"
#include "codelets/normalise/batchnorm_whole.hpp"
#include "codelets/normalise/lrn.hpp"
#include "codelets/spatial/copy_channels.hpp"
#include "codelets/spatial/pooling.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/host_access.hpp"
#include "runtime/tasks/session.hpp"
#include "runtime/tasks/task_errors.hpp"

namespace omni {
namespace {

constexpr std::size_t kCount = 77;

struct MixArgs {
  float factor = 0;
};

// The four buffers are read, written, read and written, and accumulated. The kernel gets all of
// them in floats.
void mix(const MixArgs& args, const Buffers& buffers, DeviceContext&) {
  ASSERT_FALSE(buffers.in_bf16());
  for (std::size_t i = 0; i < kCount; ++i) {
    buffers.get(1)[i] = args.factor * buffers.get(0)[i];
    buffers.get(2)[i] *= args.factor;
    buffers.get(3)[i] += buffers.get(0)[i];
  }
}

Codelet<MixArgs> mix_values({.name = "mix_values",
                             .implementations = {{"vector", mix}},
                             .cost = [](const MixArgs&) { return Cost{.bytes = 1}; },
                             .footprint = [](const MixArgs&) { return footprint_of(1); }});

float start(std::size_t i) { return 1 + static_cast<float>(i) / 100; }

void fill(const Tensor& tensor) {
  const HostAccess access(tensor, HostAccess::Mode::write);
  for (std::size_t i = 0; i < kCount; ++i)
    if (tensor.type() == DataType::bf16)
      access.bf16()[i] = start(i);
    else
      access.f32()[i] = start(i);
}

// Each of the four tensors is in floats or in bf16. Operands in bf16 are rounded first, and so are
// the results.
TEST(Bf16Tensors, are_copied_for_kernels_that_take_floats) {
  SessionOptions options;
  options.cpu_workers = 1;
  const auto session = Session::start(options);
  ASSERT_TRUE(session);
  for (unsigned which = 0; which < 16; ++which) {
    std::vector<std::unique_ptr<Tensor>> tensors;
    for (unsigned i = 0; i < 4; ++i) {
      const bool rounded = (which >> i & 1u) != 0;
      tensors.push_back(
          std::make_unique<Tensor>("values", kCount, rounded ? DataType::bf16 : DataType::f32));
      ASSERT_TRUE(tensors.back()->allocate());
      fill(*tensors.back());
    }
    const auto kept = [&](std::size_t tensor, float value) {
      return tensors[tensor]->type() == DataType::bf16 ? static_cast<float>(Bf16(value)) : value;
    };
    mix_values.submit({3.7f}, {read(*tensors[0]), write(*tensors[1]), read_write(*tensors[2]),
                               accumulate(*tensors[3])});
    ASSERT_TRUE(wait_for_tasks());
    const auto values = [&](std::size_t tensor) {
      return HostAccess(*tensors[tensor], HostAccess::Mode::read).values();
    };
    for (std::size_t i = 0; i < kCount; ++i) {
      const float read = kept(0, start(i));
      ASSERT_EQ(values(0)[i], read) << which;
      ASSERT_EQ(values(1)[i], kept(1, 3.7f * read)) << which;
      ASSERT_EQ(values(2)[i], kept(2, 3.7f * kept(2, start(i)))) << which;
      ASSERT_EQ(values(3)[i], kept(3, read + kept(3, start(i)))) << which;
    }
  }
}

template <class Args>
bool takes_on_gpu([[maybe_unused]] const Codelet<Args>& codelet,
                  [[maybe_unused]] BufferSet buffers) {
#ifdef OMNI_CUDA
  const Implementation<Args>& last = codelet.implementations().back();
  return last.role == Role::gpu && last.in_bf16 == buffers;
#else
  return true;
#endif
}

// Returns whether the best implementation for CPU cores takes exactly `buffers` in bf16, and in
// builds with CUDA the GPU's, too.
template <class Args>
bool all_take(const Codelet<Args>& codelet, BufferSet buffers) {
  return takes_on_gpu(codelet, buffers) && codelet.implementations().front().in_bf16 == buffers;
}

// Copies of tensors would make the codelets that take most of a net's time slow.
TEST(Bf16Tensors, are_not_copied_where_it_matters) {
  EXPECT_TRUE(all_take(batchnorm_forward, {0, 8, 9}));
  EXPECT_TRUE(all_take(batchnorm_backward, {0, 1, 9, 10}));
  EXPECT_TRUE(all_take(batchnorm_residual_reduce, {0, 1, 2, 6}));
  EXPECT_TRUE(all_take(max_pool_forward, {0, 1}));
  EXPECT_TRUE(all_take(max_pool_backward, {0, 2}));
  EXPECT_TRUE(all_take(average_pool_forward, {0, 1}));
  EXPECT_TRUE(all_take(average_pool_backward, {0, 1}));
  EXPECT_TRUE(all_take(shortcut_forward, {0, 1, 2}));
  EXPECT_TRUE(all_take(residual_backward, {0, 1, 2}));
  EXPECT_TRUE(all_take(lrn_forward, {0, 1}));
  EXPECT_TRUE(all_take(lrn_backward, {0, 1, 3, 4}));
  EXPECT_TRUE(all_take(shortcut_backward_a, {0, 1}));
  EXPECT_TRUE(all_take(shortcut_backward_b, {0, 1}));
  EXPECT_TRUE(all_take(activation_forward, {0, 1}));
  EXPECT_TRUE(all_take(activation_backward, {0, 1}));
  EXPECT_TRUE(all_take(channel_bias_forward, {1}));
  EXPECT_TRUE(all_take(channel_bias_backward, {0, 2}));
  EXPECT_TRUE(all_take(dropout_forward, {0}));
  EXPECT_TRUE(all_take(dropout_backward, {0}));
  EXPECT_TRUE(all_take(copy_channels, {0, 1}));
  EXPECT_TRUE(all_take(prelu_forward, {0, 1}));
  EXPECT_TRUE(all_take(prelu_backward, {0, 1, 2}));
  EXPECT_TRUE(all_take(prelu_backward_slopes, {0, 1}));
  EXPECT_TRUE(all_take(power_forward, {0, 1}));
  EXPECT_TRUE(all_take(power_backward, {0, 1, 2}));
  EXPECT_TRUE(all_take(multiply_elements, {0, 1, 2}));
  EXPECT_TRUE(accumulate_sum.implementations().front().in_bf16.has(15));
#ifdef OMNI_CUDA
  EXPECT_TRUE(accumulate_sum.implementations().back().in_bf16.has(15));
#endif
}

TEST(Bf16Tensors, are_not_copied_for_products) {
  EXPECT_TRUE(takes_on_gpu(conv_forward, {0, 2}));
  EXPECT_TRUE(takes_on_gpu(conv_backward_weights, {0, 1}));
  EXPECT_TRUE(takes_on_gpu(conv_backward_data, {0, 2}));
  EXPECT_TRUE(takes_on_gpu(connected_forward, {0, 1, 2}));
  EXPECT_TRUE(takes_on_gpu(connected_backward_weights, {0, 1}));
  EXPECT_TRUE(takes_on_gpu(connected_backward_data, {0, 1, 2}));
  // For CPU cores only oneDNN's implementation takes bf16, and it needs AVX-512.
  if (bf16_in_vain() != nullptr) GTEST_SKIP() << bf16_in_vain();
  EXPECT_TRUE(all_take(conv_forward, {0, 2}));
  EXPECT_TRUE(all_take(conv_backward_weights, {0, 1}));
  EXPECT_TRUE(all_take(conv_backward_data, {0, 2}));
}

}  // namespace
}  // namespace omni
