// However much of a kernel is lowered, and however many images a product takes: the convolution is
// the same.
#include "codelets/convolution/lowered_passes.hpp"
#include "tests/gradcheck/dense/convolution_cases.hpp"

namespace omni::gradcheck {
namespace {

using lowering::Type;

template <Type type, int images>
struct Forward {
  static void run(const ConvForwardArgs& args, const Buffers& b, DeviceContext& context) {
    lowering::forward({type, gemm, images}, args.shape, b.get(0), b.get(1),
                      args.has_bias ? b.get(3) : nullptr, args.activation, b.get(2), context);
  }
};
template <Type type, int images>
struct BackwardWeights {
  static void run(const ConvWeightsArgs& args, const Buffers& b, DeviceContext& context) {
    lowering::backward_weights({type, gemm, images}, args.shape, b.get(0), b.get(1), b.get(2),
                               args.has_bias ? b.get(3) : nullptr, context);
  }
};
template <Type type, int images>
struct BackwardData {
  static void run(const ConvDataArgs& args, const Buffers& b, DeviceContext& context) {
    lowering::backward_data({type, gemm, images}, args.shape, b.get(0), b.get(1), args.adds,
                            b.get(2), context);
  }
};

// With as many images to a product as fit the cache, unless it is said.
template <class Args, template <Type, int> class Run>
void check(const std::vector<Case<Args>>& cases, const Operation<Args>& operation) {
  check_implementations(
      "lowered",
      std::vector<Implementation<Args>>{{"kernels", Run<Type::kernel, 0>::run},
                                        {"kernels, one image", Run<Type::kernel, 1>::run},
                                        {"kernels, two images", Run<Type::kernel, 2>::run},
                                        {"kernels, all images", Run<Type::kernel, 1000>::run},
                                        {"rows", Run<Type::row, 0>::run},
                                        {"rows, one image", Run<Type::row, 1>::run},
                                        {"rows, two images", Run<Type::row, 2>::run},
                                        {"rows, all images", Run<Type::row, 1000>::run},
                                        {"taps", Run<Type::tap, 0>::run},
                                        {"taps, one image", Run<Type::tap, 1>::run},
                                        {"taps, two images", Run<Type::tap, 2>::run},
                                        {"taps, all images", Run<Type::tap, 1000>::run}},
      cases, operation);
}

TEST(Lowering, Forward) { check<ConvForwardArgs, Forward>(forward_cases(), forward_operation()); }
TEST(Lowering, BackwardWeights) {
  check<ConvWeightsArgs, BackwardWeights>(adding_weights_cases(), weights_operation());
}
TEST(Lowering, BackwardData) { check<ConvDataArgs, BackwardData>(data_cases(), data_operation()); }

}  // namespace
}  // namespace omni::gradcheck
