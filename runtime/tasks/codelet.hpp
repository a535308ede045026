// A codelet is an operation with its implementations, its cost, and a footprint. Its arguments are
// a trivially copyable struct. For every call StarPU chooses the implementation by its performance
// models; the footprint selects the model's entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/bf16/float_copies.hpp"
#include "runtime/tasks/access.hpp"
#include "runtime/tasks/device_context.hpp"
#include "runtime/tasks/kernel.hpp"
#include "runtime/tasks/submission.hpp"
#include "runtime/tasks/tensor.hpp"

namespace omni {

// The following types decide which implementations this process may choose.

// Convolutions and connected layers round the factors of their products to this precision. tf32
// (only on GPUs) has 10 bits of mantissa, bf16 has 7. Sums are fp32. Activations may be in bf16,
// too: BuildOptions::values.
enum class Precision { fp32, tf32, bf16 };
constexpr const char* name_of(Precision precision) {
  return precision == Precision::fp32 ? "fp32" : precision == Precision::tf32 ? "tf32" : "bf16";
}

// A Session sets the ImplementationPolicy.
struct ImplementationPolicy {
  // True: every call takes the implementation for GPUs, or else the first for cores, that supports
  // its arguments. Tasks that add to the same tensor keep their order.
  bool deterministic = false;
  // The implementation of this name ("reference", "onednn", ...) is taken wherever it supports the
  // arguments. "": none is preferred.
  std::string preferred;
  std::vector<std::uint32_t> gpu_workers{};  // as WorkerSet::bits(); empty: no GPU computes
  Precision precision = Precision::fp32;
  bool gpus_alone = false;  // true: cores run no task that a GPU can run
};
void set_implementation_policy(ImplementationPolicy policy);
const ImplementationPolicy& implementation_policy();

bool gpus_compute();
std::vector<std::size_t> gpu_worker_numbers();
bool only_gpus_compute();  // true: cores run no task that a GPU can run
// Sets gpus_alone to false. Call it before tensors are allocated.
void let_cores_compute();

// The following types describe implementations.

// A core runs a reference only where no fast implementation supports the arguments, or if the
// reference is `preferred`. To measure it for StarPU's models would take seconds per shape. An
// implementation with the role `gpu` enqueues work on the stream of a CUDA worker, and returns.
enum class Role { fast, reference, gpu };

// A BufferSet is a set of a task's buffers, by number.
struct BufferSet {
  constexpr explicit BufferSet(std::uint32_t all) : bits(all) {}
  constexpr BufferSet(std::initializer_list<unsigned> numbers = {}) {
    for (const unsigned number : numbers) bits |= 1u << number;
  }
  bool operator==(const BufferSet&) const = default;
  bool empty() const { return bits == 0; }
  bool has(std::size_t number) const { return (bits >> number & 1u) != 0; }
  BufferSet without(BufferSet others) const { return BufferSet(bits & ~others.bits); }
  BufferSet below(std::size_t count) const {
    return count < 32 ? BufferSet(bits & ((1u << count) - 1)) : *this;
  }
  std::uint32_t bits = 0;
};

template <class Args>
struct Implementation {
  const char* name;
  Kernel<Args> kernel;
  bool (*supports)(const Args&) = nullptr;  // null: every shape
  Role role = Role::fast;
  // Returns the memory that the kernel needs beside its buffers, of which those in `in_bf16` are in
  // bf16. Null: hardly any.
  WorkingFloats (*working)(const Args&, BufferSet in_bf16) = nullptr;
  // The kernel computes in bf16 if exactly these buffers are in bf16; those of maybe_in_bf16 may
  // be, too. Otherwise it gets copies in floats of all buffers that are in bf16.
  BufferSet in_bf16{};
  BufferSet maybe_in_bf16{};  // weights, which the kernel accepts both as floats and in bf16
};

// Makes an entry for a GPU's kernel in a codelet's list of implementations; none in a build without
// CUDA. The further arguments are in_bf16; `maybe` is maybe_in_bf16. A product also says how much
// memory it needs.
#ifdef OMNI_CUDA
#define OMNI_GPU_IMPLEMENTATION(kernel, ...) OMNI_GPU_IMPLEMENTATION_MAYBE(kernel, {}, __VA_ARGS__)
#define OMNI_GPU_IMPLEMENTATION_MAYBE(kernel, maybe, ...) \
  OMNI_GPU_PRODUCT(kernel, nullptr, maybe, __VA_ARGS__)
#define OMNI_GPU_PRODUCT(kernel, working, maybe, ...) \
  {"cuda", kernel, nullptr, Role::gpu, working, BufferSet{__VA_ARGS__}, maybe},
#else
#define OMNI_GPU_IMPLEMENTATION(...)
#define OMNI_GPU_IMPLEMENTATION_MAYBE(...)
#define OMNI_GPU_PRODUCT(...)
#endif

template <auto function>
struct PlainKernel;
template <class Args, class... T, void (*function)(const Args&, T*...)>
struct PlainKernel<function> {
  using Arguments = Args;
  static void run(const Args& args, const Buffers& buffers, DeviceContext&) {
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      function(args, (i < buffers.count() ? buffers.get<std::remove_const_t<T>>(i) : nullptr)...);
    }
    (std::index_sequence_for<T...>());
  }
};

