// One mini-batch over several ranks. Every part of a parameter has an owner. As soon as its
// gradient is complete, all ranks send theirs to the owner, which adds them up in the order of the
// ranks, makes the step, and sends the new values back. So the ranks share the work of the steps,
// and each sends and receives every parameter about once, however many ranks there are.
#pragma once

#include <vector>

#include "codelets/elementwise/exchange.hpp"
#include "layers/net.hpp"

namespace omni {

class RankSums {
 public:
  explicit RankSums(Net& net);

  std::size_t bytes() const { return incoming_.bytes(); }
  Status allocate() { return incoming_.allocate(); }
  // Of a parameter by its number in the net, behind its backward tasks.
  void submit(std::size_t number, const Exchange& step, TaskTag tag);
  // What updates remember, from its owners to the first rank. No task may be under way.
  void gather_memory();

 private:
  struct Part {
    int owner = 0;
    std::vector<Tensor*> incoming{};  // of the owner, by rank; null: its own
  };
  // The sum of the ranks [first, end), in pairs; where the own gradient is among them it holds it.
  TensorPart add_up(const Part& part, TensorPart own, int first, int end, TaskTag tag) const;

  std::vector<Param*> params_;
  std::vector<std::vector<Part>> parts_;  // by parameter
  TensorPool incoming_;
};

}  // namespace omni
