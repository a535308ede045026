// These tests run valid and predict on an ensemble's folder. Every joint number must follow from
// the members' own predictions.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/support/net_text.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using Words = std::vector<std::string>;
using Rows = std::vector<std::vector<double>>;  // probabilities by image and class

constexpr std::size_t kImages = 64, kClasses = 4;

struct Member {
  std::string name, net;
  Words options;
};

// The ensemble has two members of one net with the same initial weights, and one member of a net
// with another input size.
class Ensemble : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryDirectory;
    put(at("net.cfg"), net(16, {8, 8, 3}, "learning_rate=0.02\nmomentum=0.9\n") +
                           convolutional(4, "relu") + connected(4) + layer("softmax"));
    put(at("other.cfg"), net(16, {6, 6, 3}, "learning_rate=0.01\nmomentum=0.9\n") +
                             connected(6, "tanh") + connected(4) + layer("softmax"));
    for (const Member& each : members()) {
      std::filesystem::create_directories(at("all/" + each.name));
      Words words{"-q",
                  "--net",
                  each.net,
                  "--data",
                  kData,
                  "--out",
                  at("out-" + each.name),
                  "--max-batches",
                  "8",
                  "--no-test",
                  "--save-weights",
                  at("all/" + each.name + "/net.weights")};
      words.insert(words.end(), each.options.begin(), each.options.end());
      const Finished run = omni_run(words);
      ASSERT_EQ(run.exit_code, 0) << run.errors;
    }
    write("all", members());
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }

  static std::string at(const std::string& name) { return *folder_ / name; }
  static std::vector<Member> members() {
    return {{"a", at("net.cfg"), {"--seed", "1"}},
            {"b", at("net.cfg"), {"--seed", "2", "--learning-rate", "0.01"}},
            {"c", at("other.cfg"), {"--seed", "3"}}};
  }
  static json entry(const Member& member, const std::string& state = "finished") {
    return {{"name", member.name}, {"net", member.net}, {"options", member.options},
            {"state", state},      {"iteration", 8},    {"loss", nullptr},
            {"accuracy", nullptr}};
  }
  static void write_entries(const std::string& folder, const json& entries) {
    std::filesystem::create_directories(at(folder));
    put(at(folder + "/ensemble.json"),
        json{{"format", "omnivore-ensemble"}, {"version", 1}, {"members", entries}}.dump());
  }
  // Writes an ensemble's folder with these members, which use the files of the folder "all".
  static void write(const std::string& folder, const std::vector<Member>& of) {
    json entries = json::array();
    std::filesystem::create_directories(at(folder));
    for (const Member& each : of) {
      entries.push_back(entry(each));
      if (folder != "all")
        std::filesystem::copy(at("all/" + each.name), at(folder + "/" + each.name),
                              std::filesystem::copy_options::recursive);
    }
    write_entries(folder, entries);
  }

  static Finished run(Words words) {
    words.insert(words.end(), {"-q", "--data", kData});
    return omni_run(std::move(words));
  }
  static json result(Words words) {
    words.push_back("--json");
    const Finished finished = run(std::move(words));
    EXPECT_EQ(finished.exit_code, 0) << finished.errors;
    return json::parse(finished.output, nullptr, false);
  }

  // Returns the probabilities that predict gives for all test images. The images' names contain
  // their labels.
  static Rows probabilities(Words words) {
    words.insert(words.begin(), {"predict", "--json", "--top", "4"});
    for (std::size_t i = 0; i < kImages; ++i)
      words.insert(words.end(), {"--index", std::to_string(i)});
    const Finished finished = run(std::move(words));
    EXPECT_EQ(finished.exit_code, 0) << finished.errors;
    Rows rows;
    std::istringstream lines(finished.output);
    for (std::string line; std::getline(lines, line);) {
      rows.emplace_back(kClasses);
      const json object = json::parse(line);
      for (const json& each : object["classes"])
        rows.back()[each["index"].get<std::size_t>()] = each["probability"];
    }
    EXPECT_EQ(rows.size(), kImages);
    return rows;
  }
  static std::vector<std::size_t> labels() {
    Words words{"predict", "--json", "--top", "1", "--ensemble", at("all")};
    for (std::size_t i = 0; i < kImages; ++i)
      words.insert(words.end(), {"--index", std::to_string(i)});
    std::vector<std::size_t> labels;
    std::istringstream lines(run(std::move(words)).output);
    for (std::string line; std::getline(lines, line);) {
      const std::string image = json::parse(line)["image"];  // test image 3 (class 2)
      labels.push_back(static_cast<std::size_t>(number_after(image, "(class ")));
    }
    return labels;
  }

  static constexpr const char* kData = "synthetic:320:4";
  static TemporaryDirectory* folder_;
};

