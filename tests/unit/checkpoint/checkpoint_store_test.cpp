// These tests check that checkpoints are saved completely, found again and never deleted without
// need. Only one run at a time uses a folder.
#include "scheduling/checkpoint/checkpoint_store.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <limits>
#include <memory>

#include "runtime/log.hpp"
#include "scheduling/checkpoint/training_checkpoint.hpp"
#include "tests/support/checkpoint_directory.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;
using test::get;
using test::kOptions;
using test::Names;
using test::put;
using test::SampleCheckpoint;
using CheckpointStoreTest = test::CheckpointDirectoryTest;

TEST_F(CheckpointStoreTest, EverythingComesBack) {
  const double precise = 0.1 + 0.2;
  std::vector<float> values = {1, -0.f, std::numeric_limits<float>::denorm_min()};
  Snapshot snapshot{
      .step = 123, .cfg_hash = "abc", .arrays = {{"param/a", {3, 1}, values}}, .fields = {}};
  snapshot.fields.set("seed", std::numeric_limits<std::uint64_t>::max());
  snapshot.fields.set("rate", precise);
  snapshot.fields.set("note", "two words");
  {
    auto store = open();
    const auto saved = store.save(snapshot);
    ASSERT_TRUE(saved);
    EXPECT_EQ(saved->filename(), "save-000001-step-000000123");
  }
  const auto latest = load_latest_checkpoint(folder_.path());
  ASSERT_TRUE(latest && *latest);
  const Checkpoint& loaded = **latest;
  EXPECT_EQ(loaded.step, 123u);
  EXPECT_EQ(loaded.cfg_hash, "abc");
  EXPECT_EQ(*loaded.fields.number<std::uint64_t>("seed"),
            std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(*loaded.fields.number<double>("rate"), precise);
  EXPECT_EQ(*loaded.fields.text("note"), "two words");
  const NamedArray* array = loaded.arrays.find("param/a");
  ASSERT_NE(array, nullptr);
  EXPECT_EQ(array->shape, (std::vector<std::int64_t>{3, 1}));
  EXPECT_EQ(std::memcmp(array->values.data(), values.data(), 12), 0);
  EXPECT_EQ(said_.text(), "");

  const auto missing = loaded.fields.number<int>("absent");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::data);
  EXPECT_EQ(missing.error().what, "the value 'absent' is missing in the checkpoint");
  EXPECT_EQ(missing.error().where, loaded.path.string());
  EXPECT_EQ(loaded.fields.number<int>("seed").error().what,
            "the value 'seed' is not a number that fits");
  EXPECT_FALSE(loaded.fields.number<int>("rate"));
  EXPECT_FALSE(loaded.fields.number<double>("note"));
}

TEST_F(CheckpointStoreTest, NothingThereIsNotAnError) {
  EXPECT_EQ(latest(), 0);
  { auto store = open(); }
  put(folder_ / "save-x-step-1", "not ours");
  fs::create_directory(folder_ / "save-000001-step-000000001.old");
  EXPECT_EQ(latest(), 0);
  const auto absent = load_latest_checkpoint(folder_ / "absent");
  ASSERT_TRUE(absent);
  EXPECT_FALSE(*absent);
  EXPECT_FALSE(load_latest_checkpoint(folder_ / "save-x-step-1")) << "a file is not a directory";
}

TEST_F(CheckpointStoreTest, TheOldestGo) {
  auto store = open();
  for (std::uint64_t step = 10; step <= 50; step += 10) save(store, step);
  EXPECT_EQ(names(), (Names{"lock", "save-000004-step-000000040", "save-000005-step-000000050"}));
  EXPECT_EQ(latest(), 50);
}

TEST_F(CheckpointStoreTest, KeepIsConfigurable) {
  auto store = open({.keep = 3, .program = ""});
  for (std::uint64_t step = 1; step <= 5; ++step) save(store, step);
  EXPECT_EQ(names().size(), 4u);
  const auto refused = CheckpointStore::open(folder_.path(), {.keep = 1, .program = ""});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  EXPECT_NE(refused.error().message().find("keep at least 2"), std::string::npos);
}

TEST_F(CheckpointStoreTest, ARunThatWentBackContinuesFromItsOwnCheckpoints) {
  auto store = open();
  save(store, 100);
  save(store, 200);
  save(store, 150);
  EXPECT_EQ(latest(), 150);
  save(store, 150);
  EXPECT_EQ(names(), (Names{"lock", "save-000003-step-000000150", "save-000004-step-000000150"}));
}

TEST_F(CheckpointStoreTest, LeftoversOfADeadRunGo) {
  for (const char* name : {".unfinished", ".doomed"}) {
    fs::create_directory(folder_ / name);
    put(folder_ / name / "arrays.safetensors", "half");
  }
  auto store = open();
  EXPECT_EQ(latest(), 0);
  save(store, 1);
  EXPECT_EQ(names(), (Names{"lock", "save-000001-step-000000001"}));
}

