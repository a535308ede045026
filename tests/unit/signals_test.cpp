// These tests send stop signals. While there is nothing to save, the process ends at once. Later,
// the first signal stops the training, and another one some seconds later ends the process. A
// message that cannot be written does not end it.
#include "runtime/signals.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>

#include "tests/support/temporary_directory.hpp"

namespace omni {
namespace {

constexpr int kRequests[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM};

// Each test runs in a process of its own, because a request to stop cannot be taken back.
class StopSignals : public testing::Test {
 protected:
  StopSignals() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  static void install() {
    for (const int number : {SIGHUP, SIGINT}) std::signal(number, SIG_DFL);  // as if not by nohup
    install_stop_signals("nothing to save\n", 75);
  }
};

TEST_F(StopSignals, WithNothingToSaveItLeavesAtOnce) {
  const auto asked = [](int number) {
    install();
    std::raise(number);
    std::exit(1);
  };
  for (const int number : kRequests)
    EXPECT_EXIT(asked(number), testing::ExitedWithCode(75), testing::StrEq("nothing to save\n"));
}

TEST_F(StopSignals, TheFirstIsAnsweredAndOnlyAsksTheTrainer) {
  const auto asked_twice = [](int number) {
    install();
    stop_in_order();
    if (stop_requested()) std::exit(1);
    std::raise(number);
    std::raise(number);  // as launchers do
    std::exit(stop_requested() ? 0 : 1);
  };
  for (const int number : kRequests)
    EXPECT_EXIT(asked_twice(number), testing::ExitedWithCode(0),
                testing::StartsWith("stopping: finishing the iteration, then saving a checkpoint "
                                    "(asked again after 2 seconds: quitting at once, without "
                                    "saving)\n"));
}

TEST_F(StopSignals, SomeSecondsLaterItQuitsAtOnce) {
  const auto asked_again_and_again = [](int number) {
    install();
    stop_in_order();
    for (const std::time_t end = std::time(nullptr) + 4; std::time(nullptr) < end;)
      std::raise(number);
    std::exit(1);
  };
  for (const auto& [number, code] : {std::pair{SIGINT, 130}, {SIGTERM, 143}, {SIGUSR2, 140}})
    EXPECT_EXIT(asked_again_and_again(number), testing::ExitedWithCode(code),
                testing::EndsWith("\nasked to stop again: quitting at once, without saving\n"));
  // Beyond the limit of processor time, the kernel sends SIGXCPU every second, so it must not end
  // the process.
  EXPECT_EXIT(asked_again_and_again(SIGXCPU), testing::ExitedWithCode(1), "");
  EXPECT_EXIT(asked_again_and_again(SIGALRM), testing::ExitedWithCode(1), "");
}

// A batch system may send a signal after the process's own alarm. The alarm does not count as the
// first of two signals.
TEST_F(StopSignals, AnAlarmIsNotTheFirstOfTwo) {
  const auto asked = [] {
    install();
    stop_in_order();
    std::raise(SIGALRM);
    for (const std::time_t end = std::time(nullptr) + 3; std::time(nullptr) < end;) continue;
    std::raise(SIGTERM);
    std::exit(stop_requested() ? 0 : 1);
  };
  EXPECT_EXIT(asked(), testing::ExitedWithCode(0), "");
}

TEST_F(StopSignals, WhatNohupOrAScriptIgnoresStaysIgnored) {
  const auto asked = [](int number) {
    std::signal(number, SIG_IGN);
    install_stop_signals("nothing to save\n", 75);
    std::raise(number);
    std::exit(0);
  };
  for (const int number : {SIGHUP, SIGINT})
    EXPECT_EXIT(asked(number), testing::ExitedWithCode(0), testing::StrEq(""));
}

TEST_F(StopSignals, TheFarewellCanChange) {
  const auto asked = [] {
    install();
    install_stop_signals("something else\n", 75);
    std::raise(SIGTERM);
    std::exit(1);
  };
  EXPECT_EXIT(asked(), testing::ExitedWithCode(75), testing::StrEq("something else\n"));
}

volatile std::sig_atomic_t before = 0;

TEST_F(StopSignals, AHandlerThatWasThereIsCalledToo) {
  const auto asked = [](bool with_information) {
    struct sigaction theirs {};
    if (with_information) {
      theirs.sa_flags = SA_SIGINFO;
      theirs.sa_sigaction = [](int, siginfo_t* info, void*) { before = info->si_signo; };
    } else {
      theirs.sa_handler = [](int number) { before = number; };
    }
    sigaction(SIGUSR1, &theirs, nullptr);
    install();
    stop_in_order();
    std::raise(SIGUSR1);
    std::exit(before == SIGUSR1 && stop_requested() ? 0 : 1);
  };
  EXPECT_EXIT(asked(false), testing::ExitedWithCode(0), "stopping");
  EXPECT_EXIT(asked(true), testing::ExitedWithCode(0), "stopping");
}

TEST_F(StopSignals, WritesFailInsteadOfEndingTheProcess) {
  const auto write_in_vain = [] {
    make_writes_fail();
    const test::TemporaryDirectory folder;
    const int file = ::open((folder / "file").c_str(), O_WRONLY | O_CREAT, 0600);
    const rlimit small{10, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &small);
    const bool too_large = ::pwrite(file, "x", 1, 10) < 0 && errno == EFBIG;
    int ends[2];
    const bool piped = ::pipe(ends) == 0 && ::close(ends[0]) == 0;
    const bool closed = ::write(ends[1], "x", 1) < 0 && errno == EPIPE;
    std::exit(too_large && piped && closed ? 0 : 1);
  };
  EXPECT_EXIT(write_in_vain(), testing::ExitedWithCode(0), "");
}

TEST_F(StopSignals, NoFileBecomesWhatIsPrintedTo) {
  const auto open_a_file = [] {
    ::close(STDOUT_FILENO);
    make_writes_fail();
    const bool printed = ::write(STDOUT_FILENO, "x", 1) == 1;
    std::exit(!printed && ::open("/dev/null", O_RDONLY) > STDERR_FILENO ? 0 : 1);
  };
  EXPECT_EXIT(open_a_file(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace omni
