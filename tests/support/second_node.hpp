// A second memory node without a GPU: an OpenCL worker of StarPU on PoCL, which computes on this
// machine's cores with memory of its own. There it runs the same kernels as a CPU worker does, on
// OpenCL buffers mapped for them; only StarPU brings these up to date. So all codelets run on both
// nodes, and whatever they compute must be the same. What a task only writes is NaN when it starts
// there, what it only reads is compared afterwards: wrong access modes show.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/tasks/session.hpp"

namespace omni::test {

enum class Where { anywhere, main_memory, second_node };

// While a SecondNode exists, start_session() adds an OpenCL worker with a memory node of its own to
// two CPU workers. At most one may exist. Make it before the Session, and destroy it after it.
class SecondNode {
 public:
  // Returns where the tasks of the codelet with this name may run.
  using Placement = std::function<Where(const std::string&)>;
  explicit SecondNode(Placement placement = [](const std::string&) { return Where::anywhere; });
  ~SecondNode();
  SecondNode(const SecondNode&) = delete;
  SecondNode& operator=(const SecondNode&) = delete;

  // A Count holds the number of a codelet's tasks, and how many of them ran on the second node.
  struct Count {
    int submitted = 0, there = 0;
  };
  std::map<std::string, Count> counts() const;
  // Returns a message for each task on the second node that changed data which it only reads.
  std::vector<std::string> complaints() const;
};

// Starts a session. It fails with a device error if a SecondNode lives but StarPU finds no OpenCL
// device.
Result<Session> start_session(const std::string& scheduler = "omni", bool deterministic = false);

}  // namespace omni::test
