// These tests check nets with another number of classes, and the names of classes that are saved
// with weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/images/image_folder.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

const std::string kHead = "[net]\nbatch=4\nheight=8\nwidth=8\nchannels=3\nlearning_rate=0.01\n";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(ShippedNets, are_listed_and_printed) {
  const std::filesystem::path folder = OMNI_SOURCE_DIR "/apps/nets";
  const Finished all = omni_run({"net"});
  ASSERT_EQ(all.exit_code, 0) << all.errors;
  EXPECT_THAT(all.errors, HasSubstr("they are in /"));
  const Finished json = omni_run({"net", "--json", "-q"});
  const auto rows = nlohmann::json::parse(json.output);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".cfg") continue;  // Caffe's nets have a folder there
    const std::string name = entry.path().stem();
    EXPECT_THAT(all.output, HasSubstr("\n" + name + " "));
    for (const std::string& word : {name, name + ".cfg"}) {
      const Finished one = omni_run({"net", word});
      EXPECT_EQ(one.exit_code, 0) << one.errors;
      EXPECT_EQ(one.output, get(entry.path()));
      EXPECT_THAT(one.errors, HasSubstr("this is /"));
    }
    ++files;
  }
  EXPECT_EQ(rows.size(), files);
  EXPECT_EQ(lines_of(all.output).size(), files + 1);
  const auto lenet =
      std::ranges::find_if(rows, [](const auto& each) { return each["net"] == "lenet"; });
  ASSERT_NE(lenet, rows.end());
  EXPECT_EQ((*lenet)["input"], (nlohmann::json{28, 28, 1}));
  EXPECT_EQ((*lenet)["parameters"], 431080);
  EXPECT_EQ((*lenet)["outputs"], 10);
}

TEST(ShippedNets, that_are_none_are_refused) {
  const Finished near = omni_run({"net", "lenett"});
  EXPECT_EQ(near.exit_code, 2);
  EXPECT_EQ(near.output, "");
  EXPECT_EQ(near.errors, "error: net lenett: no such shipped net (did you mean lenet.cfg?)\n");
  EXPECT_THAT(omni_run({"net", "transformer"}).errors, HasSubstr("or one of: alexnet "));
}

int outputs(Words words) {
  words.insert(words.end(), {"--dry-run", "--json", "-q"});
  const Finished run = omni_run(words);
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  if (run.exit_code != 0) return 0;
  int count = 1;
  const auto table = nlohmann::json::parse(run.output);
  for (const auto& side : table["layers"].back()["output"]) count *= side.get<int>();
  return count;
}

// The number of classes is set by [connected], by a convolution before [avgpool], or by the second
// of two lines with the same key.
TEST(Classes, are_the_outputs_of_the_last_layer) {
  for (const char* net : {"lenet", "darknet19", "resnet-18", "w8a-mlp"})
    EXPECT_EQ(outputs({"--net", net, "--classes", "37"}), 37) << net;
  const TemporaryDirectory folder;
  const std::string file = folder / "own.cfg";
  for (const char* layers :
       {"[conv]\nfilters=5\nsize=3\nstride=2\n[maxpool]\nsize=3\nstride=1\npadding=0\n[conn]\n"
        "output=9\noutput=4\nactivation=linear\n[dropout]\n[cost]\n",
        "[connected]\nactivation=linear\n[softmax]\ngroups=3\n[cost]\n",
        "[conv]\nfilters=7\nsize=3\npad=1\n[shortcut]\nfrom=-1\n[local]\nfilters=2\nsize=8\n"
        "[logistic]\n"}) {
    put(file, kHead + layers);
    EXPECT_EQ(outputs({"--net", file, "--classes=6"}), 6) << layers;
  }
}

// An auxiliary loss gets as many outputs, and no label may exceed those of any loss.
TEST(Classes, are_the_outputs_of_every_loss) {
  const TemporaryDirectory folder;
  const std::string file = folder / "own.cfg", data = "synthetic:24:5";
  put(file, kHead +
                "[connected]\noutput=4\nactivation=linear\n[softmax]\nloss_weight=0.3\n"
                "[route]\nlayers=-2\n[connected]\noutput=7\nactivation=linear\n[softmax]\n");
  const Finished refused = omni_run({"--net", file, "--data", data, "--max-batches", "2"});
  EXPECT_EQ(refused.exit_code, 2) << refused.errors;
  EXPECT_THAT(refused.errors, HasSubstr(data + ": has 5 classes, but the loss of " + file +
                                        ":10 has 4 outputs (--classes 5 gives every loss"));
  const Finished checked = omni_run({"data", data, "--net", file});
  EXPECT_EQ(checked.exit_code, 2) << checked.errors;
  EXPECT_THAT(checked.errors, HasSubstr("the loss of " + file + ":10 has 4 outputs"));
  EXPECT_EQ(outputs({"--net", file, "--classes", "5"}), 5);
  const Finished trained = omni_run({"--net", file, "--data", data, "--classes", "5",
                                     "--max-batches", "2", "--out", folder / "run"});
  EXPECT_EQ(trained.exit_code, 0) << trained.errors;
}

