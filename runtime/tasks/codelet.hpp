// The typed codelet: one operation with a trivially copyable argument struct, several
// implementations of which StarPU's models choose one per call, its cost, and a footprint that
// keeps the models apart.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/tasks/access.hpp"
#include "runtime/tasks/device_context.hpp"

namespace omni {

// The memory of a task's tensors, in the order of its accesses.
class Buffers {
 public:
  explicit Buffers(std::span<void* const> pointers) : pointers_(pointers) {}
  template <class T = float>
  T* get(std::size_t index) const {
    return static_cast<T*>(pointers_[index]);
  }

 private:
  std::span<void* const> pointers_;
};

template <class Args>
using Kernel = void (*)(const Args&, const Buffers&, DeviceContext&);

// When an implementation may be chosen. A reference runs only where nothing else supports the
// arguments, or when asked for by name: letting the models try it would cost seconds per shape.
enum class Role { fast, reference };

template <class Args>
struct Implementation {
  const char* name;
  Kernel<Args> kernel;
  bool (*supports)(const Args&) = nullptr;  // null: every shape
  Role role = Role::fast;
};

struct Cost {
  double flops = 0, bytes = 0;
};

// The part that does not depend on Args: owns the starpu_codelet and its performance model.
class CodeletBase {
 public:
  struct Entry {
    std::string name;
    Role role;
    std::function<bool(const void*)> supports;
    std::function<void(const void*, const Buffers&, DeviceContext&)> run;
  };
  const std::string& name() const { return name_; }
  const std::vector<Entry>& entries() const { return entries_; }
  std::uint32_t color() const;

  CodeletBase(const CodeletBase&) = delete;
  CodeletBase& operator=(const CodeletBase&) = delete;

 protected:
  CodeletBase(std::string name, std::uint32_t color, std::vector<Entry> entries,
              std::size_t args_bytes);
  ~CodeletBase();
  void submit(const void* args, Cost cost, std::uint32_t footprint,
              std::span<const Access> accesses, TaskTag tag);

 private:
  friend struct CodeletCallbacks;
  struct Starpu;
  std::string name_;
  std::vector<Entry> entries_;
  std::size_t args_bytes_;
  std::unique_ptr<Starpu> starpu_;
};

// Which implementations the models may choose from, for the whole process. Set by Session.
struct ImplementationPolicy {
  bool deterministic = false;  // always the first one that supports the arguments; no commuting
  std::string
      preferred;  // this one wherever it supports the arguments ("reference", "onednn", ...)
};
void set_implementation_policy(ImplementationPolicy policy);
const ImplementationPolicy& implementation_policy();

template <class Args>
struct CodeletDefinition {
  const char* name;
  std::uint32_t color = 0x808080;                     // in traces
  std::vector<Implementation<Args>> implementations;  // best first, the plain-loop reference last
  Cost (*cost)(const Args&) = nullptr;
  std::uint64_t (*footprint)(const Args&) = nullptr;  // every argument that changes the run time
};

template <class Args>
class Codelet : public CodeletBase {
  static_assert(std::is_trivially_copyable_v<Args>, "arguments are copied into the task as bytes");

 public:
  explicit Codelet(const CodeletDefinition<Args>& definition)
      : CodeletBase(definition.name, definition.color, erase(definition.implementations),
                    sizeof(Args)),
        implementations_(definition.implementations),
        cost_(definition.cost),
        footprint_(definition.footprint) {}

  void submit(const Args& args, std::initializer_list<Access> accesses, TaskTag tag = {}) {
    submit(args, std::span(accesses.begin(), accesses.size()), tag);
  }
  void submit(const Args& args, std::span<const Access> accesses, TaskTag tag = {}) {
    const std::uint64_t hash = footprint_(args);
    CodeletBase::submit(&args, cost_(args), static_cast<std::uint32_t>(hash ^ (hash >> 32)),
                        accesses, tag);
  }
  // For tests and benchmarks, which run implementations directly on plain memory.
  const std::vector<Implementation<Args>>& implementations() const { return implementations_; }
  Cost cost(const Args& args) const { return cost_(args); }

 private:
  static std::vector<Entry> erase(const std::vector<Implementation<Args>>& implementations) {
    std::vector<Entry> entries;
    for (const Implementation<Args>& each : implementations)
      entries.push_back({each.name, each.role,
                         [supports = each.supports](const void* args) {
                           return supports == nullptr || supports(*static_cast<const Args*>(args));
                         },
                         [kernel = each.kernel](const void* args, const Buffers& buffers,
                                                DeviceContext& context) {
                           kernel(*static_cast<const Args*>(args), buffers, context);
                         }});
    return entries;
  }
  std::vector<Implementation<Args>> implementations_;
  Cost (*cost_)(const Args&);
  std::uint64_t (*footprint_)(const Args&);
};

// Hash of the numbers that change a kernel's run time.
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

}  // namespace omni
