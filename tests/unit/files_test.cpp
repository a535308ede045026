// These tests check that files are written completely or not at all, and that refusals say why.
#include "runtime/files.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <vector>

#include "tests/support/temporary_directory.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;
using test::entries_in;
using test::get;
using test::put;

void expect_refused(const Status& status, ErrorKind kind, std::string_view text) {
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, kind);
  EXPECT_NE(status.error().message().find(text), std::string::npos) << status.error().message();
}
template <class T>
void expect_refused(const Result<T>& result, ErrorKind kind, std::string_view text) {
  expect_refused(result ? Status() : Status(result.error()), kind, text);
}

TEST(Files, WritesAndReadsBack) {
  const test::TemporaryDirectory folder;
  std::string all_bytes;
  for (int value = 0; value < 256; ++value) all_bytes.push_back(static_cast<char>(value));
  for (const std::string& contents :
       {std::string(), std::string("text\n"), all_bytes, std::string(3 << 20, 'x')}) {
    ASSERT_TRUE(write_file_atomically(folder / "file", contents));
    const auto back = read_file(folder / "file", 4 << 20);
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, contents);
  }
  EXPECT_EQ(entries_in(folder.path()), 1);
}

TEST(Files, ReadingRefusesWhatIsNoFile) {
  const test::TemporaryDirectory folder;
  expect_refused(read_file(folder / "absent", 10), ErrorKind::data, "absent: cannot open: No such");
  expect_refused(read_file(folder.path(), 10), ErrorKind::data, "not a regular file");
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  expect_refused(read_file(folder / "fifo", 10), ErrorKind::data, "not a regular file");
  put(folder / "long", "12345678901");
  expect_refused(read_file(folder / "long", 10), ErrorKind::data,
                 "11 bytes, at most 10 are accepted");
  EXPECT_TRUE(read_file(folder / "long", 11));
}

TEST(Files, ReadingPastTheEndIsAnError) {
  const test::TemporaryDirectory folder;
  put(folder / "file", "12345");
  auto file = InputFile::open(folder / "file");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->size(), 5u);
  std::array<std::byte, 4> bytes{};
  ASSERT_TRUE(file->read(bytes));
  EXPECT_EQ(bytes[3], std::byte{'4'});
  expect_refused(file->read(bytes), ErrorKind::data, "ends 3 bytes too early");
}

// Damaged files are skipped. An error of the process itself must not count as damage, or all files
// would be skipped.
TEST(Files, WhatTheProcessLacksIsNoFaultOfTheFile) {
  const test::TemporaryDirectory folder;
  put(folder / "file", "12345");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto file = InputFile::open(folder / "file");
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  expect_refused(file, ErrorKind::failed, "cannot open: Too many open files");
}

TEST(Files, UncommittedFilesLeaveNothing) {
  const test::TemporaryDirectory folder;
  put(folder / "file", "old");
  {
    auto file = AtomicFile::create(folder / "file");
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write("new"));
    const AtomicFile moved(std::move(*file));
    EXPECT_EQ(get(folder / "file"), "old");
    EXPECT_EQ(entries_in(folder.path()), 2);
  }
  EXPECT_EQ(get(folder / "file"), "old");
  EXPECT_EQ(entries_in(folder.path()), 1);
}

TEST(Files, CreatingRefusesBadTargets) {
  const test::TemporaryDirectory folder;
  expect_refused(AtomicFile::create(folder / "no/such/folder"), ErrorKind::usage, "cannot create");
  expect_refused(AtomicFile::create(folder.path()), ErrorKind::usage, "not a regular file");
  expect_refused(AtomicFile::create(folder.path() / ""), ErrorKind::usage, "not a file name");
  expect_refused(AtomicFile::create("/dev/null"), ErrorKind::usage, "not a regular file");
  fs::create_symlink(folder / "nowhere", folder / "dangling");
  expect_refused(AtomicFile::create(folder / "dangling"), ErrorKind::usage, "cannot follow");
  EXPECT_EQ(entries_in(folder.path()), 1);
}

TEST(Files, LinksAreFollowed) {
  const test::TemporaryDirectory folder;
  put(folder / "file", "old");
  fs::create_symlink("file", folder / "link");
  ASSERT_TRUE(write_file_atomically(folder / "link", "new"));
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(get(folder / "file"), "new");
}

TEST(Files, LinksAreRefusedWhereOthersMayPutThem) {
  const test::TemporaryDirectory folder;
  put(folder / "file", "text");
  fs::create_symlink("file", folder / "link");
  EXPECT_TRUE(read_file(folder / "link", 10));
  expect_refused(read_file(folder / "link", 10, Links::refused), ErrorKind::data,
                 "cannot open: Too many levels of symbolic links (replace the link");
  EXPECT_TRUE(read_file(folder / "file", 10, Links::refused));
}

TEST(Files, WhatTheUserNamesMustBeThere) {
  const test::TemporaryDirectory folder;
  expect_refused(
      require_there(folder / "absent"), ErrorKind::usage,
      "absent: cannot open: No such file or directory (check the path and its permissions)");
  put(folder / "file", "");
  expect_refused(require_there(folder / "file/below"), ErrorKind::usage, "Not a directory");
  EXPECT_TRUE(require_there(folder / "file"));
  EXPECT_TRUE(require_there(folder.path()));
}

TEST(Files, TryingToWriteChangesNothing) {
  const test::TemporaryDirectory folder;
  EXPECT_TRUE(try_writing(folder / "new", 1 << 20));
  put(folder / "file", "old");
  EXPECT_TRUE(try_writing(folder / "file", 0));
  EXPECT_EQ(get(folder / "file"), "old");
  expect_refused(try_writing(folder.path(), 1), ErrorKind::usage, "not a regular file");
  expect_refused(try_writing("/dev/full", 1), ErrorKind::usage, "not a regular file");
  expect_refused(try_writing(folder / "no/file", 1), ErrorKind::usage, "No such file");
  expect_refused(try_writing(folder / "file", std::uint64_t{1} << 60), ErrorKind::usage,
                 "has no room for 1152921504606846976 bytes: ");
  EXPECT_EQ(entries_in(folder.path()), 1);
}

TEST(Files, NamesAreOnlyData) {
  const test::TemporaryDirectory folder;
  const std::vector<std::string> names = {"with space", "$(touch owned)",     "line\nbreak",
                                          "quote'\"",   "\xff\xfe",           "-rf",
                                          "%s%n",       std::string(255, 'n')};
  for (const std::string& name : names) {
    ASSERT_TRUE(write_file_atomically(folder / name, name));
    EXPECT_EQ(get(folder / name), name);
  }
  EXPECT_EQ(entries_in(folder.path()), std::ssize(names));
  expect_refused(AtomicFile::create(folder / std::string(4096, 'n')), ErrorKind::usage, "too long");
}

// The kernel refuses a write in the middle of a file here. The tests in tests/fault let each system
// call fail.
TEST(Files, AFailedWriteKeepsTheOldFile) {
  const test::TemporaryDirectory folder;
  put(folder / "file", "old");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1000, before.rlim_max};
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  Status written, committed;
  {
    auto file = AtomicFile::create(folder / "file");
    written = file->write(std::string(2000, 'x'));
    committed = file->commit();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  expect_refused(written, ErrorKind::failed, "cannot write: File too large");
  EXPECT_FALSE(committed);
  EXPECT_EQ(get(folder / "file"), "old");
  EXPECT_EQ(entries_in(folder.path()), 1);
}

}  // namespace
}  // namespace omni
