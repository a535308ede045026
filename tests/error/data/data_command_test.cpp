// These tests check that omni-run data reports all errors of a data set at once, and that
// --hold-out refuses wrong shares.
#include <gtest/gtest.h>

#include "tests/support/images/image_folder.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class DataCommand : public testing::Test {
 protected:
  DataCommand() { make_image_folder(folder_ / "set", 4, 2); }
  std::string at(const std::string& name) const { return folder_ / name; }
  static void expect_has(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n is not in\n" << text;
  }
  static Finished check(const std::string& source, const Words& more = {}) {
    Words words{"data", source};
    words.insert(words.end(), more.begin(), more.end());
    return omni_run(words);
  }
  static nlohmann::json json_of(const Finished& run) {
    return nlohmann::json::parse(run.output, nullptr, false);
  }
  static std::vector<std::string> names_of(const nlohmann::json& list) {
    std::vector<std::string> names;
    for (const auto& each : list) names.push_back(each["name"]);
    return names;
  }

  TemporaryDirectory folder_;
};

TEST_F(DataCommand, ASetWithoutFaults) {
  const Finished run = check(at("set"), {"--json"});
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  expect_has(run.errors, "data: 12 image files, 3 classes, from " + at("set"));
  expect_has(run.errors, "checked 18 of 18 samples, 0 unreadable\n");
  const auto found = json_of(run);
  EXPECT_EQ(found["source"], at("set"));
  EXPECT_EQ(found["train"]["samples"], 12);
  EXPECT_EQ(found["test"]["samples"], 6);
  EXPECT_EQ(found["train"]["unreadable"], 0);
  EXPECT_EQ(names_of(found["classes"]), (Words{"blue", "green", "red"}));
  EXPECT_EQ(found["classes"][2]["train"], 4);
  EXPECT_EQ(found["classes"][2]["test"], 2);
  for (const char* none : {"without_test", "without_training", "without_samples", "in_both_samples",
                           "in_several_classes_samples"})
    EXPECT_TRUE(found[none].empty()) << none;
  EXPECT_EQ(found["train"]["samples_by_channels"], nlohmann::json({{"3", 12}}));
  EXPECT_GE(found["train"]["height"]["least"], 18);
  EXPECT_LT(found["train"]["height"]["most"], 48);
  EXPECT_EQ(check(at("set"), {"-q"}).errors, "");
}

TEST_F(DataCommand, NamesAllFaultsAtOnce) {
  const std::string damaged = at("set/train/red/1.jpg");
  put(damaged, get(damaged).substr(0, 300));
  put(at("set/val/green/empty.jpg"), "");
  put(at("set/train/blue/photo.webp"), "RIFF");
  put(at("set/train/blue/grey.pgm"), "P5 3 2 255\nabcdef");
  fs::copy_file(at("set/train/blue/0.jpg"), at("set/val/green/twin.jpg"));
  fs::remove_all(at("set/val/red"));
  fs::create_directories(at("set/val/red"));
  fs::create_directories(at("set/train/nothing"));
  fs::create_directories(at("set/val/yellow"));
  fs::copy_file(at("set/val/blue/4.jpg"), at("set/val/yellow/4.jpg"));

  const Finished run = check(at("set"), {"--json"});
  EXPECT_EQ(run.exit_code, 3);
  expect_has(run.errors, "error: " + at("set") +
                             ": 3 of 21 samples cannot be read (fetch them again, or take them "
                             "out)\n");
  const auto found = json_of(run);
  EXPECT_EQ(found["train"]["unreadable"], 2);
  EXPECT_EQ(names_of(found["train"]["unreadable_samples"]),
            (Words{at("set/train/blue/photo.webp"), damaged}));
  expect_has(found["train"]["unreadable_samples"][1]["error"],
             damaged + ": is a damaged JPEG: Premature end of JPEG file");
  EXPECT_EQ(names_of(found["test"]["unreadable_samples"]), Words{at("set/val/green/empty.jpg")});
  EXPECT_EQ(names_of(found["without_test"]), Words{"red"});
  EXPECT_EQ(names_of(found["without_training"]), Words{"yellow"});
  EXPECT_EQ(names_of(found["without_samples"]), Words{"nothing"});
  EXPECT_EQ(found["train"]["samples_by_channels"], nlohmann::json({{"1", 1}, {"3", 11}}));
  EXPECT_EQ(found["train"]["height"]["least"], 2);
  EXPECT_EQ(found["in_both"], 1);
  EXPECT_EQ(found["in_both_samples"][0]["test"], at("set/val/green/twin.jpg"));
  EXPECT_EQ(found["in_both_samples"][0]["train"], at("set/train/blue/0.jpg"));
  EXPECT_EQ(found["in_both_samples"][0]["same_class"], false);

  const std::string text = check(at("set")).output;
  for (const std::string& part :
       {damaged + ": is a damaged JPEG", std::string("\nUnreadable: 3 of 21 samples\n"),
        std::string("\nWithout test samples: 1 of 5 classes\n'red'\n"),
        std::string("\nWithout training samples: 1 of 5 classes\n'yellow'\n"),
        std::string("\nWithout samples: 1 of 5 classes\n'nothing'\n"),
        at("set/val/green/twin.jpg") + " is " + at("set/train/blue/0.jpg") +
            ", of another class there\n"})
    expect_has(text, part);

  // If the unreadable files are removed, the class folder that train/ lacks is still an error.
  for (const char* name : {"train/red/1.jpg", "val/green/empty.jpg", "train/blue/photo.webp"})
    fs::remove(at("set") + "/" + name);
  const Finished folders = check(at("set"));
  EXPECT_EQ(folders.exit_code, 3);
  expect_has(folders.errors,
             "error: " + at("set/val/yellow") + ": there is no class 'yellow' in train/");
}