TEST_F(CheckpointStoreTest, ValuesThatAreNotFiniteAreRefused) {
  auto store = open();
  save(store, 1);
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
    SampleCheckpoint sample(2);
    sample.values()[32 + 5] = bad;
    const auto saved = store.save(sample.snapshot());
    ASSERT_FALSE(saved);
    EXPECT_EQ(saved.error().kind, ErrorKind::diverged);
    EXPECT_NE(saved.error().message().find("'velocity/conv1/weights': value 5 is"),
              std::string::npos)
        << saved.error().message();
  }
  EXPECT_EQ(names().size(), 2u);
  EXPECT_EQ(latest(), 1);
}

TEST_F(CheckpointStoreTest, AGivenPathLoads) {
  auto store = open();
  const fs::path first = save(store, 1), second = save(store, 2);
  const auto step = [](const fs::path& path) {
    const auto loaded = load_checkpoint(path);
    return loaded ? static_cast<std::int64_t>(loaded->step) : -1;
  };
  EXPECT_EQ(step(folder_.path()), 2);
  EXPECT_EQ(step(first), 1);
  EXPECT_EQ(step(first / "manifest.json"), 1);
  EXPECT_EQ(step(first / "arrays.safetensors"), 1);
  EXPECT_EQ(said_.text(), "");
  fs::copy_file(first / "arrays.safetensors", folder_ / "alone.safetensors");
  EXPECT_EQ(step(folder_ / "alone.safetensors"), 1);
  EXPECT_NE(said_.text().find("no manifest beside it"), std::string::npos) << said_.text();

  // If a checkpoint that the user named is damaged, no older checkpoint is loaded instead.
  damage(second / "arrays.safetensors");
  EXPECT_EQ(step(second), -1);
  EXPECT_EQ(step(second / "arrays.safetensors"), -1);
  const auto absent = load_checkpoint(folder_ / "absent");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().kind, ErrorKind::usage);
  fs::create_directory(folder_ / "empty");
  const auto empty = load_checkpoint(folder_ / "empty");
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().what, "there is no checkpoint in this directory");
}

TEST_F(CheckpointStoreTest, ASecondRunIsRefusedAndToldWho) {
  auto store = open();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto second = CheckpointStore::open(folder_.path(), kOptions);
    const std::string holder = fmt::format(":{}", ::getppid());
    const bool right = !second && second.error().kind == ErrorKind::usage &&
                       second.error().what.find("another run is using") != std::string::npos &&
                       second.error().what.find(holder) != std::string::npos;
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(CheckpointStore::open(folder_.path(), kOptions))
      << "the same process is no exception";
}

TEST_F(CheckpointStoreTest, TheLockEndsWithItsOwner) {
  { auto store = open(); }
  auto store = open();
  save(store, 1);
  EXPECT_EQ(latest(), 1);
}

// A run overwrites its lock file. If the lock were a link, the run would overwrite the file that
// the link points to.
TEST_F(CheckpointStoreTest, ALockThatIsSomethingElseIsRefusedAndLeftAlone) {
  const fs::path lock = folder_ / "lock", precious = folder_ / "precious";
  const auto expect_refused = [&](const char* said) {
    const auto store = CheckpointStore::open(folder_.path(), kOptions);
    ASSERT_FALSE(store);
    EXPECT_EQ(store.error().kind, ErrorKind::usage);
    EXPECT_NE(store.error().message().find(lock.string()), std::string::npos);
    EXPECT_NE(store.error().message().find(said), std::string::npos) << store.error().message();
    fs::remove(lock);
  };
  const std::string contents(400, 'x');
  put(precious, contents);
  fs::create_symlink(precious, lock);
  expect_refused("Too many levels of symbolic links");
  fs::create_symlink(folder_ / "nowhere", lock);
  expect_refused("Too many levels of symbolic links");
  EXPECT_FALSE(fs::exists(folder_ / "nowhere"));
  put(precious, "short");
  fs::create_hard_link(precious, lock);
  expect_refused("is not the lock of a run");
  EXPECT_EQ(get(precious), "short");
  fs::create_directory(lock);
  expect_refused("Is a directory");
  ASSERT_EQ(::mkfifo(lock.c_str(), 0600), 0);
  expect_refused("is not the lock of a run");
  put(lock, contents);  // another program's
  expect_refused("is not the lock of a run");
  put(lock, "a dead run's\n");
  EXPECT_TRUE(CheckpointStore::open(folder_.path(), kOptions));
}

