// This header is shared by all oneDNN implementations. It has an engine and a stream per worker,
// plans, the division of scratch memory, and the type of factors. A plan has the primitives for one
// set of arguments, and is made once per worker.
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

// Returns the worker's plan for these arguments; its constructor also gets `further`. The first
// call makes the plan. oneDNN itself shares the generated code between workers.
template <class Plan, class Args, class... Further>
const Plan& plan_for(const Args& args, DeviceContext& context, Further... further) {
  using Key = std::tuple<Precision, Args, Further...>;
  auto& plans = context.local<std::map<Key, Plan>>();
  const Key key{implementation_policy().precision, args, further...};
  const auto found = plans.find(key);
  if (found != plans.end()) return found->second;
  return plans.try_emplace(key, context.local<Engine>().engine, args, further...).first->second;
}

// Returns whether oneDNN generates code with these instructions on this machine.
bool uses(dnnl::cpu_isa instructions);

// Factors tell how the factors of a product are converted for ImplementationPolicy::precision. If
// oneDNN has code for bf16 (AVX-512), factors are converted to bf16. Otherwise they are rounded to
// bf16, but stored as f32. That is slower than fp32, but products of normal numbers are the same on
// both kinds of machine.
struct Factors {
  dnnl::memory::data_type type = dnnl::memory::data_type::f32;
  bool rounded = false;
  bool copied() const { return rounded || type != dnnl::memory::data_type::f32; }
};
Factors factors();

// Returns these buffers if oneDNN has code for tensors in bf16 on this machine; otherwise none.
BufferSet takes_bf16(BufferSet buffers);

// A ScratchLayout divides the context's scratch memory into the pieces that a plan needs.
class ScratchLayout {
 public:
  // Adds a piece, and returns its offset in floats.
  std::size_t add(const dnnl::memory::desc& piece) {
    const std::size_t offset = floats_;
    floats_ += (piece.get_size() + 63) / 64 * 16;  // every piece starts on a cache line
    return offset;
  }
  std::size_t floats() const { return floats_; }

 private:
  std::size_t floats_ = 0;
};

// Makes a primitive add its result to the old values of the buffer.
void append_sum(dnnl::primitive_attr& attributes);

// A reorder copies a tensor into another layout or type. With ReorderMode::add it adds the tensor
// to the old values instead.
enum class ReorderMode { overwrite, add };
dnnl::reorder make_reorder(const dnnl::engine& engine, const dnnl::memory::desc& from,
                           const dnnl::memory::desc& to, ReorderMode mode);

// A Factor is an operand of a primitive. It is converted to the layout and type that the primitive
// takes.
class Factor {
 public:
  Factor() = default;
  Factor(const dnnl::engine& engine, const dnnl::memory::desc& ours,
         const dnnl::memory::desc& theirs, ScratchLayout& layout);
  // Returns the buffer itself if it needs no conversion, else a converted copy in `scratch`.
  dnnl::memory bring(const dnnl::engine& engine, const dnnl::stream& stream, const void* data,
                     float* scratch) const;

 private:
  dnnl::memory::desc ours_, theirs_;
  bool copied_ = false, rounded_ = false;
  std::size_t at_ = 0;
  dnnl::reorder reorder_;
};

// Makes attributes of a primitive whose working memory is a piece of the context's scratch memory.
dnnl::primitive_attr with_user_scratchpad();

// Makes a view of a buffer. oneDNN has no const memory, so `data` is cast to a pointer to non-const
// even if it is only read.
dnnl::memory view(const dnnl::memory::desc& desc, const dnnl::engine& engine, const void* data);

// Appends the activation to a primitive. Returns false if oneDNN does not have it. oneDNN's relu is
// not used: it changes NaN to 0, which would hide that a training has diverged.
bool append_activation(Activation activation, dnnl::primitive_attr& attributes);

// gemm() is oneDNN's matrix product, which is faster than OpenBLAS's for few rows.
void gemm(int m, int n, int k, MatrixView a, MatrixView b, float keep, float* product,
          int product_stride);

}  // namespace omni::onednn

#endif
