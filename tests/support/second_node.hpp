// A SecondNode is a second memory node without a GPU: StarPU's OpenCL worker on PoCL, which
// computes on this machine's cores in memory of its own. The worker runs the CPU workers' kernels
// on mapped OpenCL buffers, which only StarPU brings up to date. So all codelets must give the same
// results on both nodes. To show wrong access modes, buffers that a task only writes begin as NaN
// on the second node, and buffers that it only reads are compared after the task.
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
