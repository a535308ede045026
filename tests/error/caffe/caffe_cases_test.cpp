// Every way we know to get a prototxt wrong, or to ask for what is not read: omni-run ends with
// exit code 2 and names the file, the line and the layer.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/support/omni_run_fork.hpp"

namespace omni::test {
namespace {

struct CaffeCase {
  std::string text;  // lines of the file; the one that is named begins with '>'
  std::string what;  // what follows the line's number
};

// The lines before a case, and after it.
constexpr const char* kData =
    "layer { name: 'data' type: 'Input' top: 'data' top: 'label'\n"
    "  input_param { shape { dim: 2 dim: 3 dim: 16 dim: 16 } } }\n";
constexpr const char* kLoss =
    "layer { name: 's' type: 'InnerProduct' bottom: 'x' top: 's'\n"
    "  inner_product_param { num_output: 4 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'label' }\n";
constexpr const char* kSolver = "base_lr: 0.1\nlr_policy: 'fixed'\nmax_iter: 5\n";

// Removes the mark, and returns its line.
int take_mark(std::string& text) {
  const std::size_t at = text.find('>');
  if (at == std::string::npos) return 0;
  text.erase(at, 1);
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<long>(at), '\n'));
}

class CaffeCases : public testing::Test {
 protected:
  void expect_refusal(std::string net, std::string solver, const std::string& what) {
    SCOPED_TRACE(net + "\n" + solver);
    const int of_net = take_mark(net), of_solver = take_mark(solver);
    put(folder_ / "n.prototxt", net);
    put(folder_ / "s.prototxt", solver);
    const Finished run =
        omni_run_fork({"--net", folder_ / "n.prototxt", "--solver", folder_ / "s.prototxt",
                       "--data", "synthetic:48:4", "--dry-run"});
    EXPECT_EQ(run.exit_code, 2) << run.errors;
    const std::string place = of_net > 0 ? fmt::format("/n.prototxt:{}", of_net)
                                         : fmt::format("/s.prototxt:{}", of_solver);
    EXPECT_NE(run.errors.find(place + ": " + what), std::string::npos)
        << "wanted: " << place << ": " << what << "\nsaid: " << run.errors;
  }
  TemporaryDirectory folder_;
};

// A layer that makes x; `rest` follows its name.
std::string caffe_layer(const std::string& rest, const std::string& bottom = "data") {
  return fmt::format("layer {{ name: 'it' bottom: '{}' top: 'x'\n {} }}\n", bottom, rest);
}

TEST_F(CaffeCases, the_parts_of_these_cases_are_sound) {
  put(folder_ / "n.prototxt", kData + caffe_layer("type: 'ReLU'") + kLoss);
  put(folder_ / "s.prototxt", kSolver);
  const Finished run =
      omni_run_fork({"--net", folder_ / "n.prototxt", "--solver", folder_ / "s.prototxt", "--data",
                     "synthetic:48:4", "--dry-run"});
  EXPECT_EQ(run.exit_code, 0) << run.errors;
}