// Makes an implementation of a function that takes pointers to the task's buffers, in order. If the
// task lacks the last buffers, which may be optional, their pointers are null.
template <auto function>
Implementation<typename PlainKernel<function>::Arguments> reference_implementation() {
  return {"reference", PlainKernel<function>::run, nullptr, Role::reference};
}

// Makes two entries of an operation: its reference and its kernel for GPUs. Both have the
// operation's name in their namespaces. The numbers are in_bf16 of the kernel for GPUs.
#define OMNI_PLAIN_IMPLEMENTATIONS(operation, ...)         \
  reference_implementation<reference::operation<float>>(), \
      OMNI_GPU_IMPLEMENTATION(gpu::operation __VA_OPT__(, ) __VA_ARGS__)

// Makes the usual list: a vector kernel, which takes the same buffers in bf16, and these two
// entries.
#define OMNI_IMPLEMENTATIONS(operation, vector_kernel, ...)                \
  {                                                                        \
    {.name = "vector", .kernel = vector_kernel, .in_bf16 = {__VA_ARGS__}}, \
        OMNI_PLAIN_IMPLEMENTATIONS(operation __VA_OPT__(, ) __VA_ARGS__)   \
  }

struct Cost {
  double flops = 0, bytes = 0;
};

// Returns the cost of an operation that needs `flops` operations and `bytes` bytes for each value.
template <int flops, int bytes, class Args>
Cost cost_per_value(const Args& args) {
  double count;
  if constexpr (requires { args.count; })
    count = static_cast<double>(args.count);
  else if constexpr (requires { args.rows; })
    count = static_cast<double>(args.rows) * args.c;
  else
    count = static_cast<double>(args.n) * args.inputs;
  return {.flops = flops * count, .bytes = bytes * count};
}

struct CodeletCall;
struct FreeCall {
  void operator()(CodeletCall* call) const;
};

// CodeletBase is the part of a codelet that does not depend on Args. It owns the starpu_codelet and
// its model.
class CodeletBase {
 public:
  struct Entry {
    std::string name;
    Role role;
    BufferSet in_bf16, maybe_in_bf16;
    std::function<bool(const void*)> supports;
    std::function<WorkingFloats(const void*, BufferSet)> working;
    std::function<void(const void*, const Buffers&, DeviceContext&)> run;

    // Returns whether the kernel accepts this number of buffers, of which those in `bf16_buffers`
    // are in bf16. Otherwise the kernel needs copies in floats.
    bool takes(BufferSet bf16_buffers, std::size_t buffers) const {
      return bf16_buffers.empty() || bf16_buffers.without(maybe_in_bf16) == in_bf16.below(buffers);
    }
  };
  using Hook = std::function<void(const void*)>;
  const std::string& name() const { return name_; }
  const std::vector<Entry>& entries() const { return entries_; }
  std::uint32_t color() const;
  std::uint64_t fingerprint() const { return fingerprint_; }  // a hash of the model's name
  static const std::vector<const CodeletBase*>& all();        // all codelets of this program

  CodeletBase(const CodeletBase&) = delete;
  CodeletBase& operator=(const CodeletBase&) = delete;

 protected:
  CodeletBase(std::string name, std::uint32_t color, std::vector<Entry> entries, Hook when_begun,
              Hook when_done, int revision, std::size_t args_bytes);
  ~CodeletBase();
  void submit(const void* args, Cost cost, std::uint32_t footprint,
              std::span<const Access> accesses, TaskTag tag);

 private:
  friend struct CodeletCall;
  friend struct CodeletCallbacks;
  struct Starpu;
  // Submits the call as one StarPU task.
  void submit_alone(std::unique_ptr<CodeletCall, FreeCall> call, std::span<const Access> accesses,
                    int priority);
  std::string name_;
  std::vector<Entry> entries_;
  Hook when_begun_, when_done_;  // empty: nothing is called
  std::size_t args_bytes_;
  std::uint64_t fingerprint_ = 0;
  std::unique_ptr<Starpu> starpu_;
};

