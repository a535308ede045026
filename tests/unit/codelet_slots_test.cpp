// A codelet with one implementation more than StarPU has slots: the reference shares the last one
// with another, and the model still knows each by its own time.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <map>
#include <string>

#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/expected_times.hpp"
#include "runtime/tasks/session.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni {
namespace {

using std::chrono::milliseconds;

struct NumberedArgs {
  bool fast_ones_support_it;
};

// Writes its number, after so many milliseconds.
template <int number, int duration>
void numbered(const NumberedArgs&, const Buffers& buffers, DeviceContext&) {
  const auto until = std::chrono::steady_clock::now() + milliseconds(duration);
  while (std::chrono::steady_clock::now() < until) {
  }
  buffers.get<std::int32_t>(0)[0] = number;
}

bool supported(const NumberedArgs& args) { return args.fast_ones_support_it; }

Codelet<NumberedArgs> five({
    .name = "test_five",
    .implementations = {{"a", numbered<0, 0>, supported},
                        {"b", numbered<1, 0>, supported},
                        {"c", numbered<2, 0>, supported},
                        {"d", numbered<3, 1>, supported},
                        {"reference", numbered<4, 40>, nullptr, Role::reference}},
    .cost = [](const NumberedArgs&) { return Cost{}; },
    .footprint = [](const NumberedArgs&) { return footprint_of(0); },
});

class CodeletSlots : public testing::Test {
 protected:
  CodeletSlots() : session_(Session::start(options())) {}
  ~CodeletSlots() override { set_implementation_policy({}); }
  void SetUp() override {
    ASSERT_TRUE(session_) << session_.error().message();
    ASSERT_TRUE(ran_.allocate());
  }
  SessionOptions options() const {
    SessionOptions chosen;
    chosen.cpu_workers = 1;
    chosen.models = folder_.path();
    return chosen;
  }
  int run(bool fast_ones_support_it = true) {
    five.submit({fast_ones_support_it}, {write(ran_)});
    EXPECT_TRUE(wait_for_tasks());
    return HostAccess(ran_, HostAccess::Mode::read).i32()[0];
  }

  test::TemporaryDirectory folder_;
  Result<Session> session_;
  Tensor ran_{"ran", 1, DataType::i32};
};

TEST_F(CodeletSlots, the_one_asked_for_runs) {
  for (int number = 0; number < 5; ++number) {
    set_implementation_policy({.deterministic = false,
                               .preferred = five.entries()[static_cast<std::size_t>(number)].name});
    EXPECT_EQ(run(), number);
  }
  EXPECT_EQ(run(/*fast_ones_support_it=*/false), 4);
  set_implementation_policy({.deterministic = true, .preferred = ""});
  EXPECT_EQ(run(), 0);
}

TEST_F(CodeletSlots, the_reference_runs_where_nothing_else_can_and_only_there) {
  EXPECT_EQ(run(/*fast_ones_support_it=*/false), 4);
  for (int i = 0; i < 60; ++i) EXPECT_LT(run(), 4);
}

TEST_F(CodeletSlots, measurements_of_the_shared_slot_do_not_mix) {
  std::map<std::string, double> expected;  // seconds
  const auto both_known = [&] {
    return expected.size() == 2 && !std::isnan(expected["d"]) && !std::isnan(expected["reference"]);
  };
  // StarPU waits for ten measurements, and begins anew when too many are far off.
  for (int tries = 0; tries < 200 && !both_known(); ++tries) {
    expected_times::start();
    for (const char* name : {"d", "reference"}) {
      set_implementation_policy({.deterministic = false, .preferred = name});
      run();
    }
    for (const ExpectedTime& time : expected_times::finish()) {
      EXPECT_EQ(time.codelet, "test_five");
      expected[time.implementation] = time.seconds;
    }
  }
  ASSERT_TRUE(both_known());
  EXPECT_LT(expected["d"], 0.01);
  EXPECT_GT(expected["reference"], 0.03);
}

}  // namespace
}  // namespace omni