TEST_F(CaffeCases, layers_are_refused_by_name) {
  const CaffeCase kCases[] = {
      {"> type: 'BatchNorm'",
       "layer 'it': BatchNorm layers are not supported (running averages are kept in another way "
       "here)"},
      {"> type: 'Scale' scale_param { bias_term: true }",
       "layer 'it': Scale layers are not supported"},
      {"> type: 'Deconvolution'", "layer 'it': Deconvolution layers are not supported"},
      {"> type: 'PReLU'", "layer 'it': PReLU layers are not supported"},
      {"> type: 'Python' python_param { module: 'os' }",
       "layer 'it': Python layers are not supported (no code of users is run)"},
      {"> type: 'LSTM'", "layer 'it': LSTM layers are not supported (it is recurrent)"},
      {"> type: 'EuclideanLoss'", "layer 'it': EuclideanLoss layers are not supported"},
      {"> type: 'Convolutoin'",
       "layer 'it': unknown type 'Convolutoin' (did you mean 'Convolution'?)"},
      {"type: 'Convolution' >convolution_param { kernel_size: 3 }",
       "layer 'it': has no num_output"},
      {"type: 'Convolution' >convolution_param { num_output: 3 }",
       "layer 'it': has no kernel_size"},
      {"type: 'Convolution' convolution_param {\n> num_output: 0 kernel_size: 3 }",
       "layer 'it': num_output: 0 is out of range (expected a whole number from 1 to 1048576)"},
      {"type: 'Convolution' convolution_param { num_output: 3\n> kernel_size: 3 kernel_size: 5 }",
       "layer 'it': kernel_size of 3 and 5 is not supported (height and width have to be equal)"},
      {"type: 'Convolution' convolution_param { num_output: 3\n> kernel_h: 3 }",
       "layer 'it': kernel_h and kernel_w come together"},
      {"type: 'Convolution' convolution_param { num_output: 3\n> kernel_size: 3 kernel_h: 3 "
       "kernel_w: 3 }",
       "layer 'it': kernel_size beside kernel_h or kernel_w"},
      {"type: 'Convolution' convolution_param { num_output: 3\n> kernel_size: 99 }",
       "layer 'it': a filter of 99 does not fit an input of 16x16"},
      {"type: 'Convolution' convolution_param { num_output: 4 kernel_size: 3\n> group: 2 }",
       "layer 'it': 2 groups do not divide 3 channels and 4 filters"},
      {"type: 'Convolution' convolution_param { num_output: 4 kernel_size: 3\n> axis: 2 }",
       "layer 'it': axis: 2 is not supported (filters are over height and width)"},
      {"type: 'InnerProduct' inner_product_param { num_output: 4\n> transpose: true }",
       "layer 'it': transpose: true is not supported"},
      {"type: 'InnerProduct' inner_product_param { num_output: 4 weight_filler {\n> type: "
       "'bilinear' } }",
       "layer 'it': filler 'bilinear' is not supported"},
      {"type: 'InnerProduct' inner_product_param { num_output: 4 weight_filler {\n> type: 'xavir' "
       "} }",
       "layer 'it': unknown filler 'xavir' (did you mean 'xavier'?)"},
      {"type: 'InnerProduct' inner_product_param { num_output: 4 weight_filler {\n> type: "
       "'uniform' } }",
       "layer 'it': uniform from 0 to 1 is not supported"},
      {"type: 'InnerProduct' inner_product_param { num_output: 4 weight_filler { type: "
       "'gaussian'\n> mean: "
       "1 } }",
       "layer 'it': mean: 1 is not supported"},
      {"type: 'InnerProduct' inner_product_param { num_output: 4 weight_filler { type: "
       "'gaussian'\n> std: "
       "nan } }",
       "layer 'it': std: nan is not a finite number"},
      {"type: 'InnerProduct' inner_product_param { num_output: 4 weight_filler { type: 'xavier'\n> "
       "variance_norm: FAN_OUT } }",
       "layer 'it': variance_norm: FAN_OUT is not supported"},
      {"type: 'InnerProduct' inner_product_param { num_output: 4 } param {\n> lr_mult: -1 }",
       "layer 'it': lr_mult: -1 is out of range"},
      {"type: 'InnerProduct' inner_product_param { num_output: 4 bias_term: false } param { "
       "}\n>param { }",
       "layer 'it': param: 2 values for 1 parameter (there is no bias)"},
      {"type: 'InnerProduct' inner_product_param { num_output: 4 } param { name: 'w' }\n>param { "
       "name: 'w' }",
       "layer 'it': shares the parameter 'w' (layers do not share parameters"},
      {"type: 'Pooling' pooling_param {\n> pool: STOCHASTIC kernel_size: 2 }",
       "layer 'it': pool: STOCHASTIC is not supported"},
      {"type: 'Pooling' pooling_param { kernel_size: 2\n> pad: 2 }",
       "layer 'it': pad: 2 makes windows without a pixel (at most 1 with this size)"},
      {"type: 'Pooling' pooling_param { kernel_size: 1\n> stride: 4 }",
       "layer 'it': the last window would have no pixel"},
      {"type: 'Pooling' pooling_param { global_pooling: true\n> kernel_size: 2 }",
       "layer 'it': kernel_size with global_pooling"},
      {"type: 'Pooling' pooling_param { global_pooling: true\n> stride: 2 }",
       "layer 'it': stride with global_pooling (remove one of them)"},
      {"type: 'Pooling' pooling_param { global_pooling: true\n> pad_h: 1 pad_w: 1 }",
       "layer 'it': pad_h with global_pooling"},
      {"type: 'LRN' lrn_param {\n> local_size: 4 }", "layer 'it': local_size: 4 is even"},
      {"type: 'LRN' lrn_param {\n> norm_region: WITHIN_CHANNEL }",
       "layer 'it': norm_region: WITHIN_CHANNEL is not supported"},
      {"type: 'ReLU' relu_param {\n> negative_slope: 0.2 }",
       "layer 'it': negative_slope: 0.2 is not supported (known: 0 and 0.1)"},
      {"type: 'ELU' elu_param {\n> alpha: 2 }", "layer 'it': alpha: 2 is not supported"},
      {"type: 'Dropout' dropout_param {\n> dropout_ratio: 1 }",
       "layer 'it': dropout_ratio: 1 is out of range"},
      {"type: 'Eltwise' bottom: 'data' eltwise_param {\n> operation: PROD }",
       "layer 'it': operation: PROD is not supported (known: SUM)"},
      {"type: 'Eltwise' bottom: 'data' eltwise_param {\n> coeff: 1 coeff: 2 coeff: 3 }",
       "layer 'it': 2 inputs but 3 coeff"},
      {"type: 'Concat' bottom: 'data' concat_param {\n> axis: 2 }",
       "layer 'it': axis: 2 is not supported (channels are joined)"},
      {"type: 'ReLU'\n> propagate_down: false",
       "layer 'it': propagate_down: false is not supported"},
      {"type: 'ReLU'\n> loss_weight: 1", "layer 'it': a loss_weight is not supported here"},
      {"type: 'ReLU'\n> include { phase: TEST }", "layer 'it': is only in the TEST phase"},
      {"type: 'ReLU'\n include {\n> stage: 'a' }", "layer 'it': stage: \"a\" is not supported"},
  };
  for (const CaffeCase& each : kCases)
    expect_refusal(kData + caffe_layer(each.text) + kLoss, kSolver, each.what);
}