TEST_F(DataCommand, ClassFoldersHaveNoTestSet) {
  const Finished run = check(at("set/train"));
  EXPECT_EQ(run.exit_code, 2);
  const std::string why = at("set/train") +
                          ": has class folders, but neither train/ nor val/ (put them under "
                          "train/";
  expect_has(run.output, "\nNo test set: " + why);
  expect_has(run.errors, "error: " + why);
  const auto held =
      json_of(check(at("set/train"), {"--json", "--hold-out", "0.25", "--seed", "4"}));
  EXPECT_EQ(held["train"]["samples"], 9);
  EXPECT_EQ(held["test"]["samples"], 3);
  EXPECT_EQ(held["no_test"], nullptr);
  // Without val/, a training would be refused. omni-run data still checks the images in train/.
  fs::remove_all(at("set/val"));
  const Finished half = check(at("set"));
  EXPECT_EQ(half.exit_code, 3);
  expect_has(half.output, "samples");
  expect_has(half.errors, "has train/, but no images to test on");
}

TEST_F(DataCommand, EndsAsATrainingThatRefusesTheData) {
  put(at("net.cfg"), kImageNet);
  put(at("list"), "set/train/red/0.jpg 0\nset/train/blue/0.jpg 1\n");
  put(at("broken"), "set/train/red/0.jpg\n");
  put(at("a.svm"), "1 1:0.5\n2 1:0.25\n");
  put(at("half.data"), "train = paths\nnames = names\n");
  put(at("paths"), "set/train/red/0.jpg\nset/train/blue/0.jpg\n");
  put(at("names"), "red\nblue\n");
  for (const std::string& source :
       {at("list"), at("list") + "," + at("gone"), at("list") + "," + at("broken"), at("a.svm"),
        at("set/train"), at("half.data")}) {
    const Finished trained =
        omni_run({"--net", at("net.cfg"), "-q", "--data", source, "--max-batches", "1"});
    const bool vectors = source == at("a.svm");
    for (const Words& more : {Words{"--json"}, Words{"--json", "--net", at("net.cfg")}}) {
      if (vectors && more.size() > 1) continue;
      const Finished run = check(source, more);
      EXPECT_EQ(run.exit_code, trained.exit_code) << source;
      expect_has(run.errors, trained.errors);
      const auto found = json_of(run);
      EXPECT_GT(found["train"]["samples"], 0) << source;
      EXPECT_EQ(found["test"], nullptr) << source;
      EXPECT_EQ("error: " + found["no_test"].get<std::string>() + "\n", trained.errors);
    }
    EXPECT_EQ(trained.exit_code, source == at("half.data") || source.ends_with("broken") ? 3 : 2);
  }
}

TEST_F(DataCommand, SamplesInSeveralClasses) {
  fs::copy_file(at("set/train/blue/1.jpg"), at("set/train/red/again.jpg"));
  fs::copy_file(at("set/train/blue/1.jpg"), at("set/train/blue/once-more.jpg"));  // agrees
  const Finished text = check(at("set"));
  EXPECT_EQ(text.exit_code, 0) << text.errors;
  expect_has(text.output, "\nIn several classes: 1 of 14 training samples\n" +
                              at("set/train/red/again.jpg") + " of 'red' is " +
                              at("set/train/blue/1.jpg") + " of 'blue'\n");
  const auto found = json_of(check(at("set"), {"--json"}));
  EXPECT_EQ(found["in_several_classes"], 1);
  EXPECT_EQ(found["in_several_classes_samples"],
            nlohmann::json::array({{{"sample", at("set/train/red/again.jpg")},
                                    {"first", at("set/train/blue/1.jpg")}}}));
}

TEST_F(DataCommand, HeldOutPerCents) {
  const auto share = check(at("set/train"), {"--json", "--hold-out", "0.25"});
  const auto per_cents = check(at("set/train"), {"--json", "--hold-out", "25%"});
  EXPECT_EQ(per_cents.exit_code, 0) << per_cents.errors;
  EXPECT_EQ(json_of(per_cents)["test"]["samples"], 3);
  EXPECT_EQ(per_cents.output, share.output);
}

