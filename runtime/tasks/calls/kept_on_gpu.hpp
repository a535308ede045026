// KeptOnGpu keeps tensors acquired in a GPU's memory while chains of whole iterations follow each
// other. Otherwise StarPU would release and acquire each tensor between two iterations, for which
// the GPU would wait up to a millisecond. StarPU sees kept tensors as used by the program, so it
// neither moves nor evicts them.
//
// A tensor is kept if two chains in a row used it, and nobody else between them. Any other use
// gives all tensors back when the last chain is done (Tensor::handle). The chains are launched in
// the order of submission into one stream, so what they do to the tensors is ordered, too. The next
// chain may be launched while the GPU computes. Only the submitting thread calls these functions.
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
    const Tensor* tensor;  // the owner of the memory, not an alias
    AccessMode mode;
    void* memory;  // on the GPU, once StarPU has granted the access
  };
  struct Use {
    DataHandle handle;
    const Tensor* tensor;
    AccessMode mode;
  };

  // A Kept is what one chain needs to use kept tensors.
  struct Kept {
    std::vector<const Datum*>
        data{};                 // by use; null: not kept, so the chain's task must declare it
    DataHandle gate = nullptr;  // the chain's task must read it; null: nothing is kept
    // StarPU's tags for "the chain before is launched" (0: there is none) and "this chain is
    // launched". The chain's task has the tag launched + 1.
    std::uint64_t after = 0, launched = 0;
  };
  // Call keep() before a chain of a whole iteration is submitted. The worker must have one stream.
  static Kept keep(std::span<const Use> uses, unsigned worker);
  static void give_back();
  static std::size_t count();  // number of kept tensors

 private:
  // A Request counts the accesses that StarPU has yet to grant before one chain. When none is left,
  // it releases `gate_`, for which the chain's task waits.
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
