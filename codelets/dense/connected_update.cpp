#include "codelets/dense/connected_update.hpp"

#include <algorithm>
#include <optional>

#include "codelets/dense/connected_onednn.hpp"
#include "codelets/dense/gemm.hpp"
#include "codelets/elementwise/channel_bias.hpp"
#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

// This many floats of the weights' gradient (4 MiB) are computed at a time. A product with fewer
// rows takes longer than its arithmetic. More floats would leave the caches before they are used.
constexpr std::int64_t kMostGradient = 1 << 20;

// A Gradient has the memory of a gradient. It is 0 between tasks, because updates clear it. A
// product that adds to it is faster than one that clears it first.
class Gradient {
 public:
  float* zeros(std::size_t count) {
    const std::size_t lines = (count + kFloats - 1) / kFloats;
    if (lines > lines_.size()) lines_.resize(lines);
    return lines_.front().values;
  }

 private:
  static constexpr int kFloats = 16;
  struct alignas(64) Line {
    float values[kFloats] = {};
  };
  std::vector<Line> lines_;
};

// These are numbers of buffers. The master copy of the weights and their velocity follow src and
// diff_dst. Then come those of the bias, then Adam's mean squares.
constexpr std::size_t kWeights = 2, kBias = 4, kMeanSquares = 6;

Updated<float> updated(const ConnectedUpdateArgs& args, const Buffers& buffers, std::size_t first) {
  return {buffers.get(first), buffers.get(first + 1),
          args.weights.adam ? buffers.get(kMeanSquares + (first == kWeights ? 0 : 1)) : nullptr};
}

void update_piece(const auto& step, std::int64_t first, std::int64_t count,
                  const Updated<float>& of, float* gradient) {
  update_values(step, count, true, of.master + first, gradient, of.velocity + first,
                of.mean_square != nullptr ? of.mean_square + first : nullptr);
}

void update_bias(const ConnectedUpdateArgs& args, const Buffers& buffers, float* gradient) {
  add_column_sums(args.shape.n, args.shape.outputs, buffers.get(1), gradient);
  use_step_of(args.bias, [&](const auto& step) {
    update_piece(step, 0, args.shape.outputs, updated(args, buffers, kBias), gradient);
  });
}

// The following functions compute some rows of the gradient at a time, by OpenBLAS or oneDNN.

int rows_at_once(const ConnectedShape& shape) {
  return static_cast<int>(std::clamp<std::int64_t>(kMostGradient / shape.inputs, 1, shape.outputs));
}

std::size_t gradient_floats(const ConnectedUpdateArgs& args) {
  return static_cast<std::size_t>(std::max<std::int64_t>(
      std::int64_t{rows_at_once(args.shape)} * args.shape.inputs, args.shape.outputs));
}

WorkingFloats working(const ConnectedUpdateArgs& args, BufferSet) {
  return {.kept_beside = gradient_floats(args)};
}

// Updates some rows at a time. product(first row, rows, gradient) adds to a gradient that is zero.
void update_by_rows(const ConnectedUpdateArgs& args, const Buffers& buffers, DeviceContext& context,
                    auto product) {
  const int inputs = args.shape.inputs, outputs = args.shape.outputs;
  const int most = rows_at_once(args.shape);
  float* gradient = context.local<Gradient>().zeros(gradient_floats(args));
  update_bias(args, buffers, gradient);
  const auto weights = updated(args, buffers, kWeights);
  use_step_of(args.weights, [&](const auto& step) {
    for (int first = 0; first < outputs; first += most) {
      const int rows = std::min(most, outputs - first);
      product(first, rows, gradient);
      update_piece(step, std::int64_t{first} * inputs, std::int64_t{rows} * inputs, weights,
                   gradient);
    }
  });
}

