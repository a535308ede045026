// A ProcessBoard answers what MPICH asks its launcher while it starts, in place of mpiexec or srun.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace omni::ranks {

// The questions are lines of PMI 1, as "cmd=get kvsname=own key=a". They have no line ends here.
class ProcessBoard {
 public:
  // `nodes` names the node of each rank. Ranks of one node use its memory for messages.
  explicit ProcessBoard(const std::vector<std::string>& nodes);

  struct Answer {
    int rank;
    std::string line;
  };
  // Most questions have one answer. A barrier is answered when all ranks have asked for it.
  std::vector<Answer> ask(int rank, std::string_view question);

 private:
  std::map<std::string, std::string, std::less<>> values_;  // by key
  std::set<int> waiting_;                                   // ranks at the barrier
  int size_;
};

}  // namespace omni::ranks
