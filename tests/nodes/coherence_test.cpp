// These tests check that tasks on the second memory node see what other tasks wrote. They also
// check that a wrong access mode changes a result, so that other tests here would notice it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "tests/support/group_training.hpp"
#include "tests/support/second_node.hpp"

namespace omni {
namespace {

using test::SecondNode;
using test::values;
using test::Where;

struct AddArgs {
  int count;
  float much;
};

void add(const AddArgs& args, const Buffers& buffers, DeviceContext&) {
  for (int i = 0; i < args.count; ++i) buffers.get(0)[i] += args.much;
}

constexpr Cost no_cost(const AddArgs&) { return {}; }
std::uint64_t footprint(const AddArgs& args) { return footprint_of(args.count); }

Codelet<AddArgs> add_here({.name = "add_here",
                           .implementations = {{"only", add}},
                           .cost = no_cost,
                           .footprint = footprint});
Codelet<AddArgs> add_there({.name = "add_there",
                            .implementations = {{"only", add}},
                            .cost = no_cost,
                            .footprint = footprint});

Where by_name(const std::string& codelet) {
  return codelet == "add_there" ? Where::second_node : Where::main_memory;
}

class Coherence : public testing::Test {
 protected:
  Coherence() : session_(test::start_session()) {}
  void SetUp() override {
    ASSERT_TRUE(session_) << session_.error().message();
    ASSERT_TRUE(data_.allocate());
  }
  // Returns the sum after three tasks have added 1, 10 and 100. The first and the last run on the
  // main node, and the second on the second node.
  float sum(Access middle) {
    add_here.submit({kCount, 1}, {read_write(data_)});
    add_there.submit({kCount, 10}, {middle});
    add_here.submit({kCount, 100}, {read_write(data_)});
    EXPECT_TRUE(wait_for_tasks());
    return values(data_).back();
  }

  static constexpr int kCount = 1000;
  SecondNode second_{by_name};
  Result<Session> session_;
  Tensor data_{"data", kCount};
};

TEST_F(Coherence, there_is_another_memory_node) {
  const auto workers = session_->workers();
  ASSERT_EQ(workers.size(), 3u);
  EXPECT_EQ(std::ranges::count(workers, "OpenCL", &WorkerInfo::kind), 1);
}

TEST_F(Coherence, every_task_sees_what_the_one_before_wrote) {
  EXPECT_EQ(sum(read_write(data_)), 111);
  EXPECT_EQ(sum(accumulate(data_)), 222);
  const auto counts = second_.counts();
  EXPECT_EQ(counts.at("add_there").there, 2);
  EXPECT_EQ(counts.at("add_here").there, 0);
  EXPECT_EQ(counts.at("add_here").submitted, 4);
  EXPECT_TRUE(second_.complaints().empty());
}

TEST_F(Coherence, a_write_that_was_called_a_read_is_lost) {
  EXPECT_EQ(sum(read(data_)), 101);
  EXPECT_EQ(second_.complaints(),
            std::vector<std::string>{"add_there, buffer 0: changed what it reads"});
}

TEST_F(Coherence, a_read_that_was_called_a_write_is_not_a_number) {
  EXPECT_TRUE(std::isnan(sum(write(data_))));
}

TEST_F(Coherence, a_write_that_leaves_values_is_not_a_number_there) {
  add_there.submit({kCount - 1, 10}, {write(data_)});
  EXPECT_TRUE(std::isnan(values(data_).back()));
}

}  // namespace
}  // namespace omni
