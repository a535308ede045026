// These tests check that lowering computes the same convolution, whatever number of output rows one
// product has.
#include "codelets/convolution/lowering.hpp"
#include "tests/gradcheck/dense/convolution_cases.hpp"

namespace omni::gradcheck {
namespace {

template <int band_rows, class Args>
void run(const Args& args, const Buffers& buffers, DeviceContext& context) {
  lowering::run({gemm, band_rows}, args, buffers, context);
}

template <class Args>
void check(const std::vector<Case<Args>>& cases, const Operation<Args>& operation) {
  check_implementations(
      "lowered",
      std::vector<Implementation<Args>>{{"as many rows as fit the cache", run<0, Args>},
                                        {"one row", run<1, Args>},
                                        {"seven rows", run<7, Args>},
                                        {"all rows", run<100000, Args>}},
      cases, operation);
}

TEST(Lowering, Forward) { check<ConvForwardArgs>(forward_cases(), forward_operation()); }
TEST(Lowering, BackwardWeights) {
  check<ConvWeightsArgs>(adding_weights_cases(), weights_operation());
}
TEST(Lowering, BackwardData) { check<ConvDataArgs>(data_cases(), data_operation()); }

}  // namespace
}  // namespace omni::gradcheck