TEST_F(DataCommand, ListsAndVectors) {
  put(at("train.txt"), "set/train/red/0.jpg 0\nset/train/red/none.jpg 0\nset/train/red/1.jpg 3\n");
  put(at("val.txt"), "set/val/red/4.jpg 0\nset/train/red/1.jpg 3\n");
  const Finished lists = check(at("train.txt") + "," + at("val.txt"));
  EXPECT_EQ(lists.exit_code, 3);
  expect_has(lists.output, at("train.txt") + ":2: " + at("set/train/red/none.jpg") + ": ");
  expect_has(lists.output, "\nWithout samples: 2 of 4 classes\nclass 1, class 2\n");
  expect_has(lists.output, "\nIn both sets: 1 of 2 test samples\n");

  put(at("a.svm"), "1 1:0.5\n1 2:0.5\n2 1:0.25\n");
  put(at("b.svm"), "1 2:0.5\n1 2:0.5\n1 1:3\n");
  const auto vectors = json_of(check(at("a.svm") + "," + at("b.svm"), {"--json"}));
  EXPECT_EQ(vectors["in_both"], 2);
  EXPECT_EQ(vectors["in_both_samples"][1]["train"], "sample 1");
  EXPECT_EQ(names_of(vectors["without_test"]), Words{"2"});
}

TEST_F(DataCommand, WithANet) {
  put(at("net.cfg"), kImageNet);
  put(at("set/train/red/small.ppm"), "P6 1 1 255\nabc");
  const auto found = json_of(check(at("set"), {"--json", "--net", at("net.cfg")}));
  EXPECT_EQ(found["train"]["smaller_than_net"], 1);
  EXPECT_EQ(found["test"]["smaller_than_net"], 0);
  const Finished computed = check("synthetic:40:3", {"--net", at("net.cfg"), "-q"});
  EXPECT_EQ(computed.exit_code, 0);
  EXPECT_EQ(computed.errors, "");
  fs::create_directories(at("set/train/violet"));
  fs::copy_file(at("set/val/blue/4.jpg"), at("set/train/violet/4.jpg"));
  const Finished four = check(at("set"), {"--net", at("net.cfg"), "-q"});
  EXPECT_EQ(four.exit_code, 2);
  EXPECT_EQ(four.errors,
            "error: " + at("set") +
                ": has 4 classes, but the net has 3 outputs (--classes 4 gives the last "
                "layer as many outputs)\n");
  EXPECT_EQ(check(at("set"), {"--net", at("net.cfg"), "--classes", "4"}).exit_code, 0);
}

// The hint says to leave the empty folder out, not to give the net one more output.
TEST_F(DataCommand, AnEmptyFolderIsToBeLeftOutWhateverTheNetSays) {
  put(at("net.cfg"), kImageNet);
  fs::create_directories(at("set/train/violet"));
  const Finished trained =
      omni_run({"--net", at("net.cfg"), "-q", "--data", at("set"), "--max-batches", "1"});
  EXPECT_EQ(trained.exit_code, 3);
  expect_has(trained.errors, at("set/train/violet") + ": holds no image (put ");
  expect_has(trained.errors, "or leave the folder out)\n");
  const Finished checked = check(at("set"), {"--net", at("net.cfg"), "-q"});
  EXPECT_EQ(checked.exit_code, trained.exit_code);
  EXPECT_EQ(checked.errors, trained.errors);
}

TEST_F(DataCommand, Refused) {
  const auto refused = [](const Words& words, int code, const std::string& error) {
    const Finished run = omni_run(words);
    EXPECT_EQ(run.exit_code, code);
    expect_has(run.errors, error);
    EXPECT_EQ(run.output, "");
  };
  refused({"data"}, 2, "error: data: no data given (omni-run data photos, say)\n");
  refused({"data", "synthetic"}, 2, "the size of the images is unknown (give a net)");
  refused({"data", at("nowhere")}, 2, at("nowhere") + ": no such file or folder");
  refused({"data", at("set"), "--net", "lenett"}, 2, "did you mean lenet.cfg?");
  for (const char* share : {"0", "1", "1.5", "-0.1", "nan", "inf", "-nan", "0.1x", "", "1e-400",
                            "0%", "100%", "10 %", "%"})
    for (const Words& command : {Words{"--net", "lenet"}, Words{"data", at("set")}}) {
      Words words = command;
      words.insert(words.end(), {"--hold-out", share});
      refused(words, 2, "is no share between 0 and 1 (0.1, or 10%)");
    }
  fs::remove_all(at("set/train"));
  for (const char* name : {"blue/5.jpg", "green/5.jpg", "red/5.jpg"})
    fs::remove(at("set/val/" + std::string(name)));
  refused({"data", at("set/val"), "--hold-out", "0.5"}, 2,
          "--hold-out 0.5: no class has two samples, one to train on, one to test");
}

}  // namespace
}  // namespace omni::test