template <Gemm product>
void update_gemm(const ConnectedUpdateArgs& args, const Buffers& buffers, DeviceContext& context) {
  const int n = args.shape.n, inputs = args.shape.inputs, outputs = args.shape.outputs;
  update_by_rows(args, buffers, context, [&](int first, int rows, float* gradient) {
    product(rows, inputs, n, {buffers.get(1) + first, outputs, true}, {buffers.get(0), inputs},
            1.0f, gradient, inputs);
  });
}

#ifdef OMNI_ONEDNN
void update_bf16(const ConnectedUpdateArgs& args, const Buffers& buffers, DeviceContext& context) {
  std::optional<onednn::Multiplier> product;
  int rows_of_product = 0;
  update_by_rows(args, buffers, context, [&](int first, int rows, float* gradient) {
    if (rows != rows_of_product)
      product.emplace(
          onednn::connected_weights_gradient(args.shape, rows, buffers.get(0), context));
    rows_of_product = rows;
    (*product)(buffers.get(1) + first, gradient);
  });
}

WorkingFloats working_onednn(const ConnectedUpdateArgs& args, BufferSet in_bf16) {
  WorkingFloats floats = working(args, in_bf16);
  if (omni::in_bf16()) floats.scratch = onednn::connected_floats(args.shape);
  return floats;
}

void update_onednn(const ConnectedUpdateArgs& args, const Buffers& buffers,
                   DeviceContext& context) {
  if (in_bf16())
    update_bf16(args, buffers, context);
  else
    update_gemm<onednn::gemm>(args, buffers, context);
}
#endif

// The following functions are the reference, the cost and the footprint.

void update_reference(const ConnectedUpdateArgs& args, const Buffers& buffers, DeviceContext&) {
  reference::connected_backward_update(args, buffers.get(0), buffers.get(1),
                                       updated(args, buffers, kWeights),
                                       updated(args, buffers, kBias));
}

// Returns the cost of the gradient and of the update together.
Cost cost(const ConnectedUpdateArgs& args) {
  const auto count = static_cast<double>(args.shape.weights_count());
  const bool adam = args.weights.adam;
  return {.flops = (2.0 * args.shape.n + flops_per_value(args.weights)) * count,
          .bytes = 4.0 * (static_cast<double>(args.shape.src_count() + args.shape.dst_count()) +
                          (adam ? 6 : 4) * count)};
}

std::uint64_t footprint(const ConnectedUpdateArgs& args) {
  return in_precision(footprint_of(args.shape.n, args.shape.inputs, args.shape.outputs,
                                   args.weights.adam, args.weights.rule));
}

template <void (*of_one)(const ExchangeArgs&)>
void for_both(const ConnectedUpdateArgs& args) {
  of_one(args.weights);
  of_one(args.bias);
}

}  // namespace

Codelet<ConnectedUpdateArgs> connected_backward_update({
    .name = "connected_backward_update",
    .color = 0xbc5090,
    .implementations =
        {
#ifdef OMNI_ONEDNN
            {"onednn", update_onednn, nullptr, Role::fast, working_onednn},
#endif
            {"gemm", update_gemm<gemm>, nullptr, Role::fast, working},
            {"reference", update_reference, nullptr, Role::reference},
        },
    .cost = cost,
    .footprint = footprint,
    .when_begun = for_both<count_update>,
    .when_done = for_both<report_update>,
    .revision = 2,
});

void submit_connected_backward_update(ConnectedUpdateArgs args, const Tensor& src,
                                      const Tensor& diff_dst, const UpdatedPart& weights,
                                      const UpdatedPart& bias, TaskTag tag) {
  std::vector<Access> accesses{read(src),
                               read(diff_dst),
                               read_write(weights.master),
                               read_write(weights.velocity),
                               read_write(bias.master),
                               read_write(bias.velocity)};
  args.weights.adam = args.bias.adam = weights.mean_square.has_value();
  if (args.weights.adam) {
    accesses.push_back(read_write(*weights.mean_square));
    accesses.push_back(read_write(*bias.mean_square));
  }
  connected_backward_update.submit(args, accesses, tag);
}

}  // namespace omni