TEST(Classes, are_refused_where_no_single_layer_decides) {
  const TemporaryDirectory folder;
  const std::string file = folder / "own.cfg";
  for (const auto& [layers, where, text] :
       {std::tuple("[conv]\nfilters=7\nsize=3\npad=1\n[conv]\nfilters=7\nsize=3\npad=1\n"
                   "[shortcut]\nfrom=-2\n[avgpool]\n[softmax]\n",
                   ":15: --classes 6: ", "[shortcut] come from several layers (put a layer"),
        std::tuple("[conv]\nfilters=3\nsize=8\n[conv]\nfilters=4\nsize=1\n[route]\nlayers=-1,-2\n"
                   "[softmax]\n",
                   ":13: --classes 6: ", "[route] come from several layers"),
        std::tuple("[conv]\nfilters=7\nsize=3\n[softmax]\n",
                   ":7: --classes 6: ", "with filters=6 the net has 216 outputs (put [avgpool]"),
        std::tuple(
            "[conv]\nfilters=7\nsize=3\n[softmax]\nloss_weight=1\n[route]\nlayers=-2\n[connected]\n"
            "activation=linear\n[softmax]\n",
            ":10: --classes 6: ", "this loss has 216 outputs (put [avgpool]"),
        std::tuple("[avgpool]\n[softmax]\n", ":8: --classes 6: ", "no layer says how many")}) {
    put(file, kHead + layers);
    for (const Words& words :
         {Words{"--dry-run"}, Words{"predict", "--weights", "w"}, Words{"valid", "--weights", "w"},
          Words{"time"}, Words{"plan"}, Words{"slurm"}, Words{"machine"}}) {
      Words all = words;
      all.insert(all.end(), {"--net", file, "--classes", "6"});
      const Finished run = omni_run(all);
      EXPECT_EQ(run.exit_code, 2) << words.front() << run.errors;
      EXPECT_THAT(run.errors, HasSubstr(file + where)) << words.front();
      EXPECT_THAT(run.errors, HasSubstr(text)) << words.front();
    }
  }
  for (const char* bad : {"0", "-1", "ten", "", "1e3", "99999999999"}) {
    const Finished run = omni_run({"--net", "lenet", "--dry-run", "--classes", bad});
    EXPECT_EQ(run.exit_code, 2) << bad;
    EXPECT_THAT(run.errors, HasSubstr("--classes")) << bad;
  }
}

class ClassNames : public testing::Test {
 protected:
  ClassNames() {
    put(folder_ / "net.cfg", kImageNet);
    make_image_folder(folder_ / "set", 3, 2);
  }
  std::string at(const std::string& name) const { return folder_ / name; }
  Finished train(Words words) const {
    words.insert(words.begin(), {"--net", at("net.cfg"), "--max-batches", "1"});
    if (std::ranges::find(words, "--data") == words.end())
      words.insert(words.end(), {"--data", at("set")});
    Finished run = omni_run(std::move(words));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return run;
  }
  Finished predict(const std::string& weights, Words words = {}) const {
    words.insert(words.begin(), {"predict", "-q", "--net", at("net.cfg"), "--weights", weights,
                                 at("set/val/red/3.jpg")});
    return omni_run(std::move(words));
  }
  void expect_named(const Finished& run) const {
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_EQ(run.errors, "");
    for (const char* name : {"%: blue\n", "%: green\n", "%: red\n"})
      EXPECT_THAT(run.output, HasSubstr(name));
  }
  TemporaryDirectory folder_;
};

TEST_F(ClassNames, go_with_weights_and_checkpoints) {
  train({"--save-weights", at("w"), "--out", at("run"), "--checkpoint-every", "1"});
  EXPECT_EQ(get(at("w.names")), "blue\ngreen\nred\n");
  expect_named(predict(at("w")));
  expect_named(predict(at("run")));
  const Finished valid = omni_run({"valid", "-q", "--net", at("net.cfg"), "--weights", at("w"),
                                   "--data", at("set"), "--per-class"});
  EXPECT_EQ(valid.errors, "");
  EXPECT_THAT(valid.output, HasSubstr("  green"));
  std::filesystem::remove(at("w.names"));
  EXPECT_THAT(predict(at("w")).output, HasSubstr("%: class 2\n"));
}

TEST_F(ClassNames, of_other_outputs_are_not_used_and_said) {
  train({"--save-weights", at("w"), "--classes", "5"});
  EXPECT_EQ(get(at("w.names")), "blue\ngreen\nred\nclass 3\nclass 4\n");
  const Finished three = predict(at("w"));
  EXPECT_EQ(three.exit_code, 3);
  EXPECT_THAT(three.errors,
              HasSubstr("(it is of 5 classes, the net of 3: use it with --classes 5"));
  const Finished five = predict(at("w"), {"--classes", "5"});
  EXPECT_EQ(five.exit_code, 0) << five.errors;
  EXPECT_THAT(five.output, HasSubstr("%: green\n"));
  put(at("w.names"), "a\nb\n");
  const Finished two = predict(at("w"), {"--classes", "5"});
  EXPECT_EQ(two.exit_code, 0);
  EXPECT_THAT(two.errors,
              HasSubstr("2 names of classes are stored with it, the net has 5 outputs"));
  EXPECT_THAT(two.output, HasSubstr("%: class 1\n"));
}

