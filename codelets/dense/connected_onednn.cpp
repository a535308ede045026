#include "codelets/dense/connected_onednn.hpp"

#include <algorithm>
#include <stdexcept>

namespace omni::onednn {
namespace {

using dnnl::memory;

memory::desc matrix(int rows, int columns, Strides strides, memory::data_type type) {
  // For a single row, oneDNN's kernels expect a row distance without gaps.
  if (rows == 1 && strides.column == 1) strides.row = columns;
  return {{rows, columns}, type, memory::dims{strides.row, strides.column}};
}

// Describes a factor as it is multiplied: the matrix itself, or a copy without gaps in the same
// order of values.
memory::desc factor(int rows, int columns, Strides strides) {
  const Factors multiplied = factors();
  if (!multiplied.copied()) return matrix(rows, columns, strides, multiplied.type);
  const Strides dense = strides.column == 1 ? Strides{columns, 1} : Strides{1, rows};
  return matrix(rows, columns, dense, multiplied.type);
}

// With --precision bf16 weights are copied before they are multiplied. This many are copied at a
// time (4 MiB, or 8 if they are only rounded), because more would not stay in the caches.
constexpr std::int64_t kMostCopied = 1 << 21;

// Parts divides `count` into equal parts. The last part may overlap the one before it; both compute
// the same values.
struct Parts {
  int count, size, number;
  int first(int part) const { return std::min(part * size, count - size); }
};

Parts parts_of(int count, int values_of_each) {
  if (!factors().copied()) return {count, count, 1};
  const auto divide = [](int a, int b) { return (a + b - 1) / b; };
  const auto most = std::clamp<std::int64_t>(kMostCopied / values_of_each, 1, count);
  const int number = divide(count, static_cast<int>(most));
  return {count, divide(count, number), number};
}

}  // namespace

class ProductPlan {
 public:
  ProductPlan(const dnnl::engine& engine, const ProductArgs& args)
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

  std::size_t scratch_floats() const { return layout_.floats(); }

  memory bring_b(const Engine& worker, const float* b, float* scratch) const {
    return b_.bring(worker.engine, worker.stream, b, scratch);
  }

  void run(const Engine& worker, const float* a, const memory& b, float* product,
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

 private:
  ScratchLayout layout_;
  dnnl::matmul matmul_;
  Factor a_, b_;
  memory::desc scratchpad_, product_, turned_;
  dnnl::reorder turn_;
  std::size_t scratchpad_at_ = 0, turned_at_ = 0;
  bool turns_ = false;
};

Multiplier::Multiplier(const ProductArgs& args, const float* b, DeviceContext& context)
    : worker_(context.local<Engine>()),
      plan_(plan_for<ProductPlan>(args, context)),
      scratch_(context.scratch(plan_.scratch_floats())),
      b_(plan_.bring_b(worker_, b, scratch_)) {}

void Multiplier::operator()(const float* a, float* product) const {
  plan_.run(worker_, a, b_, product, scratch_);
}

std::size_t connected_floats(const ConnectedShape& s) {
  const std::int64_t turned = std::int64_t{s.n} * parts_of(s.outputs, s.inputs).size;
  if (!factors().copied()) return turned;
  const std::int64_t weights = std::min(kMostCopied, s.weights_count());
  const std::int64_t copied = weights + std::max(s.src_count(), s.dst_count());
  return static_cast<std::size_t>(turned + (factors().rounded ? copied : copied / 2));
}

// Computes the transposed product weights * src'. oneDNN's matmul copies its second factor, and src
// is smaller than the weights.
void connected_forward(const ConnectedShape& s, const float* src, const float* weights, float* dst,
                       DeviceContext& context) {
  const Parts parts = parts_of(s.outputs, s.inputs);
  const Multiplier multiply({.m = parts.size,
                             .n = s.n,
                             .k = s.inputs,
                             .a = {s.inputs, 1},
                             .b = {1, s.inputs},
                             .product = {1, s.outputs}},
                            src, context);
  for (int part = 0; part < parts.number; ++part) {
    const int first = parts.first(part);
    multiply(weights + std::int64_t{first} * s.inputs, dst + first);
  }
}

void connected_backward_data(const ConnectedShape& s, const float* diff_dst, const float* weights,
                             float* diff_src, DeviceContext& context) {
  const Parts parts = parts_of(s.inputs, s.outputs);
  const ProductArgs args{.m = s.n,
                         .n = parts.size,
                         .k = s.outputs,
                         .a = {s.outputs, 1},
                         .b = {s.inputs, 1},
                         .product = {s.inputs, 1}};
  for (int part = 0; part < parts.number; ++part) {
    const int first = parts.first(part);
    Multiplier(args, weights + first, context)(diff_dst, diff_src + first);
  }
}

Multiplier connected_weights_gradient(const ConnectedShape& s, int rows, const float* src,
                                      DeviceContext& context) {
  const ProductArgs args{.m = rows,
                         .n = s.inputs,
                         .k = s.n,
                         .a = {1, s.outputs},
                         .b = {s.inputs, 1},
                         .product = {s.inputs, 1},
                         .adds = true};
  return {args, src, context};
}

}  // namespace omni::onednn
