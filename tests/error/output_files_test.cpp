// These tests check that a command does not overwrite a file of another kind than it writes itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/images/image_folder.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::string>;

class OutputFiles : public testing::Test {
 protected:
  OutputFiles() { put(at("net.cfg"), kImageNet); }
  std::string at(const std::string& name) const { return folder_ / name; }
  Finished train(const std::string& weights, Words words = {}) const {
    words.insert(words.begin(), {"--net", at("net.cfg"), "--data", "synthetic:24", "-q",
                                 "--max-batches", "1", "--save-weights", weights});
    return omni_run(std::move(words));
  }
  Finished valid(const std::string& csv, Words words = {}) const {
    words.insert(words.begin(), {"valid", "--net", at("net.cfg"), "--data", "synthetic:24", "-q",
                                 "--weights", at("w"), "--per-class-csv", csv});
    return omni_run(std::move(words));
  }
  static void refused(const Finished& run, const std::string& text) {
    EXPECT_EQ(run.exit_code, 2) << run.errors;
    EXPECT_EQ(run.errors, "error: " + text + "\n");
    EXPECT_EQ(run.output, "");
  }
  TemporaryDirectory folder_;
};

TEST_F(OutputFiles, of_others_are_not_replaced_by_weights) {
  const std::string zeros(16, '\0');
  for (const std::string& theirs :
       {std::string("a thesis\n"), std::string("\xff\xd8\xff\xe0\0\x10JFIF", 10) + zeros,
        std::string("\x89PNG\r\n\x1a\n") + zeros, kImageNet, zeros,
        // The first of these begins like a safetensors file, the second with a Darknet version that
        // does not exist.
        std::string("\x48\x0c\0\0\0\0\0\0", 8) + zeros,
        std::string("\0\0\0\0\2\0\0\0\0\0\0\0", 12) + zeros + "x"}) {
    put(at("theirs"), theirs);
    refused(train(at("theirs")), "--save-weights: " + at("theirs") +
                                     " exists, and holds no Darknet weights (choose a new name)");
    EXPECT_EQ(get(at("theirs")), theirs);
  }
  refused(train(at("net.cfg")),
          "--save-weights: " + at("net.cfg") + " is read, and would be lost (choose a new name)");
}

TEST_F(OutputFiles, that_are_empty_or_weights_are_replaced) {
  put(at("w"), "");
  for (const Words& more : {Words{}, Words{"--seed", "2"}, Words{"--weights", at("w")}}) {
    const std::string before = get(at("w"));
    const Finished run = train(at("w"), more);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_NE(get(at("w")), before);
  }
  // The header of old .weights versions is shorter, because its count of images has 4 bytes.
  put(at("old"), std::string("\0\0\0\0\1\0\0\0\0\0\0\0", 12) + std::string(12, '\0'));
  EXPECT_EQ(train(at("old")).exit_code, 0);
  EXPECT_EQ(get(at("old")).size(), get(at("w")).size());
}

TEST_F(OutputFiles, do_not_share_a_place) {
  for (const char* option : {"--metrics", "--out", "--trace"})
    refused(train(at("w"), {option, at("./w")}),
            "--save-weights: " + at("w") +
                " is where something else is written, too (choose a new name)");
  EXPECT_FALSE(std::filesystem::exists(at("w")));
}

TEST_F(OutputFiles, of_others_are_not_replaced_by_a_confusion_matrix) {
  ASSERT_EQ(train(at("w")).exit_code, 0);
  const std::string weights = get(at("w"));
  for (const char* theirs : {"a thesis\n", "class,path\ncat,1.jpg\n", "class,a\ncat,1\n", "\n"}) {
    put(at("theirs"), theirs);
    refused(valid(at("theirs")), "--per-class-csv: " + at("theirs") +
                                     " exists, and holds no confusion matrix (choose a new name)");
    EXPECT_EQ(get(at("theirs")), theirs);
  }
  refused(valid(at("w")),
          "--per-class-csv: " + at("w") + " is read, and would be lost (choose a new name)");
  EXPECT_EQ(get(at("w")), weights);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(valid(at("m.csv")).exit_code, 0);
  EXPECT_THAT(get(at("m.csv")), HasSubstr("class,"));
}

TEST_F(OutputFiles, of_others_are_not_replaced_by_a_machine) {
  for (const char* theirs : {"a thesis\n", "{}\n"}) {
    put(at("theirs"), theirs);
    refused(omni_run({"machine", "-q", "--net", at("net.cfg"), "--out", at("theirs")}),
            "--out: " + at("theirs") + " exists, and holds no machine (choose a new name)");
    EXPECT_EQ(get(at("theirs")), theirs);
  }
}

}  // namespace
}  // namespace omni::test
