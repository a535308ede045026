// These tests check the last acts of a process: after fatal signals, after uncaught errors, and
// when no memory is left.
#include "runtime/farewell.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

#include "tests/support/temporary_directory.hpp"

namespace omni {
namespace {

// Each case runs in a process of its own, because it ends the process.
class Farewells : public testing::Test {
 protected:
  Farewells() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  static auto to(const std::string& file) {
    return [file](const std::string& reason) { test::put(file, test::get(file) + reason); };
  }
};

extern "C" void leave_with_five(int) { _exit(5); }

TEST_F(Farewells, AreSaidBeforeAFatalSignalHasItsUsualEffect) {
  const auto print = [](const std::string& reason) { fmt::print(stderr, "{}.", reason); };
  const auto killed_by = [&](int number) {
    std::signal(number, SIG_DFL);  // not a sanitizer's
    const Farewell farewell(print);
    std::raise(number);
  };
  for (const auto& [number, text] :
       {std::pair(SIGSEGV, "signal SIGSEGV."), std::pair(SIGABRT, "signal SIGABRT."),
        std::pair(SIGBUS, "signal SIGBUS."), std::pair(SIGFPE, "signal SIGFPE."),
        std::pair(SIGILL, "signal SIGILL.")})
    EXPECT_EXIT(killed_by(number), testing::KilledBySignal(number), testing::StrEq(text));
  const auto with_a_handler = [&] {
    std::signal(SIGABRT, leave_with_five);
    const Farewell farewell(print);
    std::abort();
  };
  EXPECT_EXIT(with_a_handler(), testing::ExitedWithCode(5), testing::StrEq("signal SIGABRT."));
}

TEST_F(Farewells, AreSaidOnceWithTheFirstReason) {
  const test::TemporaryDirectory folder;
  test::put(folder / "why", "");
  {
    const Farewell farewell(to(folder / "why"));
    say_farewell("first");
    EXPECT_EQ(test::get(folder / "why"), "first") << "it has acted before the call returns";
    say_farewell("second");
    EXPECT_EQ(test::get(folder / "why"), "first");
  }
  say_farewell("third");
  EXPECT_EQ(test::get(folder / "why"), "first") << "there is none any more";
  const Farewell another(to(folder / "why"));
  say_farewell(", fourth");
  EXPECT_EQ(test::get(folder / "why"), "first, fourth");
}

// An act that throws does not keep the process from ending.
TEST_F(Farewells, AnActThatFailsEndsToo) {
  const Farewell farewell([](const std::string&) { throw std::runtime_error("no"); });
  say_farewell("why");
}

}  // namespace
}  // namespace omni
