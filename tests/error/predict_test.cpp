// These tests check what predict and valid print about good and bad images and weights, and their
// exit codes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/support/images/image_folder.hpp"
#include "tests/support/net_text.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using Words = std::vector<std::string>;

std::vector<nlohmann::json> objects(const std::string& text) {
  std::vector<nlohmann::json> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) found.push_back(nlohmann::json::parse(line));
  return found;
}

const std::string kGroupedNet =
    net(8, {8, 8, 3}) + connected(3) + connected(6) + layer("softmax", "groups=2\n");

class Predict : public testing::Test {
 protected:
  Predict() {
    put(folder_ / "net.cfg", kImageNet);
    put(folder_ / "grouped.cfg", kGroupedNet);
    put(folder_ / "names", "blue\ngreen\n\"red\", rather\n");
    make_image_folder(folder_ / "set", 2, 3);
    for (const char* net : {"net", "grouped"}) {
      const Finished run =
          omni_run({"--net", at(net) + ".cfg", "--data", at("set"), "--no-test", "--max-batches",
                    "3", "--save-weights", at(net) + ".weights", "-q"});
      EXPECT_EQ(run.exit_code, 0) << run.errors;
    }
  }
  std::string at(const std::string& name) const { return folder_ / name; }
  Finished run(const std::string& command, Words words, const std::string& net = "net",
               const std::string& weights = "") const {
    words.insert(words.begin(), {command, "-q", "--net", at(net) + ".cfg", "--weights",
                                 weights.empty() ? at(net) + ".weights" : weights});
    return omni_run(std::move(words));
  }
  // Writes the weights with `value` as the last float, which belongs to the last layer.
  std::string weights_with(float value) const {
    std::string bytes = get(at("net.weights"));
    std::memcpy(bytes.data() + bytes.size() - sizeof value, &value, sizeof value);
    put(at("other.weights"), bytes);
    return at("other.weights");
  }

  TemporaryDirectory folder_;
};

TEST_F(Predict, FilesAndFoldersInOrderAndInBatches) {
  const Finished all =
      run("predict", {"--json", "--image", at("set/val/red/4.jpg"), at("set/val")});
  ASSERT_EQ(all.exit_code, 0) << all.errors;
  const auto each = objects(all.output);
  ASSERT_EQ(each.size(), 10u);
  EXPECT_EQ(each[0]["image"], at("set/val/red/4.jpg"));
  EXPECT_EQ(each[1]["image"], at("set/val/blue/2.jpg"));
  EXPECT_EQ(each[9]["image"], at("set/val/red/4.jpg"));
  for (const auto& image : each) {
    const Finished alone =
        run("predict", {"--json", "--batch", "1", image["image"].get<std::string>()});
    const auto classes = nlohmann::json::parse(alone.output)["classes"];
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(classes[i]["probability"], image["classes"][i]["probability"], 1e-5);
  }
}

// With three classes, the best five always include the label, so no top-5 accuracy is printed.
TEST_F(Predict, FewClassesHaveNoTopFive) {
  EXPECT_EQ(run("valid", {"--data", at("set")}).output.find("top 5"), std::string::npos);
  const Finished trained = omni_run(
      {"--net", at("net.cfg"), "--data", at("set"), "--max-batches", "1", "--out", at("run")});
  EXPECT_NE(trained.errors.find(" % on "), std::string::npos) << trained.errors;
  EXPECT_NE(trained.errors.find(" % on "), std::string::npos) << trained.errors;
  EXPECT_EQ(trained.errors.find("top 5"), std::string::npos) << trained.errors;
}

TEST_F(Predict, AnUnreadableImageIsNamedAndTheOthersArePredicted) {
  put(at("set/val/green/3.jpg"), get(at("set/val/green/3.jpg")).substr(0, 200));
  put(at("set/val/red/0.png"), "\x89PNG");
  const Finished text = run("predict", {at("set/val"), "--top", "1"});
  EXPECT_EQ(text.exit_code, 3);
  EXPECT_NE(text.errors.find("error: " + at("set/val/green/3.jpg") + ": is a damaged JPEG"),
            std::string::npos)
      << text.errors;
  EXPECT_NE(text.errors.find("error: " + at("set/val/red/0.png") + ": is a damaged PNG"),
            std::string::npos)
      << text.errors;
  EXPECT_NE(text.errors.find("error: predict: 2 of 10 images could not be read (they are named "
                             "above; the others are predicted)\n"),
            std::string::npos)
      << text.errors;
  EXPECT_EQ(std::count(text.output.begin(), text.output.end(), '%'), 8) << text.output;
  const auto each = objects(run("predict", {at("set/val"), "--json"}).output);
  ASSERT_EQ(each.size(), 10u);
  EXPECT_TRUE(each[4].contains("error"));
  EXPECT_FALSE(each[4].contains("classes"));
}

