// These tests check that no program prints control characters in the names of files, classes and
// nets.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/images/image_folder.hpp"
#include "tests/support/omni_run.hpp"
#include "tests/support/omni_run_fork.hpp"

namespace omni::test {
namespace {

// The name holds three terminal commands, which begin with a 7-bit byte, an 8-bit byte, and two
// bytes in UTF-8. "error" follows on a line of its own, and the letter ä, which may be printed.
const std::string kHostile = "\x1b[2J\x9b\x32J\xc2\x9b\x32J\nerror\xc3\xa4";

void expect_harmless(const Finished& run, int exit_code) {
  EXPECT_EQ(run.exit_code, exit_code) << run.errors;
  for (std::string text : {run.output, run.errors}) {
    for (const std::string letter :
         {"\xc3\xa4", "\xef\xbf\xbd"})  // the second replaces invalid UTF-8 in JSON
      for (std::size_t at = 0; (at = text.find(letter, at)) != text.npos;)
        text.erase(at, letter.size());
    EXPECT_TRUE(std::ranges::all_of(text, [](char c) {
      return c == '\n' || (c >= ' ' && c <= '~');
    })) << testing::PrintToString(text);
    EXPECT_EQ(("\n" + text).find("\nerror\n"), text.npos) << text;
  }
}

class Terminal : public testing::Test {
 protected:
  Terminal() {
    put(net_, kImageNet);
    std::filesystem::create_directory(data_);
    for (const char* split : {"train", "val"})
      for (const std::string& name : {std::string("a"), kHostile, std::string("z")}) {
        std::filesystem::create_directories(data_ / split / name);
        put(data_ / split / name / (kHostile + ".jpg"), make_plain_jpeg(16, 16, 1, 2, 3));
      }
  }
  TemporaryDirectory folder_;
  std::filesystem::path net_ = folder_ / (kHostile + ".cfg"), data_ = folder_ / kHostile;
};

TEST_F(Terminal, RefusedNames) {
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"--net", kHostile},
           {"--" + kHostile},
           {kHostile},
           {"--net", net_, "--set", kHostile},
           {"--net", net_, "--gpus", kHostile},
           {"--net", net_, "--data", kHostile, "--max-batches", "1"},
           {"--net", net_, "--data", "synthetic:" + kHostile, "--max-batches", "1"},
           {"--net", net_, "--save-weights", folder_ / kHostile / kHostile / "w"}})
    expect_harmless(omni_run_fork(command), 2);
  put(net_, "[net]\nbatch=1\n[softmax]\nkey\x1b[2J=" + kHostile + "\n");
  expect_harmless(omni_run_fork({"--net", net_, "--dry-run"}), 2);
}

TEST_F(Terminal, NetsInTables) {
  expect_harmless(omni_run_fork({"--net", net_, "--dry-run"}), 0);
  const Finished json = omni_run_fork({"--net", net_, "--dry-run", "--json"});
  expect_harmless(json, 0);
  EXPECT_TRUE(nlohmann::json::accept(json.output)) << json.output;
}

TEST_F(Terminal, ClassesAndImages) {
  const std::string weights = folder_ / "weights";
  expect_harmless(
      omni_run({"--net", net_, "--data", data_, "--max-batches", "1", "--checkpoint-every", "1",
                "--out", folder_ / "out", "--save-weights", weights}),
      0);
  const std::string image = data_ / "val" / kHostile / (kHostile + ".jpg");
  for (const std::string json : {"--quiet", "--json"}) {
    expect_harmless(omni_run({"predict", "--net", net_, "--weights", weights, "--data", data_,
                              "--index", "1", json, image}),
                    0);
    expect_harmless(omni_run({"valid", "--net", net_, "--weights", weights, "--data", data_, json}),
                    0);
  }
  put(image, "none");
  expect_harmless(omni_run({"predict", "--net", net_, "--weights", weights, image}), 3);
}

}  // namespace
}  // namespace omni::test
