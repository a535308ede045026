// Nets with several inputs, and losses with targets, that are refused, with text and exit code.
#include "tests/error/caffe/caffe_cases.hpp"

namespace omni::test {
namespace {

class CaffeInputCases : public CaffeCases {};

// Returns a layer of data with a second one, whose fields end with `more`.
std::string two(const std::string& more) {
  return "layer { name: 'data' type: 'MemoryData' top: 'data' top: 'label' memory_data_param {\n"
         "  batch_size: 4 channels: 3 height: 8 width: 8 } }\n"
         "layer { name: 'more' type: 'MemoryData' top: 'other' " +
         more + " }\n";
}
const std::string kOther = "memory_data_param {\nbatch_size: 4 channels: 1 height: 8 width: 8 }";
const std::string kPredicted =
    "layer { name: 'p' type: 'InnerProduct' bottom: 'data' top: 'p'\n"
    "  inner_product_param { num_output: 64 weight_filler { type: 'xavier' } } }\n";
const std::string kLearned =
    "layer { name: 'q' type: 'InnerProduct' bottom: 'other' top: 'q'\n"
    "  inner_product_param { num_output: 64 weight_filler { type: 'xavier' } } }\n";
std::string loss_of(const std::string& fields, const std::string& type = "EuclideanLoss") {
  return "layer { name: 'loss' type: '" + type + "' " + fields + " }\n";
}

TEST_F(CaffeInputCases, inputs_and_targets_are_refused_with_their_layer) {
  const std::string good = two(kOther) + kPredicted;
  const CaffeCase cases[] = {
      {good + ">" + loss_of("bottom: 'p' bottom: 'label'"),
       "layer 'loss': compares 64 values with one label (both have as many values)"},
      {good + ">" + loss_of("bottom: 'p' bottom: 'data'"),
       "layer 'loss': compares 64 values with 192 of its target (both have as many values)"},
      {good + kLearned + ">" + loss_of("bottom: 'p' bottom: 'q'", "SigmoidCrossEntropyLoss"),
       "layer 'loss': layers that make the target have parameters (a logistic loss teaches no "
       "target: it has to be data)"},
      {good + loss_of("bottom: 'p' bottom: 'other' loss_param {\n>normalization: NONE }",
                      "SigmoidCrossEntropyLoss"),
       "layer 'loss': normalization: NONE is not supported (the loss is a mean over the images)"},
      {good + loss_of("bottom: 'p' bottom: 'other'\n>propagate_down: false"),
       "layer 'loss': propagate_down: false is not supported"},
      {good + ">" + "layer { name: 'r' type: 'ReLU' bottom: 'p' top: 'other' }\n" +
           loss_of("bottom: 'p' bottom: 'label'"),
       "layer 'r': a layer above makes 'other', too (give it another name)"},
      {two("top: 'label 2' " + kOther) + kPredicted +
           "layer { name: 'i' type: 'InnerProduct' "
           "bottom: 'p' top: 'i'\n"
           "  inner_product_param { num_output: 4 } }\n" +
           loss_of("bottom: 'i' bottom: 'label'", "SoftmaxWithLoss") +
           loss_of("bottom: 'i'\n>bottom: 'label 2'", "SoftmaxWithLoss"),
       "layer 'loss': 'label 2' are labels of another input than those read above (a sample has "
       "one label)"},
      {good + "layer { name: 'test' type: 'MemoryData' include { phase: TEST }\n>top: 'third' " +
           kOther + " }\n" + loss_of("bottom: 'p' bottom: 'other'"),
       "layer 'test': 'third' is no input in training (both phases have the same inputs)"},
      {"input: 'data'\n>input: 'other'\ninput_shape { dim: 4 dim: 64 }\n" + kPredicted +
           loss_of("bottom: 'p' bottom: 'other'"),
       "'other' has no input_shape (each input has one)"},
      {"layer { name: 'in' type: 'Input' top: 'data' top: 'other'\n>top: 'third' input_param { "
       "shape { dim: 4 dim: 64 } shape { dim: 4 dim: 64 } } }\n" +
           kPredicted + loss_of("bottom: 'p' bottom: 'third'"),
       "layer 'in': 'third' has no shape (give one for all tops, or one for each)"},
  };
  for (const auto& [text, what] : cases) expect_refusal(text, kCaffeSolver, what);
  expect_refusal(
      "layer { name: 'data' type: 'MemoryData' top: 'data' top: 'label' "
      "memory_data_param {\n"
      "  batch_size: 4 channels: 3 height: 8 width: 8 } }\n"
      ">layer { name: 'more' type: 'MemoryData' top: 'other' memory_data_param {\n"
      "batch_size: 2 channels: 1 height: 8 width: 8 } }\n" +
          kPredicted + loss_of("bottom: 'p' bottom: 'other'"),
      kCaffeSolver,
      "layer 'more': has mini-batches of 2, but 'data' of 4 (inputs have one "
      "batch_size)");
}

// The data of each input are named, and have as many samples.
TEST_F(CaffeInputCases, data_of_inputs_are_refused) {
  put(folder_ / "n.prototxt", two(kOther) + kPredicted + loss_of("bottom: 'p' bottom: 'other'"));
  put(folder_ / "s.prototxt", kCaffeSolver);
  const auto refused = [&](std::vector<std::string> words, int code, const std::string& what) {
    words.insert(words.begin(),
                 {"--net", folder_ / "n.prototxt", "--solver", folder_ / "s.prototxt"});
    const Finished run = omni_run_fork(words);
    EXPECT_EQ(run.exit_code, code) << run.errors;
    EXPECT_NE(run.errors.find(what), std::string::npos) << what << "\n" << run.errors;
  };
  const std::string hint = "(the net has 2 inputs: give --data data=... --data other=...)";
  refused({"--data", "fashion-mnist"}, 2,
          "--data 'fashion-mnist': names no input of the net " + hint);
  refused({"--data", "data=synthetic", "--data", "third=synthetic"}, 2,
          "--data 'third=synthetic': names no input of the net " + hint);
  refused({"--data", "data=synthetic"}, 2, "no data are given for the input 'other' " + hint);
  refused({"--data", "data=synthetic", "--data", "data=synthetic"}, 2,
          "is given twice for this input " + hint);
  refused({"--data", "data=synthetic:60", "--data", "other=synthetic:61"}, 3,
          "other: has 61 training samples, but data has 60 (inputs are joined sample by sample)");
  const std::string both[]{"--data", "synthetic:60:4"};
  refused({both[0], both[1], "--keep-best", "--out", folder_ / "run", "--checkpoint-every", "1"}, 2,
          "--keep-best: compares test accuracies, but the net has no classes (leave it out)");
}

}  // namespace
}  // namespace omni::test