TemporaryDirectory* Ensemble::folder_ = nullptr;

std::size_t best(const std::vector<double>& row) {
  return static_cast<std::size_t>(std::ranges::max_element(row) - row.begin());
}

TEST_F(Ensemble, joint_numbers_are_those_of_the_members_predictions) {
  std::vector<Rows> of;
  json alone = json::array();
  for (const Member& each : members()) {
    const Words words{"--net", each.net, "--weights", at("all/" + each.name + "/net.weights")};
    of.push_back(probabilities(words));
    Words valid{"valid"};
    valid.insert(valid.end(), words.begin(), words.end());
    alone.push_back(result(valid));
  }
  const Rows joint = probabilities({"--ensemble", at("all")});
  const auto truth = labels();
  ASSERT_EQ(truth.size(), kImages);
  double loss = 0, right = 0, voted = 0, differ = 0;
  for (std::size_t image = 0; image < kImages; ++image) {
    std::vector<double> mean(kClasses), votes(kClasses);
    for (const Rows& rows : of) {
      for (std::size_t i = 0; i < kClasses; ++i) mean[i] += rows[image][i] / 3;
      votes[best(rows[image])] += 1;
    }
    for (std::size_t i = 0; i < kClasses; ++i) {
      EXPECT_NEAR(joint[image][i], mean[i], 1e-5);
      differ += votes[i] * (3 - votes[i]) / 2 / 3;
      votes[i] += mean[i] / 2;  // decides between equal votes
    }
    loss -= std::log(mean[truth[image]]);
    right += best(mean) == truth[image];
    voted += best(votes) == truth[image];
  }
  const json valid = result({"valid", "--ensemble", at("all")});
  EXPECT_EQ(valid["images"], kImages);
  EXPECT_NEAR(valid["joint"]["test_loss"], loss / kImages, 1e-4);
  EXPECT_NEAR(valid["joint"]["test_accuracy"], right / kImages, 1e-6);
  EXPECT_NEAR(valid["joint"]["vote_accuracy"], voted / kImages, 1e-6);
  EXPECT_NEAR(valid["disagreement"], differ / kImages, 1e-6);
  EXPECT_GT(valid["disagreement"], 0);
  double mean_accuracy = 0;
  ASSERT_EQ(valid["members"].size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const json& member = valid["members"][i];
    EXPECT_EQ(member["name"], members()[i].name);
    EXPECT_EQ(member["net"], i < 2 ? "net" : "other");
    EXPECT_NEAR(member["test_loss"], alone[i]["test_loss"], 1e-5);
    EXPECT_NEAR(member["test_accuracy"], alone[i]["test_accuracy"], 1e-6);
    EXPECT_GT(member["calibration_error"], 0);
    mean_accuracy += member["test_accuracy"].get<double>() / 3;
  }
  EXPECT_NEAR(valid["mean_member"]["test_accuracy"], mean_accuracy, 1e-6);
  EXPECT_EQ(valid["averaged_weights"], nullptr);  // the nets differ
  EXPECT_EQ(valid["left_out"], json::array());
}

TEST_F(Ensemble, the_text_has_the_numbers_of_json) {
  const json valid = result({"valid", "--ensemble", at("all")});
  const Finished text = run({"valid", "--ensemble", at("all")});
  ASSERT_EQ(text.exit_code, 0) << text.errors;
  for (const json& share :
       {valid["joint"]["test_accuracy"], valid["joint"]["vote_accuracy"],
        valid["joint"]["calibration_error"], valid["mean_member"]["test_accuracy"],
        valid["members"][2]["test_accuracy"], valid["disagreement"]})
    EXPECT_THAT(text.output, HasSubstr(fmt::format("{:.2f} %", 100 * share.get<double>())));
  for (const char* words : {"averaged probabilities", "majority vote", "mean of the members",
                            "averaged weights: the members' nets differ", "64 images"})
    EXPECT_THAT(text.output, HasSubstr(words));
}

