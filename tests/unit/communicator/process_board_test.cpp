// These tests ask a ProcessBoard what MPICH asks its launcher.
#include "runtime/communicator/process_board.hpp"

#include <gtest/gtest.h>

namespace omni::ranks {
namespace {

std::string answer_of(ProcessBoard& board, const std::string& question) {
  const auto answers = board.ask(0, question);
  return answers.size() == 1 && answers.front().rank == 0 ? answers.front().line : "";
}

std::string nodes_of(const std::vector<std::string>& nodes) {
  ProcessBoard board(nodes);
  const std::string line = answer_of(board, "cmd=get kvsname=own key=PMI_process_mapping");
  return line.substr(line.find("value=") + 6);
}

TEST(ProcessBoard, shows_what_ranks_have_put_there) {
  ProcessBoard board({"a", "b"});
  EXPECT_EQ(answer_of(board, "cmd=put kvsname=own key=card-0 value=x=1,y"),
            "cmd=put_result rc=0 msg=success");
  EXPECT_EQ(answer_of(board, "cmd=get kvsname=own key=card-0"),
            "cmd=get_result rc=0 msg=success value=x=1,y");
  EXPECT_NE(answer_of(board, "cmd=get kvsname=own key=card-1").find("rc=-1"), std::string::npos);
  EXPECT_EQ(answer_of(board, "cmd=get_universe_size"), "cmd=universe_size rc=0 size=2");
}

TEST(ProcessBoard, lets_ranks_pass_when_all_have_come) {
  ProcessBoard board({"a", "a", "b"});
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(board.ask(2, "cmd=barrier_in").empty());
    EXPECT_TRUE(board.ask(0, "cmd=barrier_in").empty());
    EXPECT_EQ(board.ask(1, "cmd=barrier_in").size(), 3u);
  }
}

TEST(ProcessBoard, says_which_ranks_share_a_node) {
  EXPECT_EQ(nodes_of({"a"}), "(vector,(0,1,1))");
  EXPECT_EQ(nodes_of({"a", "a", "a"}), "(vector,(0,1,3))");
  EXPECT_EQ(nodes_of({"a", "b", "c", "c"}), "(vector,(0,3,1),(2,1,1))");
  EXPECT_EQ(nodes_of({"a", "a", "b", "a"}), "(vector,(0,1,2),(1,1,1),(0,1,1))");
}

}  // namespace
}  // namespace omni::ranks