TEST_F(CaffeCases, nets_are_refused_with_the_line) {
  const std::string relu = caffe_layer("type: 'ReLU'"), data = kData, loss = kLoss;
  const CaffeCase kCases[] = {
      {">", "no layers (is this the prototxt of a net?)"},
      {data + ">layer { name: 'it' bottom: 'none' type: 'ReLU' top: 'x' }\n" + loss,
       "layer 'it': no layer above makes 'none'"},
      {data + ">layer { name: 'it' bottom: 'label' type: 'ReLU' top: 'x' }\n" + loss,
       "layer 'it': reads the labels 'label' (they are for losses alone)"},
      {data + ">layer { name: 'it' type: 'ReLU' top: 'x' }\n" + loss,
       "layer 'it': has 0 bottoms (ReLU has 1)"},
      {data + ">layer { name: 'it' bottom: 'data' type: 'ReLU' }\n" + loss,
       "layer 'it': has 0 tops (ReLU has 1)"},
      {data + relu + ">layer { name: 'two' bottom: 'data' type: 'TanH' top: 'x' }\n" + loss,
       "layer 'two': a layer above makes 'x', too"},
      {data + relu + loss +
           ">layer { name: 'two' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'label' }\n",
       "layer 'two': is a second loss"},
      {data + relu +
           "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'label' loss_param {\n"
           "> ignore_label: 0 } }\n",
       "layer 'loss': ignore_label: 0 is not supported (every image has a label)"},
      {data + relu + loss +
           "layer { name: 'a' type: 'Accuracy' bottom: 's' bottom: 'label' accuracy_param {\n"
           "> ignore_label: 0 } }\n",
       "layer 'a': ignore_label: 0 is not supported (every image has a label)"},
      {data + relu + loss + "layer { name: 'late' type: 'ReLU' bottom: 's'\n>top: 's' }\n",
       "layer 'late': replaces 's', which the loss reads (give it another name, or move it above)"},
      {data + relu +
           "layer { name: 'p' type: 'Softmax' bottom: 'x' top: 'p' }\n"
           "layer { name: 'late' type: 'Dropout' bottom: 'x'\n>top: 'x' }\n",
       "layer 'late': replaces 'x', which Softmax reads"},
      {data + relu + loss +
           "layer { name: 'a' type: 'Accuracy' include { phase: TEST }\n>bottom: 'scores' bottom: "
           "'label' }\n",
       "layer 'a': no layer above makes 'scores'"},
      {data + relu + loss +
           "layer { name: 'a' type: 'Accuracy' include { phase: TEST } bottom: 's' bottom: "
           "'label'\n"
           "accuracy_param {\n>top_k: 3 } }\n",
       "layer 'a': top_k: 3 is not supported (known: 1 and 5)"},
      {data + relu + loss + "layer { name: 'q' type: 'Silence'\n>bottom: 'lable' }\n",
       "layer 'q': no layer above makes 'lable'"},
      {data + relu +
           ">layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'data' top: 'l' }\n",
       "layer 'loss': 'data' is no blob of labels"},
      {data + "layer { name: 'f' type: 'Flatten' bottom: 'data' top: 'f' }\n" +
           ">layer { name: 'it' type: 'LRN' bottom: 'f' top: 'x' }\n" + loss,
       "layer 'it': reads 'f', which was flattened"},
      {data +
           "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c'\n"
           " convolution_param { num_output: 2 kernel_size: 3 } }\n"
           "layer { name: 'it' type: 'Eltwise' top: 'x' >bottom: 'data' bottom: 'c' }\n" +
           loss,
       "layer 'it': its inputs are 16x16x3 and 14x14x2"},
      {">layer { name: 'd' type: 'Data' top: 'data' top: 'label' data_param { batch_size: 8 } }\n" +
           relu + loss,
       "layer 'd': the size of the images is not known (give crop_size"},
      {"layer { name: 'd' type: 'Data' top: 'data' top: 'label'\n"
       ">data_param { backend: LMDB } }\n" +
           relu + loss,
       "layer 'd': has no batch_size"},
      {"layer { name: 'd' type: 'Data' top: 'data' top: 'label' data_param { batch_size: 8 }\n"
       "transform_param { crop_size: 8\n> mean_file: 'mean.binaryproto' } }\n" +
           relu + loss,
       "layer 'd': mean_file: \"mean.binaryproto\" is not supported (give the mean of each "
       "channel, "
       "blue first, as mean_value)"},
      {"layer { name: 'd' type: 'Data' top: 'data' top: 'label' data_param { batch_size: 8 }\n"
       "transform_param { crop_size: 8\n> mean_value: 1 mean_value: 2 } }\n" +
           relu + loss,
       "layer 'd': 2 values of mean_value for images of 3 channels (give one, or one of each"},
      {"layer { name: 'd' type: 'ImageData' top: 'data' top: 'label' image_data_param {\n"
       "is_color: false batch_size: 8 } transform_param { crop_size: 8\n"
       ">mean_value: 1 mean_value: 2 mean_value: 3 } }\n" +
           relu + loss,
       "layer 'd': 3 values of mean_value for images of 1 channel"},
      {"layer { name: 'd' type: 'MemoryData' top: 'data' top: 'label' memory_data_param {\n"
       "batch_size: 8 channels: 4 height: 8 width: 8 } transform_param {\n> mean_value: 1 } }\n" +
           relu + loss,
       "layer 'd': mean_value with images of 4 channels"},
      {"layer { name: 'd' type: 'MemoryData' top: 'data' top: 'label' memory_data_param {\n"
       "batch_size: 8 channels: 1 height: 8 width: 8 } transform_param {\n> force_color: true } "
       "}\n" +
           relu + loss,
       "layer 'd': force_color with images of 1 channel (remove one of them)"},
      {"layer { name: 'd' type: 'ImageData' top: 'data' top: 'label' image_data_param {\n"
       "> new_height: 8 batch_size: 1 } }\n" +
           relu + loss,
       "layer 'd': new_height: 8 is not supported"},
      {data + ">layer { name: 'd' type: 'Data' top: 'e' data_param { batch_size: 8 } }\n" + relu +
           loss,
       "layer 'd': is a second layer of data in training"},
      {"layer { name: 'd' type: 'Input' top: 'data' top: 'label'\n"
       "input_param { shape { dim: 2 dim: 3 dim: 16 dim: 16 } }\n>transform_param { scale: 2 } "
       "}\n" +
           relu + loss,
       "layer 'd': Input layers have no transform_param (Caffe ignores it: it is for Data, "
       "ImageData and MemoryData)"},
      {"layer { name: 'd' type: 'DummyData' top: 'data' top: 'label' dummy_data_param {\n"
       "shape { dim: 2 dim: 3 dim: 16 dim: 16 } }\n>transform_param { mirror: true } }\n" +
           relu + loss,
       "layer 'd': DummyData layers have no transform_param"},
      {data + relu +
           "layer { name: 'e' type: 'ReLU' bottom: 'x' top: 'x'\n>transform_param { } }\n" + loss,
       "layer 'e': ReLU layers have no transform_param"},
      {"layer { name: 'd' type: 'Input' top: 'data' top: 'label'\n"
       "input_param { shape {\n> dim: 2 dim: 3 dim: 16 } } }\n" +
           relu + loss,
       "layer 'd': an input of 3 dimensions"},
      {relu + ">layers { name: 'o' type: RELU bottom: 'data' top: 'x' }\n", "layers beside layer"},
      {">layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 2 dim: 3 } } "
       "}\n",
       "no layer but data"},
  };
  for (const CaffeCase& each : kCases) expect_refusal(each.text, kSolver, each.what);
}

