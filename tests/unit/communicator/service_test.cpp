// These tests check how the communicator's thread ends a process: with which code, and whom it
// names. A played transport stands for rank 0 of several.
#include "runtime/communicator/service.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>

namespace omni::ranks {
namespace {

// Beats of ranks that are not silent arrive. No other message does. abort() never returns.
class Played final : public Transport {
 public:
  explicit Played(int size, std::vector<int> silent = {})
      : size_(size), silent_(std::move(silent)) {}
  int rank() const override { return 0; }
  int size() const override { return size_; }
  Ticket send(const void*, std::size_t, int, int) override {
    done_.push_back(next_);
    return next_++;
  }
  Ticket receive(void*, std::size_t, int peer, int tag) override {
    if (tag == kBeatTag && std::ranges::count(silent_, peer) == 0) done_.push_back(next_);
    return next_++;
  }
  std::span<const Ticket> take_done() override {
    taken_.swap(done_);
    done_.clear();
    return taken_;
  }
  void abort(int) override {
    while (true) ::pause();
  }

 private:
  int size_;
  std::vector<int> silent_;
  Ticket next_ = 0;
  std::vector<Ticket> done_, taken_;
};

// Starts a service that is never deleted, because its thread uses it.
template <int size, int... silent>
Service& start(double patience) {
  const auto open = []() -> Transport* {
    static Played transport(size, {silent...});
    return &transport;
  };
  const Service::Options options{.silent_code = 5, .aborts = true, .patience = patience};
  return *std::make_unique<Service>(open, options).release();
}

class ServiceTest : public testing::Test {
 protected:
  ServiceTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(ServiceTest, ends_with_its_code_when_an_abort_hangs) {
  EXPECT_EXIT(start<2>(300).leave(6), testing::ExitedWithCode(6), "");
}

// Rank 0 waits for rank 1, which lives. The beats of rank 2 do not come.
TEST_F(ServiceTest, names_the_rank_whose_beats_end) {
  const auto wait = [] {
    Service& service = start<3, 2>(1);
    char byte = 0;
    service.post({{&byte, 1, 1, kFirstTag, false}}, [] {});
    while (true) ::pause();
  };
  EXPECT_EXIT(wait(), testing::ExitedWithCode(5), "error: rank 2 has been silent for 1 s");
}

TEST_F(ServiceTest, says_that_this_rank_is_cut_off_if_all_others_are_silent) {
  const auto wait = [] {
    start<3, 1, 2>(1);
    while (true) ::pause();
  };
  EXPECT_EXIT(wait(), testing::ExitedWithCode(5),
              "error: rank 0 is cut off from all other ranks: silent for 1 s");
}

// A rank that computes for long, or whose disk is slow, still sends beats. Only after ten times the
// patience is it said to be stuck.
TEST_F(ServiceTest, waits_longer_than_the_patience_for_a_rank_that_lives) {
  const auto wait = [] {
    Service& service = start<2>(0.2);
    char byte = 0;
    service.post({{&byte, 1, 1, kFirstTag, false}}, [] {});
    std::this_thread::sleep_for(std::chrono::milliseconds(800));  // four times the patience
    std::fputs("still here\n", stderr);
    while (true) ::pause();
  };
  EXPECT_EXIT(wait(), testing::ExitedWithCode(5),
              "still here\nerror: rank 1 lives, but has not answered for 2 s");
}

TEST_F(ServiceTest, does_operations_without_messages) {
  const auto wait = [] {
    std::promise<void> done;
    start<2>(300).post({}, [&] { done.set_value(); });
    done.get_future().wait();
    _exit(7);
  };
  EXPECT_EXIT(wait(), testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace omni::ranks
