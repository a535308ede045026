// These tests check that a net of Caffe learns the same from image files as from the same images in
// memory.
#include <gtest/gtest.h>

#include "runtime/rng.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using Words = std::vector<std::string>;

constexpr int kTrain = 60, kTest = 20;
constexpr std::size_t kCaffeSide = 32, kPlane = kCaffeSide * kCaffeSide;

class CaffeImages : public testing::Test {
 protected:
  // Writes the images in CIFAR-10's format, and as PPM files with lists.
  CaffeImages() {
    std::string records, lists[2];
    for (int number = 0; number < kTrain + kTest; ++number) {
      Draws draws(Philox(11, RandomStream::synthetic), static_cast<std::uint64_t>(number));
      const auto label = static_cast<std::size_t>(number % 3);
      std::string planes(3 * kPlane, 0), pixels(3 * kPlane, 0);
      for (std::size_t i = 0; i < pixels.size(); ++i) {
        pixels[i] = static_cast<char>(draws.below(160) + (i % 3 == label ? 90 : 0));
        planes[i % 3 * kPlane + i / 3] = pixels[i];
      }
      records += static_cast<char>(label) + planes;
      const std::string file = folder_ / (std::to_string(number) + ".ppm");
      put(file, "P6 32 32 255\n" + pixels);
      lists[number < kTrain ? 0 : 1] += file + " " + std::to_string(label) + "\n";
    }
    std::filesystem::create_directory(folder_ / "memory");
    const std::size_t record = 1 + 3 * kPlane, of_file = kTrain / 5 * record;
    for (std::size_t i = 0; i < 5; ++i)
      put(folder_ / ("memory/data_batch_" + std::to_string(i + 1) + ".bin"),
          records.substr(i * of_file, of_file));
    put(folder_ / "memory/test_batch.bin", records.substr(5 * of_file));
    put(folder_ / "train.txt", lists[0]);
    put(folder_ / "val.txt", lists[1]);
    put(folder_ / "s.prototxt",
        "net: 'n.prototxt' base_lr: 0.01 momentum: 0.9 lr_policy: 'fixed' max_iter: 15");
  }

  void put_net(const std::string& transform) const {
    std::string data;
    for (const char* phase : {"TRAIN", "TEST"})
      data += std::string("layer { name: 'd' type: 'ImageData' top: 'data' top: 'label'\n") +
              "  include { phase: " + phase + " }\n  transform_param { " + transform +
              " }\n  image_data_param { source: 'train.txt' batch_size: 12 } }\n";
    put(folder_ / "n.prototxt",
        data +
            "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c' convolution_param {\n"
            "  num_output: 6 kernel_size: 5 stride: 3 weight_filler { type: 'xavier' } } }\n"
            "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' }\n"
            "layer { name: 'p' type: 'Pooling' bottom: 'c' top: 'p'\n"
            "  pooling_param { pool: AVE global_pooling: true } }\n"
            "layer { name: 's' type: 'InnerProduct' bottom: 'p' top: 's' inner_product_param {\n"
            "  num_output: 10 weight_filler { type: 'xavier' } } }\n"
            "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'label' }\n");
  }
  std::string at(const std::string& name) const { return folder_ / name; }
  std::string memory() const { return at("memory"); }
  std::string files() const { return at("train.txt") + "," + at("val.txt"); }
  Finished run(const Words& words) const {
    Finished finished = omni_run(words);
    EXPECT_EQ(finished.exit_code, 0) << finished.errors;
    return finished;
  }
  std::string trained_on(const std::string& data) const {
    run({"--solver", at("s.prototxt"), "--data", data, "--deterministic", "-q", "--save-weights",
         at("weights")});
    return get(at("weights"));
  }
  nlohmann::json tested_on(const std::string& data) const {
    return nlohmann::json::parse(run({"valid", "--net", at("n.prototxt"), "--weights",
                                      at("weights"), "--data", data, "--json"})
                                     .output);
  }
  nlohmann::json predicted(Words words) const {
    words.insert(words.begin(),
                 {"predict", "--net", at("n.prototxt"), "--weights", at("weights"), "--json"});
    return nlohmann::json::parse(run(words).output)["classes"];
  }
  void expect_the_same_from_both() const {
    const std::string weights = trained_on(memory());
    EXPECT_TRUE(weights == trained_on(files()));
    const auto expected = tested_on(memory()), seen = tested_on(files());
    EXPECT_EQ(expected["test_loss"], seen["test_loss"]);
    EXPECT_EQ(seen["images"], kTest);
    const auto of_file = predicted({at("61.ppm")}),
               of_memory = predicted({"--data", memory(), "--index", "1"});
    ASSERT_EQ(of_file.size(), of_memory.size());
    for (std::size_t i = 0; i < of_file.size(); ++i)
      EXPECT_EQ(of_file[i]["probability"], of_memory[i]["probability"]);
  }