TEST_F(CaffeCases, tests_see_images_as_training_does) {
  const std::string rest = caffe_layer("type: 'ReLU'") + kLoss;
  const auto data = [](const char* phase, const std::string& transform) {
    return fmt::format(
        "layer {{ name: '{}' type: 'Data' top: 'data' top: 'label' include {{ phase: {} }}\n"
        "data_param {{ batch_size: 4 }}\n{} }}\n",
        phase, phase, transform);
  };
  const std::string train =
      data("TRAIN", "transform_param { crop_size: 16 scale: 0.5 mean_value: 9 mirror: true }");
  const CaffeCase kCases[] = {
      {"transform_param { scale: 0.5 mean_value: 9\n>crop_size: 12 }",
       "layer 'TEST': crop_size: 12 in tests, 16 in training (images are read alike"},
      {"\n>transform_param { crop_size: 16 mean_value: 9 }",
       "layer 'TEST': scale: 1 in tests, 0.5 in training"},
      {"transform_param { crop_size: 16 scale: 0.5\n>mean_value: 8 }",
       "layer 'TEST': mean_value: 8 in tests, 9 in training"},
      {"transform_param { crop_size: 16 scale: 0.5 mean_value: 9\n>force_gray: true }",
       "layer 'TEST': force_gray: true in tests, false in training"},
      {"transform_param { crop_size: 16 scale: 0.5 mean_value: 9\n>mirror: true }",
       "layer 'TEST': mirror: true in tests (tests take images as they are)"},
  };
  for (const CaffeCase& each : kCases) {
    expect_refusal(train + data("TEST", each.text) + rest, kSolver, each.what);
    expect_refusal(data("TEST", each.text) + train + rest, kSolver, each.what);
  }
  expect_refusal(train + ">" + data("TEST", "") + rest, kSolver,
                 "layer 'TEST': crop_size: 0 in tests, 16 in training");
}