template <class Args>
struct CodeletDefinition {
  const char* name;
  std::uint32_t color = 0x808080;                     // in traces
  std::vector<Implementation<Args>> implementations;  // the best first, the reference last
  Cost (*cost)(const Args&) = nullptr;
  std::uint64_t (*footprint)(const Args&) = nullptr;  // hashes what changes the run time
  // The worker calls when_begun on the host before a task computes (on a GPU: before it is
  // enqueued). The task then has exclusive access to its data, also if it commutes with others.
  void (*when_begun)(const Args&) = nullptr;
  // The worker calls when_done on the host when a task is done, also on a GPU, before tasks that
  // depend on it start. Tasks that commute with it may have started.
  void (*when_done)(const Args&) = nullptr;
  // Raise the revision when a kernel is replaced under the same name. Otherwise StarPU would take
  // the old kernel's times for those of the new one.
  int revision = 1;
};

template <class Args>
class Codelet : public CodeletBase {
  static_assert(std::is_trivially_copyable_v<Args>, "arguments are copied into the task as bytes");

 public:
  explicit Codelet(const CodeletDefinition<Args>& definition)
      : CodeletBase(definition.name, definition.color, erase(definition.implementations),
                    erase(definition.when_begun), erase(definition.when_done), definition.revision,
                    sizeof(Args)),
        implementations_(definition.implementations),
        cost_(definition.cost),
        footprint_(definition.footprint) {}

  void submit(const Args& args, std::initializer_list<Access> accesses, TaskTag tag = {}) {
    submit(args, std::span(accesses.begin(), accesses.size()), tag);
  }
  void submit(const Args& args, std::initializer_list<std::optional<Access>> accesses,
              TaskTag tag = {}) {
    std::vector<Access> present;
    for (const auto& access : accesses)
      if (access) present.push_back(*access);
    submit(args, present, tag);
  }
  void submit(const Args& args, std::span<const Access> accesses, TaskTag tag = {}) {
    const std::uint64_t hash = footprint_(args);
    CodeletBase::submit(&args, cost_(args), static_cast<std::uint32_t>(hash ^ (hash >> 32)),
                        accesses, tag);
  }
  // Tests and benchmarks run implementations on plain memory, and some codelets combine several.
  const std::vector<Implementation<Args>>& implementations() const { return implementations_; }
  Cost cost(const Args& args) const { return cost_(args); }

 private:
  static std::vector<Entry> erase(const std::vector<Implementation<Args>>& implementations) {
    std::vector<Entry> entries;
    for (const Implementation<Args>& each : implementations)
      entries.push_back({each.name, each.role, each.in_bf16, each.maybe_in_bf16,
                         [supports = each.supports](const void* args) {
                           return supports == nullptr || supports(*static_cast<const Args*>(args));
                         },
                         [working = each.working](const void* args, BufferSet in_bf16) {
                           return working == nullptr
                                      ? WorkingFloats()
                                      : working(*static_cast<const Args*>(args), in_bf16);
                         },
                         [kernel = each.kernel](const void* args, const Buffers& buffers,
                                                DeviceContext& context) {
                           kernel(*static_cast<const Args*>(args), buffers, context);
                         }});
    return entries;
  }
  static Hook erase(void (*hook)(const Args&)) {
    if (hook == nullptr) return nullptr;
    return [hook](const void* args) { hook(*static_cast<const Args*>(args)); };
  }
  std::vector<Implementation<Args>> implementations_;
  Cost (*cost_)(const Args&);
  std::uint64_t (*footprint_)(const Args&);
};

// Returns a hash of the numbers that change a kernel's run time.
template <class... T>
std::uint64_t footprint_of(T... values) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto mix = [&hash](std::uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  };
  (mix(static_cast<std::uint64_t>(values)), ...);
  return hash;
}

// Returns the footprint of a codelet where these members of its arguments change the run time.
template <auto... members, class Args>
std::uint64_t footprint_by(const Args& args) {
  return footprint_of(args.*members...);
}

// Returns the memory in which a GPU rounds factors of a product to bf16, if the precision is bf16.
// `counts` are those of the first buffers; 0 means that the buffer is not copied.
inline WorkingFloats rounded_factors(BufferSet in_bf16,
                                     std::initializer_list<std::int64_t> counts) {
  if (implementation_policy().precision != Precision::bf16) return {};
  std::size_t buffer = 0, bytes = 0;
  for (const std::int64_t count : counts)
    if (!in_bf16.has(buffer++)) bytes += bytes_of_rounded(count);
  return {.factors_on_gpu = bytes / sizeof(float)};
}

// Adds the precision to a footprint, for codelets whose run time depends on the precision.
inline std::uint64_t in_precision(std::uint64_t footprint) {
  return footprint + static_cast<std::uint64_t>(implementation_policy().precision);
}

}  // namespace omni
