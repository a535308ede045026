// These tests let every single operation of a save fail, as when a disk is full, breaks or is
// interrupted.
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "tests/fault/interpose.hpp"
#include "tests/support/checkpoint_directory.hpp"

namespace omni::test {
namespace {

namespace fs = std::filesystem;

constexpr FileFault kKinds[] = {{.code = ENOSPC}, {.code = ENOSPC, .from_then_on = true},
                                {.code = EIO},    {.code = EIO, .from_then_on = true},
                                {.code = EINTR},  {.code = 0, .from_then_on = true}};

class CheckpointFaultTest : public CheckpointDirectoryTest {
 protected:
  void start_over() {
    fs::remove_all(folder_.path());
    fs::create_directory(folder_.path());
  }
};

TEST_F(CheckpointFaultTest, EveryFaultOfASaveIsReportedOrHarmless) {
  for (FileFault fault : kKinds) {
    int reported = 0;
    for (fault.at = 1;; ++fault.at) {
      SCOPED_TRACE("errno " + std::to_string(fault.code) + " at " + std::to_string(fault.at));
      start_over();
      auto store = open();
      save(store, 1);  // the third save removes it, so that every kind of operation is under test
      const fs::path previous = save(store, 2);
      SampleCheckpoint third(3);
      bool reached = false;
      Result<fs::path> saved = Error{};
      {
        const FileSession faulty(folder_.path(), fault);
        saved = store.save(third.snapshot());
        reached = faulty.fault_reached();
      }
      if (!reached) {
        ASSERT_TRUE(saved);
        break;
      }
      if (saved) {
        EXPECT_EQ(latest(), 3);
      } else {
        ++reported;
        EXPECT_EQ(saved.error().kind, ErrorKind::failed);
        EXPECT_NE(saved.error().message().find(folder_.path().string()), std::string::npos);
        EXPECT_NE(saved.error().what.find(std::generic_category().message(fault.code)),
                  std::string::npos)
            << saved.error().what;
        const auto found = latest();
        EXPECT_TRUE(found == 2 || found == 3) << found;
      }
      const auto before = load_checkpoint(previous);
      ASSERT_TRUE(before) << before.error().message();
      EXPECT_EQ(difference_from_sample(*before), "");

      // When the disk works again, the same run saves the next checkpoint and removes what the
      // failed save left.
      save(store, 4);
      EXPECT_EQ(latest(), 4);
      EXPECT_EQ(names().size(), 3u) << "lock and two checkpoints";
    }
    EXPECT_EQ(reported > 10, fault.code == ENOSPC || fault.code == EIO) << reported;
  }
}

TEST_F(CheckpointFaultTest, EveryFaultOfOpenIsRefusedBeforeTraining) {
  for (FileFault fault : kKinds) {
    for (fault.at = 1;; ++fault.at) {
      SCOPED_TRACE("errno " + std::to_string(fault.code) + " at " + std::to_string(fault.at));
      start_over();
      bool reached = false;
      {
        const FileSession faulty(folder_.path(), fault);
        const auto store = CheckpointStore::open(folder_.path(), kOptions);
        reached = faulty.fault_reached();
        if (!store) {
          EXPECT_EQ(store.error().kind, ErrorKind::usage);
          EXPECT_NE(store.error().message().find(folder_.path().string()), std::string::npos);
        }
      }
      auto store = open();
      save(store, 1);
      EXPECT_EQ(names().size(), 2u);
      if (!reached) break;
    }
  }
}

TEST_F(CheckpointFaultTest, AFailingReadFallsBackOrIsReported) {
  auto store = open();
  save(store, 1);
  save(store, 2);
  int fell_back = 0;
  for (FileFault fault{.code = EIO};; ++fell_back) {
    ++fault.at;
    const FileSession faulty(folder_.path(), fault);
    const auto found = latest();
    if (!faulty.fault_reached()) break;
    EXPECT_TRUE(found == 1 || found == 2) << found;
  }
  EXPECT_GE(fell_back, 5);
  EXPECT_NE(said_.text().find("cannot read: Input/output error"), std::string::npos);
}

TEST_F(CheckpointFaultTest, ADiskThatStaysFullNeverLosesTheLastCheckpoint) {
  auto store = open();
  save(store, 1);
  {
    const FileSession full(folder_.path(), {.at = 1, .code = ENOSPC, .from_then_on = true});
    for (std::uint64_t step = 2; step < 6; ++step) {
      SampleCheckpoint sample(step);
      EXPECT_FALSE(store.save(sample.snapshot())) << "nothing is announced that is not there";
    }
  }
  EXPECT_EQ(latest(), 1);
}

}  // namespace
}  // namespace omni::test
