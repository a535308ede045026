#include "codelets/convolution/winograd_products.hpp"

#include <stdexcept>

#include "codelets/dense/onednn_support.hpp"

namespace omni::winograd {

void multiply(const ProductsArgs& args, Gemm product, const float* a, const float* b, float* result,
              DeviceContext&) {
  const int stride = args.a_transposed ? args.m : args.k;
  for (int i = 0; i < args.planes; ++i)
    product(args.m, args.n, args.k, {a + i * args.a_plane, stride, args.a_transposed},
            {b + i * args.b_plane, args.n}, args.adds ? 1.0f : 0.0f, result + i * args.result_plane,
            args.n);
}

#ifdef OMNI_ONEDNN
namespace {

using dnnl::memory;

class ProductsPlan {
 public:
  ProductsPlan(const dnnl::engine& engine, const ProductsArgs& args) {
    constexpr auto kBf16 = memory::data_type::bf16, kFloat = memory::data_type::f32;
    const memory::dims a_strides = args.a_transposed ? memory::dims{args.a_plane, 1, args.m}
                                                     : memory::dims{args.a_plane, args.k, 1};
    a_ = {{args.planes, args.m, args.k}, kBf16, a_strides};
    b_ = {{args.planes, args.k, args.n}, kBf16, memory::dims{args.b_plane, args.n, 1}};
    result_ = {{args.planes, args.m, args.n}, kFloat, memory::dims{args.result_plane, args.n, 1}};
    // Its working memory, if any, is its own: the context's is full of planes.
    dnnl::primitive_attr attributes;
    if (args.adds) onednn::append_sum(attributes);
    matmul_ = dnnl::matmul({{a_, b_, result_}, attributes, engine});
  }

  void run(const onednn::Engine& worker, const Bf16* a, const Bf16* b, float* result) const {
    const auto& [engine, stream] = worker;
    matmul_.execute(stream, {{DNNL_ARG_SRC, onednn::view(a_, engine, a)},
                             {DNNL_ARG_WEIGHTS, onednn::view(b_, engine, b)},
                             {DNNL_ARG_DST, onednn::view(result_, engine, result)}});
  }

 private:
  memory::desc a_, b_, result_;
  dnnl::matmul matmul_;
};

}  // namespace

void multiply(const ProductsArgs& args, Gemm, const Bf16* a, const Bf16* b, float* result,
              DeviceContext& context) {
  onednn::plan_for<ProductsPlan>(args, context).run(context.local<onednn::Engine>(), a, b, result);
}
#else
void multiply(const ProductsArgs&, Gemm, const Bf16*, const Bf16*, float*, DeviceContext&) {
  throw std::logic_error("products of bf16 need oneDNN");
}
#endif

}  // namespace omni::winograd
