// These tests check vector data that cannot be used. The program ends with the documented exit code
// and says where and what.
#include <gtest/gtest.h>

#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

class VectorData : public testing::Test {
 protected:
  VectorData() {
    put(folder_ / "net.cfg",
        "[net]\nbatch=2\ninputs=3\n[connected]\noutput=2\nactivation=linear\n[softmax]\n");
    put(folder_ / "good.svm", "0 1:1\n1 3:1\n");
  }
  std::string at(const std::string& name) const { return folder_ / name; }
  void refused(const std::string& data, int exit_code, const std::string& error,
               const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"--net", at("net.cfg"), "--data", data, "-q"};
    words.insert(words.end(), more.begin(), more.end());
    const Finished run = omni_run(words);
    EXPECT_EQ(run.exit_code, exit_code);
    EXPECT_EQ(run.errors, "error: " + error + "\n");
    EXPECT_EQ(run.output, "");
  }

  TemporaryDirectory folder_;
};

TEST_F(VectorData, bad_lines) {
  put(folder_ / "bad.svm", "0 1:1\n1 3:\x1b\n");
  refused(at("bad.svm") + "," + at("good.svm"), 3,
          at("bad.svm") + ":2: is no text (is this the right file?)");
  put(folder_ / "bad.svm", "0 1:1\n2 3:1\n");
  refused(
      at("good.svm") + "," + at("bad.svm"), 3,
      at("bad.svm") + ":2: the training file has no label '2' (do the two files belong together?)");
}

TEST_F(VectorData, files_that_are_not_there) {
  const std::string error =
      "/nowhere.svm: cannot open: No such file or directory (check the path and its permissions)";
  refused("/nowhere.svm," + at("good.svm"), 2, error);
  refused(at("good.svm") + ",/nowhere.svm", 2, error);
}

TEST_F(VectorData, one_file_alone) {
  refused(at("good.svm"), 2,
          at("good.svm") +
              ": one LIBSVM file alone has no test vectors (give two, "
              "train.svm,test.svm, or --hold-out 0.1, or --no-test)");
}

TEST_F(VectorData, more_labels_than_outputs) {
  put(folder_ / "three.svm", "0 1:1\n1 1:1\n5 1:1\n");
  const std::string both = at("three.svm") + "," + at("good.svm");
  refused(both, 2,
          both +
              ": has 3 classes, but the net has 2 outputs (--classes 3 gives the last "
              "layer as many outputs)");
}

TEST_F(VectorData, only_files_are_scaled) {
  refused("synthetic-vectors:8", 2,
          "--scale-features: 'synthetic-vectors:8' is no LIBSVM file (leave it out)",
          {"--scale-features"});
}

}  // namespace
}  // namespace omni::test
