// This test checks that a process ends even if the MPI launcher never answers its abort.
#include "runtime/communicator/service.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

namespace omni::ranks {
namespace {

// This transport stands for rank 0 of 2. No message arrives, and abort() never returns.
class CutOff final : public Transport {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  Ticket send(const void*, std::size_t, int, int) override { return this; }
  Ticket receive(void*, std::size_t, int, int) override { return this; }
  bool done(Ticket& ticket) override { return ticket == nullptr; }
  void abort(int) override {
    while (true) ::pause();
  }
};

TEST(Service, ends_with_its_code_when_an_abort_hangs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto leave = [] {
    static CutOff transport;
    Service service([]() -> Transport* { return &transport; }, 5, true);
    service.leave(6);
  };
  EXPECT_EXIT(leave(), testing::ExitedWithCode(6), "");
}

}  // namespace
}  // namespace omni::ranks
