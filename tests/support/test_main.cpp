// This is the main function of every test program. StarPU keeps its models in a private folder, and
// a test that hangs fails. StarPU's own watchdog is not used, because it makes every shutdown a
// second longer.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

// Returns what a test program needs and this machine lacks, or null. ctest takes the exit code 77
// for skipped.
[[gnu::weak]] const char* missing_for_tests() { return nullptr; }

namespace {

constexpr unsigned kGrace = 5;  // s

// Returns how many seconds one test may take. Tools that make tests slower set OMNI_LONGEST_TEST.
unsigned longest_test() {
  const char* seconds = std::getenv("OMNI_LONGEST_TEST");
  return seconds != nullptr ? static_cast<unsigned>(std::atoi(seconds)) : 300;
}

// The first alarm interrupts a wait for another program, and wait_for_program() then kills that
// program. If the test still hangs, the second alarm ends this program.
extern "C" void on_alarm(int) {
  signal(SIGALRM, SIG_DFL);
  alarm(kGrace);
}

class Watchdog : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override {
    struct sigaction action = {};  // without SA_RESTART
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, nullptr);
    alarm(longest_test());
  }
  void OnTestEnd(const testing::TestInfo&) override { alarm(0); }
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (const char* missing = missing_for_tests()) {
    std::printf("skipped: no %s\n", missing);
    return 77;
  }
  testing::UnitTest::GetInstance()->listeners().Append(new Watchdog);  // gtest owns it
  std::string folder = (std::filesystem::temp_directory_path() / "omni-test-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  setenv("STARPU_HOME", folder.c_str(), 1);
  setenv("STARPU_SILENT", "1", 1);
  setenv("STARPU_WORKERS_NOBIND", "1",
         1);  // else all programs of a ctest -j crowd on the same cores
  const int result = RUN_ALL_TESTS();
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return result;
}
