// These tests run a codelet with eight implementations, as many as StarPU distinguishes.
#include <gtest/gtest.h>

#include <string>

#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/host_access.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "tests/support/with_session.hpp"

namespace omni {
namespace {

struct NumberedArgs {
  bool fast_ones_support_it;
};

// Writes `number`, so that the test sees which implementation ran.
template <int number>
void numbered(const NumberedArgs&, const Buffers& buffers, DeviceContext&) {
  buffers.get<std::int32_t>(0)[0] = number;
}

bool supported(const NumberedArgs& args) { return args.fast_ones_support_it; }

Codelet<NumberedArgs> eight({
    .name = "test_eight",
    .implementations = {{"a", numbered<0>, supported},
                        {"b", numbered<1>, supported},
                        {"c", numbered<2>, supported},
                        {"d", numbered<3>, supported},
                        {"e", numbered<4>, supported},
                        {"f", numbered<5>, supported},
                        {"g", numbered<6>, supported},
                        {"reference", numbered<7>, nullptr, Role::reference}},
    .cost = [](const NumberedArgs&) { return Cost{}; },
    .footprint = [](const NumberedArgs&) { return footprint_of(0); },
});

class CodeletSlots : public test::WithSession {
 protected:
  CodeletSlots() : WithSession(test::with_workers(1)) {}
  ~CodeletSlots() override { set_implementation_policy({}); }
  void SetUp() override {
    WithSession::SetUp();
    ASSERT_TRUE(ran_.allocate());
  }
  int run(bool fast_ones_support_it = true) {
    eight.submit({fast_ones_support_it}, {write(ran_)});
    EXPECT_TRUE(wait_for_tasks());
    return HostAccess(ran_, HostAccess::Mode::read).i32()[0];
  }

  Tensor ran_{"ran", 1, DataType::i32};
};

TEST_F(CodeletSlots, the_one_asked_for_runs) {
  for (int number = 0; number < 8; ++number) {
    set_implementation_policy(
        {.deterministic = false,
         .preferred = eight.entries()[static_cast<std::size_t>(number)].name});
    EXPECT_EQ(run(), number);
  }
  EXPECT_EQ(run(/*fast_ones_support_it=*/false), 7);
  set_implementation_policy({.deterministic = true, .preferred = ""});
  EXPECT_EQ(run(), 0);
}

TEST_F(CodeletSlots, the_reference_runs_where_nothing_else_can_and_only_there) {
  EXPECT_EQ(run(/*fast_ones_support_it=*/false), 7);
  for (int i = 0; i < 60; ++i) EXPECT_LT(run(), 7);
}

}  // namespace
}  // namespace omni
