// What all oneDNN implementations share: one engine and stream per worker thread, plans (the
// primitives for one set of arguments, made once per worker), one scratch buffer divided into
// pieces, and the type of what is multiplied.
#pragma once

#ifdef OMNI_ONEDNN

#include <cstddef>
#include <dnnl.hpp>
#include <map>
#include <tuple>

#include "codelets/dense/gemm.hpp"
#include "codelets/elementwise/activation_functors.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/device_context.hpp"

namespace omni::onednn {

struct Engine {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

// The plan for these arguments, made on first use in this worker; `how`: what else it is made for.
// oneDNN itself shares the generated code between workers.
template <class Plan, class Args, class... How>
const Plan& plan_for(const Args& args, DeviceContext& context, How... how) {
  using Key = std::tuple<Precision, Args, How...>;
  auto& plans = context.local<std::map<Key, Plan>>();
  const Key key{implementation_policy().precision, args, how...};
  const auto found = plans.find(key);
  if (found != plans.end()) return found->second;
  return plans.try_emplace(key, context.local<Engine>().engine, args, how...).first->second;
}

// Whether oneDNN makes code for these instructions on this machine.
bool uses(dnnl::cpu_isa instructions);

// How numbers are prepared for a product, by ImplementationPolicy::precision. With bf16 they are
// converted to it where oneDNN has code for it (AVX-512). Elsewhere they are rounded as bf16 would
// be and stay f32: slower than leaving them alone, but the products (of normal numbers) are equal.
struct Factors {
  dnnl::memory::data_type type = dnnl::memory::data_type::f32;
  bool rounded = false;
  bool copied() const { return rounded || type != dnnl::memory::data_type::f32; }
};
Factors factors();

// Those buffers, if oneDNN has code for tensors in bf16 here.
BufferSet takes_bf16(BufferSet buffers);

// Adds up the pieces that a plan needs of the context's one scratch buffer.
class ScratchLayout {
 public:
  // Offset of the piece in floats.
  std::size_t add(const dnnl::memory::desc& piece) {
    const std::size_t offset = floats_;
    floats_ += (piece.get_size() + 63) / 64 * 16;  // every piece starts on a cache line
    return offset;
  }
  std::size_t floats() const { return floats_; }

 private:
  std::size_t floats_ = 0;
};

// A primitive then adds to what is there.
void append_sum(dnnl::primitive_attr& attributes);

// Copies a tensor into another layout or type, or adds it to what is there.
enum class ReorderMode { overwrite, add };
dnnl::reorder make_reorder(const dnnl::engine& engine, const dnnl::memory::desc& from,
                           const dnnl::memory::desc& to, ReorderMode mode);

// A tensor that a primitive multiplies, brought into the layout and type that it takes.
class Factor {
 public:
  Factor() = default;
  Factor(const dnnl::engine& engine, const dnnl::memory::desc& ours,
         const dnnl::memory::desc& theirs, ScratchLayout& layout);
  // The buffer itself where nothing is to be changed, else a copy in the scratch.
  dnnl::memory bring(const dnnl::engine& engine, const dnnl::stream& stream, const void* data,
                     float* scratch) const;

 private:
  dnnl::memory::desc ours_, theirs_;
  bool copied_ = false, rounded_ = false;
  std::size_t at_ = 0;
  dnnl::reorder reorder_;
};

// Attributes of a primitive whose working memory is a piece of our scratch.
dnnl::primitive_attr with_user_scratchpad();

// A view of a buffer. oneDNN knows no const; what a primitive only reads is passed in the same way.
dnnl::memory view(const dnnl::memory::desc& desc, const dnnl::engine& engine, const void* data);

// Appends the activation to a primitive and says so, or says that oneDNN does not have it. Its relu
// is not used: it turns NaN into 0, which would hide a diverged net from everybody.
bool append_activation(Activation activation, dnnl::primitive_attr& attributes);

// oneDNN's own matrix product, faster than OpenBLAS's for few rows.
void gemm(int m, int n, int k, MatrixView a, MatrixView b, float keep, float* product,
          int product_stride);

}  // namespace omni::onednn

#endif
