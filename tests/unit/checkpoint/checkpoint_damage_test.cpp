// These tests check that damaged checkpoints are never loaded, never deleted, and always named in a
// message.
#include "scheduling/checkpoint/checkpoint_store.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "tests/support/checkpoint_directory.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;
using test::get;
using test::kOptions;
using test::Names;
using test::put;
using test::SampleCheckpoint;

using CheckpointDamageTest = test::CheckpointDirectoryTest;

TEST_F(CheckpointDamageTest, FallsBackWithAWarningThatSaysWhy) {
  auto store = open();
  save(store, 1);
  const fs::path newest = save(store, 2);
  damage(newest / "arrays.safetensors");
  EXPECT_EQ(latest(), 1);
  EXPECT_NE(said_.text().find("bytes, the manifest says"), std::string::npos) << said_.text();
  EXPECT_NE(said_.text().find(newest.string()), std::string::npos);
}

TEST_F(CheckpointDamageTest, AMissingManifestIsDamageToo) {
  auto store = open();
  save(store, 1);
  fs::remove(save(store, 2) / "manifest.json");
  EXPECT_EQ(latest(), 1);
  EXPECT_NE(said_.text().find("manifest.json: cannot open"), std::string::npos) << said_.text();
}

TEST_F(CheckpointDamageTest, OnlyDamagedCheckpointsAreAnErrorNotAFreshStart) {
  auto store = open();
  damage(save(store, 1) / "manifest.json");
  damage(save(store, 2) / "manifest.json");
  EXPECT_EQ(latest(), -1);
  EXPECT_EQ(error_.kind, ErrorKind::data);
  EXPECT_NE(error_.what.find("none of the 2 checkpoints is usable"), std::string::npos);
  EXPECT_NE(error_.what.find("save-000002-step-000000002"), std::string::npos) << error_.what;
}

TEST_F(CheckpointDamageTest, DamagedOnesNeitherCountNorGo) {
  save(*std::make_unique<CheckpointStore>(open()), 1);
  {
    auto store = open();
    const fs::path file = save(store, 2) / "arrays.safetensors";
    std::string same_size = get(file);
    same_size.back() ^= 1;
    put(file, same_size);
  }
  auto store = open();  // has not verified anything yet
  save(store, 3);
  EXPECT_EQ(names().size(), 4u) << "1 is needed: 2 is damaged";
  damage(folder_ / "save-000003-step-000000003" / "arrays.safetensors");
  save(store, 4);
  EXPECT_EQ(names().size(), 5u);
  save(store, 5);
  EXPECT_EQ(names(), (Names{"lock", "save-000002-step-000000002", "save-000003-step-000000003",
                            "save-000004-step-000000004", "save-000005-step-000000005"}));
  EXPECT_EQ(latest(), 5);
}

TEST_F(CheckpointDamageTest, AFlippedBitIsNeverAccepted) {
  auto store = open();
  const fs::path only = save(store, 7);
  std::mt19937 random(11);
  for (const char* name : {"arrays.safetensors", "manifest.json"}) {
    const std::string whole = get(only / name);
    for (int round = 0; round < 1000; ++round) {
      std::string damaged = whole;
      const std::size_t bit = random() % (whole.size() * 8);
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
      put(only / name, damaged);
      ASSERT_EQ(latest(), -1) << name << ", bit " << bit;
    }
    put(only / name, whole);
    ASSERT_EQ(latest(), 7);
  }
}

TEST_F(CheckpointDamageTest, ATruncatedFileIsNeverAccepted) {
  auto store = open();
  const fs::path only = save(store, 7);
  for (const char* name : {"arrays.safetensors", "manifest.json"}) {
    const std::string whole = get(only / name);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      put(only / name, whole.substr(0, length));
      ASSERT_EQ(latest(), -1) << name << ", " << length << " bytes";
    }
    put(only / name, whole);
  }
  ASSERT_EQ(latest(), 7);
}

// Other users may have write access to the folder. Their links must not make a run read or write
// files elsewhere.
TEST_F(CheckpointDamageTest, LinksAreNotFollowed) {
  const test::TemporaryDirectory elsewhere;
  auto store = open();
  const fs::path first = save(store, 1), second = save(store, 2);
  for (const char* name : {"arrays.safetensors", "manifest.json"}) {
    fs::rename(second / name, elsewhere / name);
    fs::create_symlink(elsewhere / name, second / name);
    EXPECT_EQ(latest(), 1) << name;
    // git-annex and DVC keep files as links, so a link that the user names is followed.
    for (const fs::path& named : {second, second / "arrays.safetensors", second / "manifest.json"})
      EXPECT_TRUE(load_checkpoint(named)) << named << ", " << name << " is a link";
    fs::remove(second / name);
    fs::rename(elsewhere / name, second / name);
    EXPECT_EQ(latest(), 2);
  }
  fs::rename(second, elsewhere / "save");
  fs::create_directory_symlink(elsewhere / "save", second);
  EXPECT_EQ(latest(), 1);
  EXPECT_NE(said_.text().find(second.string() + ": is a link, not a checkpoint"), std::string::npos)
      << said_.text();
  EXPECT_TRUE(load_checkpoint(second)) << "what the user names may be a link";
  EXPECT_EQ(save(store, 3).filename(), "save-000003-step-000000003");
  EXPECT_EQ(latest(), 3);
}

TEST_F(CheckpointDamageTest, LeftoversThatAreLinksGoWithoutTheirTargets) {
  const test::TemporaryDirectory elsewhere;
  put(elsewhere / "precious", "x");
  auto store = open();
  save(store, 1);
  for (const char* name : {".unfinished", ".doomed"})
    fs::create_directory_symlink(elsewhere.path(), folder_ / name);
  for (std::uint64_t step = 2; step < 5; ++step) save(store, step);
  EXPECT_EQ(latest(), 4);
  EXPECT_EQ(test::entries_in(elsewhere.path()), 1);
  EXPECT_EQ(names().size(), 3u);
}

TEST_F(CheckpointDamageTest, ANameWithAHugeNumberDoesNotEndTheNumbering) {
  auto store = open();
  save(store, 1);
  for (const char* number : {"18446744073709551615", "1000000000000", "99999999999999999999999"})
    fs::create_directory(folder_ / ("save-" + std::string(number) + "-step-000000001"));
  EXPECT_EQ(latest(), 1);
  save(store, 2);
  EXPECT_EQ(latest(), 2);
  EXPECT_EQ(said_.text(), "");
  const fs::path largest = folder_ / "save-999999999999-step-000000001";
  fs::create_directory(largest);
  SampleCheckpoint third(3);
  const auto refused = store.save(third.snapshot());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().where, largest.string());
}

TEST_F(CheckpointDamageTest, FilesOfTwoCheckpointsDoNotMix) {
  auto store = open();
  const fs::path first = save(store, 1), second = save(store, 2);
  fs::copy_file(first / "manifest.json", second / "manifest.json",
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(latest(), 1);
  EXPECT_NE(said_.text().find("its checksum is not the one in the manifest"), std::string::npos);
}

}  // namespace
}  // namespace omni
