#include "codelets/dense/onednn_product.hpp"

#ifdef OMNI_ONEDNN

#include <stdexcept>

namespace omni::onednn {
namespace {

using dnnl::memory;

memory::desc matrix(int rows, int columns, Strides strides, memory::data_type type) {
  // A single row is as far from the next as its kernels expect.
  if (rows == 1 && strides.column == 1) strides.row = columns;
  return {{rows, columns}, type, memory::dims{strides.row, strides.column}};
}

// The matrix as it is multiplied: a copy is without gaps and in the same order.
memory::desc factor(int rows, int columns, Strides strides) {
  const Factors multiplied = factors();
  if (!multiplied.copied()) return matrix(rows, columns, strides, multiplied.type);
  const Strides dense = strides.column == 1 ? Strides{columns, 1} : Strides{1, rows};
  return matrix(rows, columns, dense, multiplied.type);
}

}  // namespace

ProductPlan::ProductPlan(const dnnl::engine& engine, const ProductArgs& args)
    : turns_(args.product.column != 1) {
  if (turns_ && args.adds)
    throw std::logic_error("a transposed product cannot be added to its destination");
  constexpr auto kFloat = memory::data_type::f32;
  const memory::desc a = matrix(args.m, args.k, args.a, kFloat);
  const memory::desc b = matrix(args.k, args.n, args.b, kFloat);
  product_ = matrix(args.m, args.n, args.product, kFloat);
  turned_ = turns_ ? matrix(args.m, args.n, {args.n, 1}, kFloat) : product_;

  dnnl::primitive_attr attributes = with_user_scratchpad();
  if (args.adds) append_sum(attributes);
  const dnnl::matmul::primitive_desc desc(
      {factor(args.m, args.k, args.a), factor(args.k, args.n, args.b), turned_}, attributes,
      engine);
  matmul_ = dnnl::matmul(desc);
  a_ = {engine, a, desc.src_desc(), layout_};
  b_ = {engine, b, desc.weights_desc(), layout_};
  scratchpad_ = desc.scratchpad_desc();
  scratchpad_at_ = layout_.add(scratchpad_);
  if (!turns_) return;
  turned_at_ = layout_.add(turned_);
  turn_ = make_reorder(engine, turned_, product_, ReorderMode::overwrite);
}

memory ProductPlan::bring_b(const Engine& worker, const float* b, float* scratch) const {
  return b_.bring(worker.engine, worker.stream, b, scratch);
}

void ProductPlan::run(const Engine& worker, const float* a, const memory& b, float* product,
                      float* scratch) const {
  memory ours = view(product_, worker.engine, product);
  memory theirs = turns_ ? view(turned_, worker.engine, scratch + turned_at_) : ours;
  matmul_.execute(
      worker.stream,
      {{DNNL_ARG_SRC, a_.bring(worker.engine, worker.stream, a, scratch)},
       {DNNL_ARG_WEIGHTS, b},
       {DNNL_ARG_DST, theirs},
       {DNNL_ARG_SCRATCHPAD, view(scratchpad_, worker.engine, scratch + scratchpad_at_)}});
  if (turns_) turn_.execute(worker.stream, theirs, ours);
}

Multiplier::Multiplier(const ProductArgs& args, const float* b, DeviceContext& context)
    : worker_(context.local<Engine>()),
      plan_(plan_for<ProductPlan>(args, context)),
      scratch_(context.scratch(plan_.scratch_floats())),
      b_(plan_.bring_b(worker_, b, scratch_)) {}

void Multiplier::operator()(const float* a, float* product) const {
  plan_.run(worker_, a, b_, product, scratch_);
}

}  // namespace omni::onednn

#endif