TEST_F(Predict, WithoutAReaderTheRestIsNotComputed) {
  put(at("last.png"), "\x89PNG");
  for (const std::string form : {"--json", "--top=1"}) {
    const Finished run =
        run_program({"/bin/sh", "-c",
                     "exec " + kOmniRun + " predict -q --batch 1 --net " + at("net.cfg") +
                         " --weights " + at("net.weights") + " " + form + " " + at("set/val") +
                         " " + at("last.png") + " > /dev/full"});
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_EQ(run.errors, "error: predict: cannot write the results to stdout\n");
  }
}

TEST_F(Predict, WhatIsNotThere) {
  const Finished missing = run("predict", {at("set/val"), at("nothing.jpg")});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_EQ(missing.errors, "error: " + at("nothing.jpg") +
                                ": no such file or folder (images are named by path)\n");
  EXPECT_EQ(missing.output, "");
  std::filesystem::create_directory(at("empty"));
  const Finished empty = run("predict", {at("empty")});
  EXPECT_EQ(empty.exit_code, 3);
  EXPECT_NE(empty.errors.find(at("empty") + ": holds no image (put "), std::string::npos)
      << empty.errors;
}

TEST_F(Predict, NamesOfTheClasses) {
  const Finished named = run("predict", {"--names", at("names"), at("set/val/red/4.jpg")});
  EXPECT_EQ(named.exit_code, 0) << named.errors;
  EXPECT_NE(named.output.find("%: \"red\", rather\n"), std::string::npos) << named.output;
  const Finished missing = run("predict", {"--names", at("x"), at("set/val")});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_EQ(missing.errors, "error: --names " + at("x") + ": no such file (one name per line)\n");
  put(at("two"), "a\nb\n");
  const Finished few = run("predict", {"--names", at("two"), at("set/val")});
  EXPECT_EQ(few.exit_code, 3);
  EXPECT_EQ(few.errors, "error: " + at("two") +
                            ": has 2 names, the net 3 outputs (one name per line, in the order of "
                            "the classes)\n");
}

// The net has six outputs, but the data have three classes.
TEST_F(Predict, ListsNoMoreClassesThanTheDataHave) {
  const Words words{"--json", "--image", at("set/val/red/4.jpg")};
  Words with_data = words;
  with_data.insert(with_data.end(), {"--data", at("set")});
  for (const auto& [given, listed] : {std::pair(words, 5u), std::pair(with_data, 3u)}) {
    const Finished run_predict = run("predict", given, "grouped");
    ASSERT_EQ(run_predict.exit_code, 0) << run_predict.errors;
    EXPECT_EQ(nlohmann::json::parse(run_predict.output)["classes"].size(), listed);
  }
}

TEST_F(Predict, WeightsThatAreNoNumbersAreRefused) {
  for (const float bad : {NAN, INFINITY}) {
    const std::string weights = weights_with(bad);
    const std::string error = "error: " + weights +
                              ": 003.connected.weights holds values that are not finite (it is "
                              "damaged, or of a training that diverged)\n";
    for (const Finished& refused :
         {run("predict", {at("set/val")}, "net", weights),
          run("valid", {"--data", at("set")}, "net", weights),
          run("train", {"--data", at("set"), "--max-batches", "1"}, "net", weights)}) {
      EXPECT_EQ(refused.exit_code, 3);
      EXPECT_EQ(refused.errors, error);
      EXPECT_EQ(refused.output, "");
    }
  }
}