TEST_F(CaffeCases, texts_are_refused_with_line_and_column) {
  const std::string good = kData + caffe_layer("type: 'ReLU'") + kLoss;
  struct {
    std::string text, what;
  } const kCases[] = {
      {"layer { name: 'a'\n", "n.prototxt:2:1: Expected identifier"},
      {good + "layer [\n", "n.prototxt:9:1: Expected \"{\""},
      {good + "name: 5\n", "n.prototxt:8:7: Expected string"},
      {good + "layer { nmae: 'a' type: 'ReLU' bottom: 's' top: 't' }\n",
       "n.prototxt:8:13: LayerParameter has no field 'nmae', or it is not supported (did you mean "
       "'name'?)"},
      {good + "layer { type: 'Pooling' bottom: 's' top: 't' pooling_param { pool: MEAN } }\n",
       "n.prototxt:8:73: Unknown enumeration value of \"MEAN\" for field \"pool\""},
      {good + "name: 'a' name: 'b'\n", "specified multiple times"},
      {good + "[foo.bar]: 3\n", "n.prototxt:8:2: Ignoring extension \"foo.bar\""},
      {std::string("a\0b", 3), "n.prototxt:1: a NUL byte"},
      {"\x7F"
       "ELF",
       "n.prototxt:1"},
  };
  put(folder_ / "s.prototxt", kSolver);
  for (const auto& each : kCases) {
    put(folder_ / "n.prototxt", each.text);
    const Finished run = omni_run_fork(
        {"--net", folder_ / "n.prototxt", "--solver", folder_ / "s.prototxt", "--dry-run"});
    EXPECT_EQ(run.exit_code, 2) << run.errors;
    EXPECT_NE(run.errors.find(each.what), std::string::npos)
        << "wanted: " << each.what << "\nsaid: " << run.errors;
  }
}

