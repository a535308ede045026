// One mini-batch over several ranks. Every part of a parameter has an owner. When its gradient is
// complete, all ranks send theirs to the owner. The owner adds them up in the order of ranks, makes
// the step, and sends the new values back. So ranks share the work of the steps, and each sends and
// receives every parameter about once, for any number of ranks.
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
  // Sums and steps the parameter of that number; submitted after its backward tasks.
  void submit(std::size_t number, const Exchange& step, TaskTag tag);
  // Sends optimizer state from the owners to the first rank. No task may be under way.
  void gather_memory();

 private:
  struct Part {
    int owner = 0;
    std::vector<Tensor*> incoming{};  // of the owner, by rank; null: its own
  };
  // The sum over ranks [first, end), in pairs. If the own gradient is among them, it becomes the
  // sum.
  TensorPart add_up(const Part& part, TensorPart own, int first, int end, TaskTag tag) const;

  std::vector<Param*> params_;
  std::vector<std::vector<Part>> parts_;  // by parameter
  TensorPool incoming_;
};

}  // namespace omni
