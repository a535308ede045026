// However much of a kernel is lowered, and however many images a product takes: the convolution is
// the same.
#include <fmt/format.h>

#include "codelets/convolution/lowered_passes.hpp"
#include "tests/gradcheck/dense/convolution_cases.hpp"

namespace omni::gradcheck {
namespace {

using lowering::Type;

template <class Args, template <Type> class Run>
Codelet<Args> of_all_types() {
  return Codelet<Args>({.name = "lowered",
                        .implementations = {{"kernels", Run<Type::kernel>::run},
                                            {"rows", Run<Type::row>::run},
                                            {"taps", Run<Type::tap>::run}},
                        .cost = [](const Args&) { return Cost{}; },
                        .footprint = [](const Args&) { return footprint_of(0); }});
}

template <int images>
struct Passes {
  template <Type type>
  struct Forward {
    static void run(const ConvForwardArgs& args, const Buffers& b, DeviceContext& context) {
      lowering::forward({type, gemm, images}, args.shape, b.get(0), b.get(1),
                        args.has_bias ? b.get(3) : nullptr, args.activation, b.get(2), context);
    }
  };
  template <Type type>
  struct BackwardWeights {
    static void run(const ConvWeightsArgs& args, const Buffers& b, DeviceContext& context) {
      lowering::backward_weights({type, gemm, images}, args.shape, b.get(0), b.get(1), b.get(2),
                                 args.has_bias ? b.get(3) : nullptr, context);
    }
  };
  template <Type type>
  struct BackwardData {
    static void run(const ConvDataArgs& args, const Buffers& b, DeviceContext& context) {
      lowering::backward_data({type, gemm, images}, args.shape, b.get(0), b.get(1), args.adds,
                              b.get(2), context);
    }
  };

  static void check() {
    SCOPED_TRACE(fmt::format("{} images", images));
    check_implementations(of_all_types<ConvForwardArgs, Forward>(), forward_cases(),
                          forward_operation());
    check_implementations(of_all_types<ConvWeightsArgs, BackwardWeights>(), adding_weights_cases(),
                          weights_operation());
    check_implementations(of_all_types<ConvDataArgs, BackwardData>(), data_cases(),
                          data_operation());
  }
};

TEST(Lowering, fits_the_cache) { Passes<0>::check(); }
TEST(Lowering, one_image_at_a_time) { Passes<1>::check(); }
TEST(Lowering, two_images_at_a_time) { Passes<2>::check(); }
TEST(Lowering, all_images_at_once) { Passes<1000>::check(); }

}  // namespace
}  // namespace omni::gradcheck