TEST_F(ClassNames, of_other_data_are_told) {
  train({"--save-weights", at("w"), "-q"});
  std::filesystem::copy(at("set"), at("other"), std::filesystem::copy_options::recursive);
  for (const char* part : {"other/train", "other/val"})
    std::filesystem::rename(at(part) + "/blue", at(part) + "/violet");
  const Finished said = predict(at("w"), {"--data", at("other")});
  EXPECT_EQ(said.exit_code, 0);
  EXPECT_THAT(said.errors, HasSubstr("was trained with 'blue' as class 0, which is 'green'"));
  EXPECT_THAT(said.output, HasSubstr("%: violet\n"));
  expect_named(predict(at("w"), {"--data", at("set")}));
}

// When weights are overwritten, the names of the old weights' classes are removed.
TEST_F(ClassNames, do_not_outlive_their_weights) {
  train({"--save-weights", at("w")});
  const Finished again = train({"--save-weights", at("w"), "--data", "synthetic:24"});
  EXPECT_FALSE(std::filesystem::exists(at("w.names")));
  EXPECT_THAT(again.errors, HasSubstr("removed " + at("w.names")));
}

TEST_F(ClassNames, of_somebody_else_are_left_alone) {
  put(at("mine.names"), "cat\ndog\n");
  const Finished refused = omni_run({"--net", at("net.cfg"), "--data", at("set"), "--max-batches",
                                     "1", "--save-weights", at("mine"), "--out", at("none")});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors, HasSubstr("mine.names: is there already, and would be overwritten"));
  EXPECT_EQ(get(at("mine.names")), "cat\ndog\n");
}

TEST_F(ClassNames, tell_why_a_checkpoint_does_not_fit) {
  const Words run{"--out", at("run"), "--resume", "auto"};
  Words five = run;
  five.insert(five.end(), {"--classes", "5"});
  train(five);
  Words words{"--net", at("net.cfg"), "--max-batches", "2", "--data", at("set")};
  words.insert(words.end(), run.begin(), run.end());
  const Finished three = omni_run(words);
  EXPECT_EQ(three.exit_code, 3);
  EXPECT_THAT(three.errors, HasSubstr("use it with --classes 5; it belongs to another net)"));
  EXPECT_EQ(predict(at("run")).exit_code, 3);
}

TEST_F(ClassNames, may_be_hostile) {
  for (const char* part : {"set/train", "set/val"})
    std::filesystem::rename(at(part) + "/blue", at(part) + "/a\x1b[31m\nb\xff");
  train({"--save-weights", at("w"), "--out", at("run"), "--checkpoint-every", "1"});
  EXPECT_EQ(get(at("w.names")), "a\\x1b[31m\\x0ab\\xff\ngreen\nred\n");
  for (const std::string& weights : {at("w"), at("run")}) {
    const Finished run = predict(weights);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_THAT(run.output, HasSubstr("%: a\\x1b[31m\\x0ab\\xff\n"));
  }
}

TEST_F(ClassNames, more_or_fewer_than_the_net_has_are_answered_with_the_option) {
  EXPECT_THAT(
      train({"--classes", "7"}).errors,
      HasSubstr("the net has 7 outputs, the data 3 classes (--classes 3 gives it as many)"));
  const Finished two = omni_run(
      {"--net", at("net.cfg"), "--classes", "2", "--data", at("set"), "--max-batches", "1"});
  EXPECT_EQ(two.exit_code, 2);
  EXPECT_THAT(two.errors, HasSubstr("has 3 classes, but the net has 2 outputs (--classes 3 gives "
                                    "the last layer as many outputs)"));
}

TEST_F(ClassNames, and_their_number_reach_jobs_and_comparisons) {
  const Finished job = omni_run({"slurm", "--net", "lenet", "--classes", "12"});
  EXPECT_EQ(job.exit_code, 0) << job.errors;
  EXPECT_THAT(job.output, HasSubstr("--net lenet --classes 12"));
  put(at("net.cfg"), std::string(kImageNet).replace(kImageNet.find("output=3"), 8, "output=2"));
  const auto compare = [&](const std::string& classes) {
    return omni_run({"compare", "--net", at("net.cfg"), "--data", at("set"), "--classes", classes,
                     "--strategies", "sync", "--target", "1", "--seeds", "1", "--epochs", "1",
                     "--out", at("compared")});
  };
  const Finished run = compare("3");
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(nlohmann::json::parse(get(at("compared/compare.json")))["asked"]["classes"], "3");
  const Finished other = compare("4");
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.errors, HasSubstr("holds another comparison: classes was "));
}

}  // namespace
}  // namespace omni::test
