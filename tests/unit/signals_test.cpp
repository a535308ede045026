// Asked to stop: the first request is answered at once, one some seconds later ends the process.
#include "runtime/signals.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <ctime>

namespace omni {
namespace {

// A process of its own: nothing takes a request back.
class StopSignals : public testing::Test {
 protected:
  StopSignals() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(StopSignals, TheFirstIsAnsweredAndOnlyAsksTheTrainer) {
  const auto asked_twice = [] {
    install_stop_signals();
    if (stop_requested()) std::exit(1);
    std::raise(SIGINT);
    std::raise(SIGINT);  // as launchers do
    std::exit(stop_requested() ? 0 : 1);
  };
  EXPECT_EXIT(asked_twice(), testing::ExitedWithCode(0),
              testing::StartsWith("stopping: finishing the iteration, then saving a checkpoint "
                                  "(asked again after 2 seconds: quitting at once, without "
                                  "saving)\n"));
}

TEST_F(StopSignals, SomeSecondsLaterItQuitsAtOnce) {
  const auto asked_again_and_again = [](int number) {
    install_stop_signals();
    for (const std::time_t end = std::time(nullptr) + 10; std::time(nullptr) < end;)
      std::raise(number);
    std::exit(1);
  };
  for (const auto& [number, code] : {std::pair{SIGINT, 130}, {SIGTERM, 143}})
    EXPECT_EXIT(asked_again_and_again(number), testing::ExitedWithCode(code),
                testing::EndsWith("\nasked to stop again: quitting at once, without saving\n"));
}

}  // namespace
}  // namespace omni