TEST_F(CaffeCases, solvers_are_refused_with_the_line) {
  const CaffeCase kCases[] = {
      {">lr_policy: 'fixed'", "has no base_lr"},
      {">base_lr: 1", "has no lr_policy"},
      {"base_lr: 1\n>lr_policy: 'stp'", "unknown lr_policy 'stp' (did you mean 'step'?)"},
      {"base_lr: 1\n>lr_policy: 'step' gamma: 1", "lr_policy step without stepsize"},
      {"base_lr: 1\n>lr_policy: 'inv' gamma: 1", "lr_policy inv without power"},
      {"base_lr: 1\n>lr_policy: 'poly' power: 1", "the policy poly needs a length"},
      {"base_lr: 1\nlr_policy: 'fixed'\n>type: 'Nesterov'",
       "the solver Nesterov is not supported (known: SGD Adam)"},
      {"base_lr: 1\nlr_policy: 'fixed'\n>type: 'AdaGrad'", "the solver AdaGrad is not supported"},
      {"base_lr: 1\nlr_policy: 'fixed'\n>solver_type: RMSPROP",
       "the solver RMSProp is not supported"},
      {"base_lr: 1\nlr_policy: 'fixed'\ntype: 'Adam'\n>solver_type: SGD",
       "solver_type beside type (remove it: it is the old form)"},
      {"base_lr: 1\nlr_policy: 'fixed'\n>type: 'adam'",
       "unknown solver 'adam' (did you mean 'Adam'?)"},
      {"base_lr: 1\nlr_policy: 'fixed'\n>clip_gradients: 10",
       "clip_gradients: 10 is not supported (gradients are not cut)"},
      {"base_lr: 1\nlr_policy: 'fixed'\n>regularization_type: 'L1'",
       "regularization_type 'L1' is not supported (known: L2)"},
      {"base_lr: 1\nlr_policy: 'fixed'\n>momentum: 1", "momentum: 1 is out of range"},
      {">base_lr: -1\nlr_policy: 'fixed'", "base_lr: -1 is out of range"},
      {"base_lr: 1\nlr_policy: 'fixed'\n>iter_size: 0", "iter_size: 0 is out of range"},
      {"base_lr: 1\nlr_policy: 'fixed'\n>train_net: 'a'", "train_net: \"a\" is not supported"},
      {"base_lr: 1\nlr_policy: 'fixed'\n>weights: 'a'",
       "weights: \"a\" is not supported (give --weights)"},
  };
  for (const CaffeCase& each : kCases)
    expect_refusal(kData + caffe_layer("type: 'ReLU'") + kLoss, each.text, each.what);
}

TEST_F(CaffeCases, the_command_line_is_refused_with_its_option) {
  put(folder_ / "n.prototxt", kData + caffe_layer("type: 'ReLU'") + kLoss);
  put(folder_ / "s.prototxt", kSolver);
  put(folder_ / "none.prototxt", "net: 'nowhere.prototxt'\n");
  const std::string net = folder_ / "n.prototxt", solver = folder_ / "s.prototxt";
  struct {
    std::vector<std::string> words;
    std::string what;
  } const kCases[] = {
      {{"--net", net, "--set", "base_lr=1"}, "--set base_lr=1: is not known without a solver"},
      {{"--net", net, "--set", "height=0"}, "--set height=0: is out of range"},
      {{"--net", net, "--solver", solver, "--set", "base_rl=1"}, "--set base_rl=1: unknown key"},
      {{"--net", net, "--solver", solver, "--set", "base_lr=x"},
       "--set base_lr=x:1:10: Expected double"},
      {{"--net", net, "--solver", solver, "--set", "momentum=2"},
       "command line: momentum: 2 is out of range"},
      {{"--net", net, "--solver", "no.prototxt"}, "--solver no.prototxt: no such solver"},
      {{"--net", "lenet", "--solver", solver}, "is no .prototxt"},
      {{"--net", "none.prototxt"}, "--net none.prototxt: no such net"},
      {{"--solver", folder_ / "none.prototxt"}, "none.prototxt:1: no such net: 'nowhere.prototxt'"},
      {{"--solver", solver}, "s.prototxt:1: names no net"},
  };
  for (const auto& each : kCases) {
    std::vector<std::string> words = each.words;
    words.emplace_back("--dry-run");
    const Finished run = omni_run_fork(words);
    EXPECT_EQ(run.exit_code, 2) << run.errors;
    EXPECT_NE(run.errors.find(each.what), std::string::npos)
        << "wanted: " << each.what << "\nsaid: " << run.errors;
  }
}

}  // namespace
}  // namespace omni::test
