// However many output rows a product takes: the convolution is the same.
#include "codelets/convolution/lowering.hpp"
#include "tests/gradcheck/dense/convolution_cases.hpp"

namespace omni::gradcheck {
namespace {

template <int band_rows>
struct Forward {
  static void run(const ConvForwardArgs& args, const Buffers& b, DeviceContext& context) {
    lowering::forward({gemm, band_rows}, args.shape, b.get(0), b.get(1),
                      args.has_bias ? b.get(3) : nullptr, args.activation, b.get(2), context);
  }
};
template <int band_rows>
struct BackwardWeights {
  static void run(const ConvWeightsArgs& args, const Buffers& b, DeviceContext& context) {
    lowering::backward_weights({gemm, band_rows}, args.shape, b.get(0), b.get(1), b.get(2),
                               args.has_bias ? b.get(3) : nullptr, context);
  }
};
template <int band_rows>
struct BackwardData {
  static void run(const ConvDataArgs& args, const Buffers& b, DeviceContext& context) {
    lowering::backward_data({gemm, band_rows}, args.shape, b.get(0), b.get(1), args.adds, b.get(2),
                            context);
  }
};

template <class Args, template <int> class Run>
void check(const std::vector<Case<Args>>& cases, const Operation<Args>& operation) {
  check_implementations(
      "lowered",
      std::vector<Implementation<Args>>{{"as many rows as fit the cache", Run<0>::run},
                                        {"one row", Run<1>::run},
                                        {"seven rows", Run<7>::run},
                                        {"all rows", Run<100000>::run}},
      cases, operation);
}

TEST(Lowering, Forward) { check<ConvForwardArgs, Forward>(forward_cases(), forward_operation()); }
TEST(Lowering, BackwardWeights) {
  check<ConvWeightsArgs, BackwardWeights>(adding_weights_cases(), weights_operation());
}
TEST(Lowering, BackwardData) { check<ConvDataArgs, BackwardData>(data_cases(), data_operation()); }

}  // namespace
}  // namespace omni::gradcheck