TEST_F(Predict, OutputsThatAreNoNumbersAreRefused) {
  std::string bytes = get(at("net.weights"));
  const float huge = 3e38f;
  for (std::size_t at = 20; at + sizeof huge <= bytes.size(); at += sizeof huge)
    std::memcpy(bytes.data() + at, &huge, sizeof huge);
  put(at("huge.weights"), bytes);
  const Finished predict = run("predict", {at("set/val/red/4.jpg")}, "net", at("huge.weights"));
  EXPECT_EQ(predict.exit_code, 6);
  EXPECT_EQ(predict.errors, "error: " + at("set/val/red/4.jpg") +
                                ": the net's output is not a finite number (are these the weights "
                                "of this net?)\n");
  EXPECT_EQ(predict.output, "");
  for (const Words& more : {Words{}, Words{"--per-class"}}) {
    Words words{"--data", at("set")};
    words.insert(words.end(), more.begin(), more.end());
    const Finished valid = run("valid", words, "net", at("huge.weights"));
    EXPECT_EQ(valid.exit_code, 6);
    EXPECT_NE(valid.errors.find(" is not a finite number (are these the weights of this net?)"),
              std::string::npos)
        << valid.errors;
    EXPECT_EQ(valid.output, "");
  }
}

// predict and valid must count the same correct images, also with a [softmax] of several groups.
TEST_F(Predict, CountsWhatValidCounts) {
  for (const char* net : {"net", "grouped"}) {
    const Finished run_valid = run("valid", {"--data", at("set"), "--per-class", "--json"}, net);
    ASSERT_EQ(run_valid.exit_code, 0) << run_valid.errors;
    const auto valid = nlohmann::json::parse(run_valid.output);
    const Finished plain = run("valid", {"--data", at("set"), "--json"}, net);
    EXPECT_EQ(nlohmann::json::parse(plain.output)["test_accuracy"], valid["test_accuracy"]);
    EXPECT_NEAR(nlohmann::json::parse(plain.output)["test_loss"], valid["test_loss"], 1e-6);
    int by_predict = 0, by_class = 0, images = 0;
    for (int sample = 0; sample < 9; ++sample) {
      const Finished one =
          run("predict", {"--data", at("set"), "--index", std::to_string(sample), "--json"}, net);
      by_predict += nlohmann::json::parse(one.output)["classes"][0]["index"] == sample / 3;
    }
    for (const auto& each : valid["per_class"]) {
      by_class += each["correct"].get<int>();
      images += each["images"].get<int>();
      int said = 0;
      for (const auto& [output, times] : each["said"].items()) said += times.get<int>();
      EXPECT_EQ(said, each["images"]);
    }
    EXPECT_EQ(images, 9);
    EXPECT_EQ(by_class, by_predict) << net;
    EXPECT_NEAR(valid["test_accuracy"].get<double>() * 9, by_predict, 1e-6) << net;
  }
}

// valid prints the class that each class is most often taken for, and which axis of its table shows
// the true classes.
TEST_F(Predict, ValidNamesTheMostFrequentMistake) {
  const Words words{"--data", at("set"), "--names", at("names"), "--per-class"};
  const Finished text = run("valid", words);
  ASSERT_EQ(text.exit_code, 0) << text.errors;
  EXPECT_NE(text.output.find("\nrows: the true classes; columns: what the net took them for\n"),
            std::string::npos)
      << text.output;
  Words as_json = words;
  as_json.emplace_back("--json");
  const Finished json = run("valid", as_json);
  EXPECT_NE(json.output.find("\"images\":9,"), std::string::npos) << json.output;
  const auto valid = nlohmann::json::parse(json.output);
  int mistaken = 0;
  for (const auto& each : valid["per_class"]) {
    int most = 0, first = -1;
    for (int said = 0; said < 3; ++said) {
      const int count = each["said"].value(std::to_string(said), 0);
      if (said != each["index"] && count > most) most = count, first = said;
    }
    const auto& wrong = each["taken_for"];
    if (first < 0) {
      EXPECT_TRUE(wrong.is_null()) << json.output;
      continue;
    }
    ++mistaken;
    EXPECT_EQ(wrong["index"], first);
    EXPECT_EQ(wrong["images"], most);
    const auto sentence = each["name"].get<std::string>() + ", most often taken for " +
                          wrong["name"].get<std::string>() + " (" + std::to_string(most) + " of 3)";
    EXPECT_NE(text.output.find(sentence), std::string::npos) << text.output;
  }
  EXPECT_GT(mistaken, 0) << "a net of three iterations is not always right\n" << text.output;
}