TEST_F(Ensemble, a_member_twice_is_that_member) {
  write("twice", {members()[0]});
  std::filesystem::copy(at("all/a"), at("twice/again"));
  Member again = members()[0];
  again.name = "again";
  write_entries("twice", {entry(members()[0]), entry(again)});
  const json valid = result({"valid", "--ensemble", at("twice")});
  EXPECT_EQ(valid["disagreement"], 0);
  EXPECT_EQ(valid["joint"]["test_accuracy"], valid["members"][0]["test_accuracy"]);
  EXPECT_EQ(valid["joint"]["vote_accuracy"], valid["members"][0]["test_accuracy"]);
  EXPECT_NEAR(valid["joint"]["test_loss"], valid["members"][0]["test_loss"], 1e-5);
  EXPECT_NEAR(valid["joint"]["calibration_error"], valid["members"][0]["calibration_error"], 1e-6);
  EXPECT_TRUE(valid["averaged_weights"]["near"]);
  EXPECT_EQ(valid["averaged_weights"]["test_accuracy"], valid["members"][0]["test_accuracy"]);
  EXPECT_NEAR(valid["averaged_weights"]["test_loss"], valid["members"][0]["test_loss"], 1e-5);
  EXPECT_THAT(run({"valid", "--ensemble", at("twice")}).output,
              testing::ContainsRegex("averaged weights +[0-9]"));
}

// The average of weights and their negatives is a net that gives all images the same probabilities.
TEST_F(Ensemble, weights_that_are_far_apart_are_not_averaged) {
  put(at("flat.cfg"), net(16, {6, 6, 3}, "learning_rate=0.02\nmomentum=0.9\n") +
                          connected(8, "tanh") + connected(4) + layer("softmax"));
  std::filesystem::create_directories(at("far/a"));
  const Finished trained = run({"--net", at("flat.cfg"), "--out", at("out-far"), "--no-test",
                                "--max-batches", "60", "--save-weights", at("far/a/net.weights")});
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  // tanh is an odd function. If the hidden layer's weights and biases and the output layer's
  // weights change their signs, the outputs stay the same.
  std::string bytes = get(at("far/a/net.weights"));
  const std::size_t floats = 8 + 8 * 108 + 4 + 4 * 8;
  ASSERT_GT(bytes.size(), 4 * floats);
  const std::size_t begin = bytes.size() - 4 * floats;
  for (std::size_t i = 0; i < floats; ++i) {
    const bool output_bias = i >= 8 + 8 * 108 && i < 8 + 8 * 108 + 4;
    if (!output_bias) bytes[begin + 4 * i + 3] = static_cast<char>(bytes[begin + 4 * i + 3] ^ 0x80);
  }
  std::filesystem::create_directories(at("far/b"));
  put(at("far/b/net.weights"), bytes);
  const Member first{"a", at("flat.cfg"), {}}, second{"b", at("flat.cfg"), {}};
  write_entries("far", {entry(first), entry(second)});
  const json valid = result({"valid", "--ensemble", at("far")});
  ASSERT_GT(valid["members"][0]["test_accuracy"], 0.5) << valid;
  EXPECT_EQ(valid["members"][0]["test_accuracy"], valid["members"][1]["test_accuracy"]);
  EXPECT_FALSE(valid["averaged_weights"]["near"]);
  EXPECT_LT(valid["averaged_weights"]["test_accuracy"], 0.5);
  EXPECT_THAT(run({"valid", "--ensemble", at("far")}).output, HasSubstr("too far apart"));
}

