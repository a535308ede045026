// The same rule holds for every option that names a file. If the file does not exist, the exit code
// is 2. If its contents are wrong, or those of a file that it names, it is 3. Errors in a net
// description always have exit code 2.
#include <gtest/gtest.h>

#include "tests/support/images/image_folder.hpp"
#include "tests/support/omni_run_fork.hpp"

namespace omni::test {
namespace {

using Words = std::vector<std::string>;

class NamedFiles : public testing::Test {
 protected:
  NamedFiles() {
    put(folder_ / "net.cfg", kImageNet);
    make_image_folder(folder_ / "set", 1, 1);
    put(folder_ / "list", "set/train/red/0.jpg 2\n");
    put(folder_ / "wrong", "nothing that anybody reads\n");
    put(folder_ / "wrong.safetensors", "no header");
    std::filesystem::create_directory(folder_ / "empty");
  }
  std::string at(const std::string& name) const { return folder_ / name; }
  void refused(int code, Words words, const std::string& said) const {
    if (words[0].starts_with("--")) words.insert(words.end(), {"--max-batches", "1", "--no-test"});
    words.insert(words.end(), {"--net", at("net.cfg"), "-q"});
    const Finished run = omni_run_fork(words);
    EXPECT_EQ(run.exit_code, code) << words[0] << ' ' << words[1] << '\n' << run.errors;
    EXPECT_NE(run.errors.find("error: " + said), std::string::npos) << run.errors;
    EXPECT_EQ(run.output, "");
  }

  TemporaryDirectory folder_;
  const std::string absent_ = at("absent");
  const std::string not_there_ =
      absent_ + ": cannot open: No such file or directory (check the path and its permissions)";
};

TEST_F(NamedFiles, Weights) {
  for (const Words& words : {Words{"--data", "synthetic:8:3", "--weights"},
                             Words{"valid", "--data", "synthetic:8:3", "--weights"},
                             Words{"predict", at("set/train/red/0.jpg"), "--weights"}}) {
    const auto with = [&](const std::string& file) {
      Words all = words;
      all.push_back(file);
      return all;
    };
    refused(2, with(absent_), not_there_);
    refused(3, with(at("wrong")), at("wrong") + ": version ");
  }
  refused(3, {"valid", "--data", "synthetic:8:3", "--weights", at("wrong.safetensors")},
          at("wrong.safetensors") + ": claims a header");
  refused(2, {"valid", "--data", "synthetic:8:3", "--weights", at("empty")},
          at("empty") + ": there is no checkpoint in this directory");
}

TEST_F(NamedFiles, Checkpoints) {
  refused(2, {"--resume", absent_}, absent_ + ": no such checkpoint (check the path)");
  refused(2, {"--resume", at("empty")}, at("empty") + ": there is no checkpoint in this directory");
  refused(3, {"--resume", at("wrong")}, at("wrong") + ": claims a header");
  std::filesystem::create_directories(folder_ / "run/save-000001-step-000000001");
  const std::string damaged = at("run") + ": none of the 1 checkpoints is usable";
  refused(3, {"--resume", at("run")}, damaged);
  refused(3, {"--resume", "auto", "--out", at("run")}, damaged);
}

TEST_F(NamedFiles, Data) {
  for (const char* command : {"valid", "predict"}) {
    const Words weights{command, "--weights", at("list"), "--data"};
    const auto with = [&](const std::string& data) {
      Words all = weights;
      all.push_back(data);
      if (all[0] == "predict") all.insert(all.end(), {"--index", "0"});
      return all;
    };
    refused(2, with(absent_), absent_ + ": no such file or folder");
    refused(2, with("cifar10"), "cifar10: not found in $OMNIVORE_DATA");
    refused(2, with(absent_ + "," + at("list")), not_there_);
    refused(2, with(at("list") + "," + absent_), not_there_);
    refused(3, with(at("list") + "," + at("wrong")), at("wrong") + ":1: does not end with a label");
    refused(3, with(at("empty")), at("empty") + ": holds no dataset that is understood");
  }
  put(folder_ / "x.data", "names = list\ntrain = absent\nvalid = list\n");
  refused(3, {"--data", at("x.data")}, at("x.data") + ":2: there is no 'absent'");
  put(folder_ / "gone", "set/train/red/0.jpg 2\nset/train/red/gone.jpg 2\n");
  refused(3, {"--data", at("gone")}, at("gone") + ":2: there is no file '");
}

TEST_F(NamedFiles, Images) {
  const std::string said = absent_ + ": no such file or folder (images are named by path)";
  refused(2, {"predict", "--weights", at("list"), absent_}, said);
  refused(2, {"predict", "--weights", at("list"), at("set/train/red/0.jpg"), absent_}, said);
}

TEST_F(NamedFiles, Places) {
  refused(2, {"--data", "synthetic:8:3", "--trace", "/proc/trace"},
          "/proc: cannot create: No such file or directory (name a writable folder with free space "
          "with --trace)");
  refused(2, {"--data", "synthetic:8:3", "--models", "/proc/models"},
          "/proc/models: cannot make the performance model folder");
  refused(2, {"machine", "--out", absent_ + "/m.json"}, absent_ + "/m.json: cannot create");
}

TEST_F(NamedFiles, ABatchOfMoreThanAllImagesIsSaidOnce) {
  const Finished run = omni_run_fork({"--net", at("net.cfg"), "--data", at("list"), "--no-test",
                                      "--max-batches", "3", "--batch", "8", "--out", at("run")});
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  const std::string said = "\na batch of 8 is more than the 1 training images";
  const std::size_t first = run.errors.find(said);
  ASSERT_NE(first, std::string::npos) << run.errors;
  EXPECT_EQ(run.errors.find(said, first + 1), std::string::npos) << run.errors;
}

}  // namespace
}  // namespace omni::test
