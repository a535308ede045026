// These tests simulate a crash or power failure after each operation of a save. The disk must then
// hold the old or the new checkpoint. After a save has reported success, it must hold the new one.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/fault/interpose.hpp"
#include "tests/support/checkpoint_directory.hpp"

namespace omni::test {
namespace {

namespace fs = std::filesystem;

enum class Loss {
  nothing,         // the process dies: everything it did is there
  unsynced_data,   // power cut on a disk that writes names before contents
  half_the_data,   // the same, caught half-way through
  unsynced_names,  // power cut, and only what was flushed is there: contents and names
};

// Returns whether one of the first `count` operations, after operation `index`, flushes the file or
// folder `path`.
bool flushed(const std::vector<FileOperation>& operations, std::size_t index, std::size_t count,
             const fs::path& path) {
  for (std::size_t later = index + 1; later < count; ++later) {
    if (operations[later].call == FileCall::fsync && operations[later].path == path.string())
      return true;
  }
  return false;
}

void apply(const FileOperation& operation, const fs::path& path, const fs::path& renamed,
           std::size_t bytes) {
  std::error_code lost;  // parts of the path may be lost themselves
  switch (operation.call) {
    case FileCall::open:
      if (operation.creates && !fs::exists(path, lost)) put(path, "");
      break;
    case FileCall::write:
      if (fs::exists(path, lost))
        std::ofstream(path, std::ios::binary | std::ios::app)
            .write(operation.bytes.data(), static_cast<std::streamsize>(bytes));
      break;
    case FileCall::rename:
      fs::rename(path, renamed, lost);
      break;
    case FileCall::mkdir:
      fs::create_directory(path, lost);
      break;
    case FileCall::unlink:
    case FileCall::rmdir:
      fs::remove(path, lost);
      break;
    case FileCall::read:
    case FileCall::fsync:
    case FileCall::close:
      break;
  }
}

// Applies the first `count` operations, which were recorded in the folder `recorded`, to the folder
// `target`.
void replay(const std::vector<FileOperation>& operations, std::size_t count, Loss loss,
            const fs::path& recorded, const fs::path& target) {
  const auto moved = [&](const std::string& path) {
    return target / fs::path(path).lexically_relative(recorded);
  };
  for (std::size_t index = 0; index < count; ++index) {
    const FileOperation& operation = operations[index];
    std::size_t bytes = operation.bytes.size();
    if (operation.call == FileCall::write) {
      if (loss != Loss::nothing && !flushed(operations, index, count, operation.path))
        bytes = loss == Loss::half_the_data ? bytes / 2 : 0;
    } else if (loss == Loss::unsynced_names) {
      // A file's name is stored in its folder. After a power failure the name exists only if the
      // folder was flushed.
      if (!flushed(operations, index, count, fs::path(operation.path).parent_path())) continue;
    }
    const fs::path renamed = operation.target.empty() ? fs::path() : moved(operation.target);
    apply(operation, moved(operation.path), renamed, bytes);
  }
}

class CheckpointReplayTest : public CheckpointDirectoryTest {
 protected:
  // Saves `step` in the folder, and replays the save's operations with every kind of loss on copies
  // of the folder.
  void try_every_crash(std::uint64_t step, std::int64_t before) {
    const TemporaryDirectory original;
    fs::copy(folder_.path(), original.path(), fs::copy_options::recursive);
    std::vector<FileOperation> operations;
    {
      auto store = open();
      SampleCheckpoint sample(step);
      const FileSession recorded(folder_.path());
      ASSERT_TRUE(store.save(sample.snapshot()));
      operations = recorded.operations();
    }
    ASSERT_GT(operations.size(), 20u);
    const fs::path recorded = folder_.path();
    const auto after = static_cast<std::int64_t>(step);
    for (const Loss loss :
         {Loss::nothing, Loss::unsynced_data, Loss::half_the_data, Loss::unsynced_names}) {
      bool was_new = false;
      for (std::size_t count = 0; count <= operations.size(); ++count) {
        SCOPED_TRACE("loss " + std::to_string(static_cast<int>(loss)) + ", after operation " +
                     std::to_string(count));
        fs::remove_all(folder_.path());
        fs::copy(original.path(), folder_.path(), fs::copy_options::recursive);
        replay(operations, count, loss, recorded, folder_.path());
        const auto found = latest();
        ASSERT_TRUE(found == after || (found == before && !was_new)) << found;
        was_new = found == after;
        EXPECT_EQ(said_.text(), "") << "whatever has a checkpoint's name is one";
        go_on_from_here(step + 1);
      }
      EXPECT_TRUE(was_new) << "a save that reported success is lost";
    }
  }

  // The next run must start after any crash, save, and remove what the crash left.
  void go_on_from_here(std::uint64_t step) {
    auto store = open();
    save(store, step);
    EXPECT_EQ(latest(), static_cast<std::int64_t>(step));
    for (const std::string& name : names())
      EXPECT_TRUE(name == "lock" || name.starts_with("save-")) << name;
    EXPECT_LE(names().size(), 3u);
  }
};

TEST_F(CheckpointReplayTest, TheFirstSave) { try_every_crash(1, 0); }

TEST_F(CheckpointReplayTest, ASaveThatRemovesTheOldest) {
  {
    auto store = open();
    save(store, 1);
    save(store, 2);
  }
  try_every_crash(3, 2);
}

// Without the flushes the replay must find a lost checkpoint.
TEST_F(CheckpointReplayTest, NoticesMissingFlushes) {
  { auto store = open(); }
  std::vector<FileOperation> operations;
  const TemporaryDirectory target;
  {
    auto store = open();
    SampleCheckpoint sample(1);
    const FileSession recorded(folder_.path());
    ASSERT_TRUE(store.save(sample.snapshot()));
    for (const FileOperation& operation : recorded.operations())
      if (operation.call != FileCall::fsync) operations.push_back(operation);
  }
  replay(operations, operations.size(), Loss::unsynced_data, folder_.path(), target.path());
  EXPECT_FALSE(load_latest_checkpoint(target.path())) << "a name without contents";
}

}  // namespace
}  // namespace omni::test