TEST_F(Ensemble, who_has_not_finished_is_named_and_left_out) {
  write("some", {members()[0], members()[1]});
  json entries = {entry(members()[0]), entry(members()[1], "diverged"),
                  entry(members()[2], "dropped")};
  write_entries("some", entries);
  const Words words{"valid", "--ensemble", at("some")};
  const Finished text = run(words);
  EXPECT_EQ(text.exit_code, 0) << text.errors;
  EXPECT_THAT(text.errors, HasSubstr("'b' is left out: it has diverged"));
  EXPECT_THAT(text.errors, HasSubstr("'c' is left out: it is dropped"));
  EXPECT_THAT(text.output, testing::EndsWith("left out: b (diverged)\nleft out: c (dropped)\n"));
  const json valid = result(words);
  EXPECT_EQ(valid["members"].size(), 1u);
  EXPECT_EQ(valid["left_out"][1]["state"], "dropped");
  EXPECT_EQ(valid["disagreement"], nullptr);
  EXPECT_EQ(valid["joint"]["test_accuracy"], valid["members"][0]["test_accuracy"]);
}

TEST_F(Ensemble, the_confusion_matrix_is_that_of_the_averaged_probabilities) {
  const json valid = result(
      {"valid", "--ensemble", at("all"), "--per-class", "--per-class-csv", at("confusion.csv")});
  double right = 0;
  for (const json& each : valid["per_class"]) right += each["correct"].get<double>();
  EXPECT_NEAR(right / kImages, valid["joint"]["test_accuracy"], 1e-6);
  EXPECT_THAT(get(at("confusion.csv")), HasSubstr("class,"));
}

TEST_F(Ensemble, an_unreadable_image_is_named_once) {
  put(at("good.ppm"), "P6\n8 8\n255\n" + std::string(192, 'x'));
  put(at("bad.png"), "\x89PNG");
  const Finished run =
      omni_run({"predict", "-q", "--json", "--ensemble", at("all"), at("good.ppm"), at("bad.png")});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_EQ(run.errors,
            "error: " + at("bad.png") +
                ": is a damaged PNG: the file ends too early (fetch it again, or leave it out)\n"
                "error: predict: 1 of 2 images could not be read (they are named "
                "above; the others are predicted)\n");
  EXPECT_THAT(run.output, HasSubstr("{\"image\":\"" + at("good.ppm") + "\",\"classes\":["));
  EXPECT_THAT(run.output, HasSubstr("{\"image\":\"" + at("bad.png") + "\",\"error\":"));
}

TEST_F(Ensemble, a_member_may_have_learned_what_is_held_out) {
  Member same = members()[0];
  same.options = {"--seed", "1", "--hold-out", "10%"};
  write("held", {same, members()[1]});
  const Finished valid = run({"valid", "--ensemble", at("held"), "--hold-out", "0.1"});
  EXPECT_EQ(valid.exit_code, 0);
  EXPECT_THAT(valid.errors, HasSubstr("'b': was trained with other values of --hold-out"));
  EXPECT_THAT(valid.errors, testing::Not(HasSubstr("'a': was trained")));
}

TEST_F(Ensemble, members_that_name_classes_otherwise_are_refused) {
  write("named", {members()[0], members()[1]});
  put(at("named/a/net.weights.names"), "one\ntwo\nthree\nfour\n");
  put(at("named/b/net.weights.names"), "one\ntwo\n3\nfour\n");
  const Finished valid = run({"valid", "--ensemble", at("named")});
  EXPECT_EQ(valid.exit_code, 3);
  EXPECT_THAT(valid.errors, HasSubstr(at("named/b/net.weights") +
                                      ": names class 2 '3'; another member names it 'three'"));
  EXPECT_EQ(valid.output, "");
}

TEST_F(Ensemble, probabilities_that_do_not_fit_into_memory_are_refused) {
  const Finished valid = run_program({"/bin/sh", "-c",
                                      "ulimit -v 3000000; exec " + kOmniRun +
                                          " valid -q --workers 1 --data synthetic:1000000000:4 "
                                          "--ensemble " +
                                          at("all")});
  EXPECT_EQ(valid.exit_code, 4) << valid.errors;
  EXPECT_THAT(valid.errors, HasSubstr("error: net: needs "));
}

}  // namespace
}  // namespace omni::test
