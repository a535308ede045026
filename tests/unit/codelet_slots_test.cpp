// A codelet with one implementation more than StarPU has slots: the reference shares the last one
// with another, and the model still knows each by its own time.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/recorder.hpp"
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
                        {"reference", numbered<4, 100>, nullptr, Role::reference}},
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
  auto recorder = Recorder::start(folder_ / "trace", {.net = "a net", .batch = 1});
  ASSERT_TRUE(recorder) << recorder.error().message();
  for (int i = 0; i < 15; ++i)
    for (const char* name : {"d", "reference"}) {
      set_implementation_policy({.deterministic = false, .preferred = name});
      run();
    }
  recorder->reset();

  std::istringstream text(test::get(folder_ / "trace" / "rank-0.jsonl"));
  std::map<int, double> predicted;  // the last one, in ms
  for (std::string line; std::getline(text, line);)
    if (const auto task = nlohmann::json::parse(line);
        task.value("predicted", nlohmann::json()).is_number())
      predicted[task["impl"]] = 1e-6 * task["predicted"].get<double>();
  ASSERT_EQ(predicted.size(), 2u);
  EXPECT_LT(predicted[3], 50);
  EXPECT_GT(predicted[4], 75);
}

}  // namespace
}  // namespace omni
