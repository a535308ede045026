// Tensors that stay acquired in a GPU's memory while chains of whole iterations follow each other
// there. Otherwise StarPU releases and acquires each between two iterations, up to a millisecond in
// which the GPU waits. To StarPU the program uses them there: it neither moves nor evicts them.
//
// A tensor is kept that two chains in a row used, and nobody else between them. Any other use gives
// all back when the last chain is done (see Tensor::handle). The chains are launched in the order
// of submission into one stream, which orders what they do to these tensors; the next may be
// launched while the GPU computes. Only the submitting thread calls these functions.
#pragma once

#include <atomic>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/tasks/access.hpp"
#include "runtime/tasks/tensor.hpp"

namespace omni {

class KeptOnGpu {
  struct Request;

 public:
  struct Datum {
    Request& request;
    DataHandle handle;
    const Tensor* tensor;  // not an alias
    AccessMode mode;
    void* memory;  // there, once StarPU has granted it
  };
  struct Use {
    DataHandle handle;
    const Tensor* tensor;
    AccessMode mode;
  };

  // What is kept for a chain.
  struct Kept {
    std::vector<const Datum*> data{};  // in the order of its uses; null: its task must declare it
    DataHandle gate = nullptr;         // which its task must read
    // StarPU's tags: when the chain before is launched, 0 for the first, and when this one is. The
    // next number is the tag of its task.
    std::uint64_t after = 0, launched = 0;
  };
  // Before a chain of a whole iteration is submitted, for a worker that has one stream.
  static Kept keep(std::span<const Use> uses, unsigned worker);
  static void give_back();
  static std::size_t count();  // of what is kept

 private:
  // What is acquired for one chain, which waits at the gate until all is granted.
  struct Request {
    Request(KeptOnGpu& all, std::size_t count) : kept(all), awaited(count) {}
    void granted();
    KeptOnGpu& kept;
    std::atomic<std::size_t> awaited;
  };

  explicit KeptOnGpu(unsigned worker);
  const Datum* find(const Use& use) const;
  bool serves(std::span<const Use> uses) const;
  void acquire(std::span<const Use> uses);

  const unsigned worker_, memory_node_;
  DataHandle gate_;
  std::uint64_t last_launched_ = 0;
  std::deque<Request> requests_;
  std::deque<Datum> data_;
  std::unordered_map<DataHandle, const Datum*> by_handle_;
};

}  // namespace omni