TEST_F(CheckpointStoreTest, ADiskWithoutRoomForACheckpointIsRefusedAtOpen) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1000, before.rlim_max};
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto fits = CheckpointStore::open(folder_.path(), {.program = "", .bytes = 1000});
  fs::create_directory(folder_ / "other");
  const auto too_large = CheckpointStore::open(folder_ / "other", {.program = "", .bytes = 1001});
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_TRUE(fits) << fits.error().message();
  ASSERT_FALSE(too_large);
  EXPECT_EQ(too_large.error().kind, ErrorKind::usage);
  EXPECT_NE(too_large.error().message().find("has no room for 1001 bytes: File too large (raise"),
            std::string::npos)
      << too_large.error().message();
  EXPECT_EQ(test::entries_in(folder_ / "other"), 1) << "the lock alone";
}

// The number of groups in a checkpoint decides how many groups are made, so wrong numbers are
// refused.
TEST(CheckpointData, NumbersBeyondAllMeasureAreRefused) {
  for (const auto& [key, value] :
       {std::pair("groups", "0"), {"groups", "65"}, {"groups", "-1"}, {"groups", "1e3"}}) {
    Checkpoint checkpoint;
    checkpoint.fields.set(key, value);
    const auto groups = saved_groups(checkpoint);
    ASSERT_FALSE(groups) << value;
    EXPECT_EQ(groups.error().what, "the value 'groups' is not a number that fits");
  }
  CheckpointFields fields;
  fields.set("nan", std::numeric_limits<double>::quiet_NaN());
  EXPECT_FALSE(fields.number("nan", -1.0, 1.0));
  fields.set("two", 2.0);
  EXPECT_FALSE(fields.number("two", -1.0, 1.0));
  EXPECT_TRUE(fields.number("two", -1.0, 2.0));
}

TEST_F(CheckpointStoreTest, DirectoriesThatCannotBeWrittenAreRefusedAtOpen) {
  const auto refusal = [](const fs::path& path) {
    const auto store = CheckpointStore::open(path, kOptions);
    return store ? Error{} : store.error();
  };
  EXPECT_EQ(refusal(folder_ / "absent").kind, ErrorKind::usage);
  EXPECT_EQ(refusal(folder_ / "absent").what, "not a directory for checkpoints");
  put(folder_ / "file", "");
  EXPECT_EQ(refusal(folder_ / "file").what, "not a directory for checkpoints");

  // Permissions do not stop root, so this thread becomes an ordinary user for a moment.
  fs::create_directory(folder_ / "locked");
  { ASSERT_TRUE(CheckpointStore::open(folder_ / "locked", kOptions)); }
  fs::permissions(folder_.path(), fs::perms(0755));
  fs::permissions(folder_ / "locked", fs::perms(0555));
  fs::permissions(folder_ / "locked" / "lock", fs::perms(0666));
  const bool is_root = ::geteuid() == 0;
  if (is_root) ::setfsuid(65534);
  const Error with_lock_file = refusal(folder_ / "locked");
  if (is_root) ::setfsuid(0);
  EXPECT_EQ(with_lock_file.kind, ErrorKind::usage);
  EXPECT_NE(with_lock_file.message().find("Permission denied"), std::string::npos)
      << with_lock_file.message();
  fs::permissions(folder_ / "locked", fs::perms(0755));
  fs::remove(folder_ / "locked" / "lock");
  fs::permissions(folder_ / "locked", fs::perms(0555));
  if (is_root) ::setfsuid(65534);
  const Error without_lock_file = refusal(folder_ / "locked");
  if (is_root) ::setfsuid(0);
  EXPECT_EQ(without_lock_file.kind, ErrorKind::usage);
  EXPECT_NE(
      without_lock_file.message().find("cannot write in the run directory: Permission denied"),
      std::string::npos);
  fs::permissions(folder_ / "locked", fs::perms(0755));
}

TEST_F(CheckpointStoreTest, TextThatIsNotUtf8IsRefusedNotLost) {
  auto store = open();
  SampleCheckpoint sample(1);
  sample.snapshot().fields.set("path", "\xff");
  const auto saved = store.save(sample.snapshot());
  ASSERT_FALSE(saved);
  EXPECT_NE(saved.error().what.find("not UTF-8"), std::string::npos);
  EXPECT_EQ(names(), Names{"lock"});
}

// Checkpoints of earlier versions do not say on which data they were trained.
TEST(CheckpointData, OtherDataIsRefusedUnknownDataIsSaid) {
  Checkpoint checkpoint;
  checkpoint.path = "run/save-1";
  {
    const log::Capture said;
    EXPECT_TRUE(require_same_data(checkpoint, "cifar10"));
    EXPECT_EQ(said.text(),
              "warning: run/save-1: does not say on which data it was trained; is it 'cifar10'?\n");
  }
  checkpoint.fields.set("data", "/my images");
  EXPECT_TRUE(require_same_data(checkpoint, "/my images"));
  EXPECT_EQ(require_same_data(checkpoint, "cifar10").error().message(),
            "run/save-1: was trained on the data '/my images', this run has 'cifar10' (give the "
            "same --data, or train on with --other-data)");
}

}  // namespace
}  // namespace omni
