#include "codelets/dense/onednn_support.hpp"

#include <span>
#include <stdexcept>

namespace omni::onednn {

bool uses(dnnl::cpu_isa instructions) {
  // An instruction set's number has the bits of all instruction sets that it contains.
  const auto here = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto wanted = static_cast<unsigned>(instructions);
  return (here & wanted) == wanted;
}

namespace {

bool has_bf16() {
  static const bool has_code = uses(dnnl::cpu_isa::avx512_core);
  return has_code;
}

}  // namespace

Factors factors() {
  using Type = dnnl::memory::data_type;
  if (!in_bf16()) return {};
  return {.type = has_bf16() ? Type::bf16 : Type::f32, .rounded = !has_bf16()};
}

BufferSet takes_bf16(BufferSet buffers) { return has_bf16() ? buffers : BufferSet(); }

void append_sum(dnnl::primitive_attr& attributes) {
  dnnl::post_ops sum;
  sum.append_sum(1.0f);
  attributes.set_post_ops(sum);
}

dnnl::reorder make_reorder(const dnnl::engine& engine, const dnnl::memory::desc& from,
                           const dnnl::memory::desc& to, ReorderMode mode) {
  dnnl::primitive_attr attributes;
  if (mode == ReorderMode::add) append_sum(attributes);
  return dnnl::reorder(dnnl::reorder::primitive_desc(engine, from, engine, to, attributes));
}

Factor::Factor(const dnnl::engine& engine, const dnnl::memory::desc& ours,
               const dnnl::memory::desc& theirs, ScratchLayout& layout)
    : ours_(ours),
      theirs_(theirs),
      copied_(ours != theirs || factors().rounded),
      rounded_(factors().rounded) {
  if (!copied_) return;
  at_ = layout.add(theirs);
  reorder_ = make_reorder(engine, ours, theirs, ReorderMode::overwrite);
}

dnnl::memory Factor::bring(const dnnl::engine& engine, const dnnl::stream& stream, const void* data,
                           float* scratch) const {
  dnnl::memory there = view(ours_, engine, data);
  if (!copied_) return there;
  float* const copy = scratch + at_;
  dnnl::memory here = view(theirs_, engine, copy);
  reorder_.execute(stream, there, here);
  if (rounded_) round_to_bf16(std::span(copy, theirs_.get_size() / sizeof(float)));
  return here;
}

dnnl::primitive_attr with_user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

dnnl::memory view(const dnnl::memory::desc& desc, const dnnl::engine& engine, const void* data) {
  return dnnl::memory(desc, engine, const_cast<void*>(data));
}

bool append_activation(Activation activation, dnnl::primitive_attr& attributes) {
  const auto append = [&](dnnl::algorithm algorithm, float alpha) {
    dnnl::post_ops ops;
    ops.append_eltwise(1.0f, algorithm, alpha, 0.0f);
    attributes.set_post_ops(ops);
    return true;
  };
  switch (activation) {
    case Activation::linear: return true;
    case Activation::logistic: return append(dnnl::algorithm::eltwise_logistic, 0.0f);
    case Activation::tanh: return append(dnnl::algorithm::eltwise_tanh, 0.0f);
    case Activation::elu: return append(dnnl::algorithm::eltwise_elu, 1.0f);
    default: return false;
  }
}

void gemm(int m, int n, int k, MatrixView a, MatrixView b, float keep, float* product,
          int product_stride) {
  const auto order = [](bool transposed) { return transposed ? 'T' : 'N'; };
  const dnnl::status status =
      dnnl::sgemm(order(a.transposed), order(b.transposed), m, n, k, 1.0f, a.data, a.stride, b.data,
                  b.stride, keep, product, product_stride);
  if (status != dnnl::status::success) throw std::runtime_error("oneDNN refused a matrix product");
}

}  // namespace omni::onednn

const char* omni::bf16_in_vain() {
  if (onednn::uses(dnnl::cpu_isa::avx512_core_bf16)) return nullptr;
  return onednn::uses(dnnl::cpu_isa::avx512_core)
             ? "the cores have no instructions for it: expect fp32 to be faster"
             : "without AVX-512 the cores only round to it, which saves memory: expect fp32 to be "
               "faster";
}