TEST_F(Predict, OneGroupIsNoGroups) {
  put(at("metrics"), R"({"iteration":0,"timed_groups":1,"seconds_per_iteration":0.25,"chosen":false}
{"iteration":0,"timed_groups":2,"seconds_per_iteration":0.125,"chosen":true}
)");
  const Finished told = omni_run({"explain", at("metrics")});
  EXPECT_EQ(told.exit_code, 0) << told.errors;
  EXPECT_NE(told.output.find("with 1 group 250.000 ms\n"), std::string::npos) << told.output;
  EXPECT_NE(told.output.find("with 2 groups 125.000 ms; more are"), std::string::npos)
      << told.output;
}

TEST_F(Predict, ConfusionAsTextAndAsCsv) {
  const Finished valid = run("valid", {"--data", at("set"), "--names", at("names"), "--per-class",
                                       "--per-class-csv", at("matrix.csv")});
  ASSERT_EQ(valid.exit_code, 0) << valid.errors;
  EXPECT_NE(valid.output.find("\nclass  images   correct     0     1     2\n    0       3 "),
            std::string::npos)
      << valid.output;
  EXPECT_TRUE(valid.output.ends_with("  \"red\", rather\n")) << valid.output;
  std::istringstream csv(get(at("matrix.csv")));
  std::string line;
  std::getline(csv, line);
  EXPECT_EQ(line, "class,blue,green,\"\"\"red\"\", rather\"");
  for (const char* name : {"blue", "green", "\"\"\"red\"\", rather\""}) {
    std::getline(csv, line);
    ASSERT_TRUE(line.starts_with(std::string(name) + ",")) << line;
    int sum = 0, count = 0;
    for (const char digit : line.substr(std::strlen(name)))
      if (digit != ',') sum += digit - '0', ++count;
    EXPECT_EQ(sum, 3);
    EXPECT_EQ(count, 3);
  }
  const Finished refused = run("valid", {"--data", at("set"), "--per-class-csv", "/nowhere/m.csv"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.errors.find("/nowhere/m.csv"), std::string::npos) << refused.errors;
  EXPECT_EQ(refused.output, "");
}

// With inputs= in [net], a connected layer gets the same values as from an image.
TEST_F(Predict, AFlatInputIsTheImageToAConnectedLayer) {
  const std::string layers =
      "[connected]\noutput=12\nactivation=relu\n[connected]\noutput=4\nactivation=linear\n"
      "[softmax]\n";
  put(at("image.cfg"), "[net]\nbatch=8\nheight=6\nwidth=5\nchannels=1\n" + layers);
  put(at("flat.cfg"), "[net]\nbatch=8\ninputs=30\n" + layers);
  std::string images = std::string("\0\0\x08\x03\0\0\0\x10\0\0\0\x06\0\0\0\x05", 16);
  std::string labels = std::string("\0\0\x08\x01\0\0\0\x10", 8);
  for (int i = 0; i < 16 * 30; ++i) images += static_cast<char>(i * i % 251);
  for (int i = 0; i < 16; ++i) labels += static_cast<char>(i % 4);
  std::filesystem::create_directory(at("idx"));
  for (const char* split : {"train", "t10k"}) {
    put(at("idx/") + split + "-images-idx3-ubyte", images);
    put(at("idx/") + split + "-labels-idx1-ubyte", labels);
  }
  std::string weights[2];
  for (int i = 0; i < 2; ++i) {
    const std::string net = at(i == 0 ? "image.cfg" : "flat.cfg");
    const Finished trained =
        omni_run({"--net", net, "--data", at("idx"), "--max-batches", "5", "--deterministic",
                  "--no-test", "--save-weights", at("w"), "-q"});
    ASSERT_EQ(trained.exit_code, 0) << trained.errors;
    EXPECT_EQ(trained.errors, "");
    weights[i] = get(at("w"));
  }
  EXPECT_EQ(weights[0], weights[1]);
  put(at("other.cfg"), "[net]\nbatch=8\ninputs=31\n" + layers);
  const Finished other = omni_run({"--net", at("other.cfg"), "--data", at("idx"), "-q"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.errors.find(": has 30 values per image, but the net wants 31 (give the net "
                              "inputs=30)"),
            std::string::npos)
      << other.errors;
  const Finished files =
      omni_run({"predict", "--net", at("flat.cfg"), "--weights", at("w"), "-q", at("set/val")});
  EXPECT_EQ(files.exit_code, 2);
  EXPECT_NE(files.errors.find("has images of all sizes, but the net wants vectors"),
            std::string::npos)
      << files.errors;
}

}  // namespace
}  // namespace omni::test