  TemporaryDirectory folder_;
};

TEST_F(CaffeImages, as_files_are_those_in_memory) {
  put_net("crop_size: 32 mirror: false mean_value: 110 mean_value: 120 mean_value: 130");
  expect_the_same_from_both();
  EXPECT_GT(tested_on(files())["test_accuracy"], 0.6) << "chance is a third";
}

TEST_F(CaffeImages, windows_are_cut_at_the_images_own_size) {
  put_net("crop_size: 29 mirror: false");
  expect_the_same_from_both();
}

TEST_F(CaffeImages, smaller_images_are_refused_by_name) {
  put_net("crop_size: 33");
  const Finished of_files = omni_run({"--solver", at("s.prototxt"), "--data", files()});
  EXPECT_EQ(of_files.exit_code, 3) << of_files.errors;
  EXPECT_NE(of_files.errors.find(".ppm: has 32x32 pixels, but 33x33 are cut out"),
            std::string::npos)
      << of_files.errors;
  const Finished of_memory = omni_run({"--solver", at("s.prototxt"), "--data", memory()});
  EXPECT_EQ(of_memory.exit_code, 2) << of_memory.errors;
  EXPECT_NE(of_memory.errors.find("has images of 32x32 pixels, but 33x33 are cut out"),
            std::string::npos)
      << of_memory.errors;
}

TEST_F(CaffeImages, members_of_an_ensemble_learn_what_one_learns_alone) {
  put_net("crop_size: 32 scale: 0.0078125 mean_value: 127.5");
  const std::string alone = trained_on(memory());
  run({"ensemble", "--net", at("n.prototxt") + ":2", "--solver", at("s.prototxt"), "--data",
       files(), "--deterministic", "--out", at("ensemble")});
  EXPECT_TRUE(alone == get(at("ensemble") + "/n-1/net.weights"));
}

// The solver file is named by a relative path when the ensemble is trained. The ensemble is tested
// in another folder.
TEST_F(CaffeImages, an_ensemble_knows_its_solver_and_the_net_of_it_anywhere) {
  put_net("crop_size: 32");
  const std::string alone = trained_on(files());
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  const Finished trained = omni_run({"ensemble", "--solver", "s.prototxt", "--data", files(),
                                     "--deterministic", "--out", at("ensemble")});
  std::filesystem::current_path(before);
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  EXPECT_TRUE(alone == get(at("ensemble") + "/s/net.weights"));
  const auto member = nlohmann::json::parse(get(at("ensemble") + "/ensemble.json"))["members"][0];
  EXPECT_EQ(member["net"], at("n.prototxt"));
  EXPECT_EQ(member["solver"], at("s.prototxt"));
  const Finished tested = run({"valid", "--ensemble", at("ensemble"), "--data", files(), "--json"});
  EXPECT_EQ(nlohmann::json::parse(tested.output)["images"], kTest);
}

}  // namespace
}  // namespace omni::test
