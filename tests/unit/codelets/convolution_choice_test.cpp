// These tests check which implementations of the convolution the performance models may choose
// from.
#include <gtest/gtest.h>

#include <string>

#include "codelets/convolution/convolution.hpp"
#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

template <class Args>
bool offers_onednn(const Codelet<Args>& codelet, const ConvShape& shape) {
  for (const Implementation<Args>& each : codelet.implementations())
    if (std::string(each.name) == "onednn")
      return each.supports == nullptr || each.supports({.shape = shape});
  return false;
}

// For 1x1 kernels with a stride, oneDNN overwrote bytes behind its scratchpad: with 1 to 7 channels
// on AVX2, with 1 to 15 on AVX-512.
TEST(ConvolutionChoice, onednn_is_not_offered_where_it_writes_beyond_its_scratchpad) {
#ifndef OMNI_ONEDNN
  GTEST_SKIP() << "built without oneDNN";
#endif
  const auto offered = [](int channels, int kernel, int stride) {
    const ConvShape shape{.n = 4,
                          .h = 16,
                          .w = 16,
                          .c = channels,
                          .filters = 2,
                          .kernel_h = kernel,
                          .kernel_w = kernel,
                          .stride_h = stride,
                          .stride_w = stride};
    const bool forward = offers_onednn(conv_forward, shape);
    EXPECT_EQ(offers_onednn(conv_backward_weights, shape), forward);
    EXPECT_EQ(offers_onednn(conv_backward_data, shape), forward);
    return forward;
  };
  EXPECT_FALSE(offered(2, 1, 2));
  EXPECT_FALSE(offered(15, 1, 2));
  EXPECT_TRUE(offered(16, 1, 2));
  EXPECT_TRUE(offered(2, 1, 1));
  EXPECT_TRUE(offered(2, 3, 2));
}

}  // namespace
}  // namespace omni
