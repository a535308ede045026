// These cases are prototxt files that are wrong, or that ask for what Omnivore does not support.
// omni-run ends with exit code 2 and names the file, the line and the layer.
#include "tests/error/caffe/caffe_cases.hpp"

namespace omni::test {
namespace {

TEST_F(CaffeCases, the_parts_of_these_cases_are_sound) {
  put(folder_ / "n.prototxt", kCaffeData + caffe_layer("type: 'ReLU'") + kCaffeLoss);
  put(folder_ / "s.prototxt", kCaffeSolver);
  const Finished run =
      omni_run_fork({"--net", folder_ / "n.prototxt", "--solver", folder_ / "s.prototxt", "--data",
                     "synthetic:48:4", "--dry-run"});
  EXPECT_EQ(run.exit_code, 0) << run.errors;
}

TEST_F(CaffeCases, layers_are_refused_by_name) {
  const CaffeCase kCases[] = {
      {"type: 'BatchNorm' batch_norm_param {\n> use_global_stats: false }",
       "layer 'it': use_global_stats: false is not supported (tests normalise by the averages: "
       "remove it, or set it to true)"},
      {"type: 'BatchNorm' batch_norm_param {\n> eps: 0 }", "layer 'it': eps: 0 is out of range"},
      {"type: 'BatchNorm' batch_norm_param {\n> moving_average_fraction: 1 }",
       "layer 'it': moving_average_fraction: 1 is out of range"},
      {"type: 'BatchNorm' param { lr_mult: 0 }\n>param { }",
       "layer 'it': lr_mult: 1 of an average (averages do not learn: set it to 0)"},
      {"type: 'BatchNorm' param { name: 'm' lr_mult: 0 }\n>param { name: 'm' lr_mult: 0 }",
       "layer 'it': shares the parameter 'm' (layers do not share parameters"},
      {"type: 'BatchNorm' param { lr_mult: 0 } param { lr_mult: 0 } param { lr_mult: 0 }\n>param { "
       "}",
       "layer 'it': param: 4 values for 3 parameters (the parameters are mean, variance and a "
       "factor)"},
      {"type: 'Scale' scale_param {\n> axis: 0 }",
       "layer 'it': axis: 0 is not supported (channels are scaled)"},
      {"type: 'Scale' scale_param {\n> num_axes: -1 }",
       "layer 'it': num_axes: -1 is not supported"},
      {"type: 'Scale' scale_param {\n> bias_filler { } }",
       "layer 'it': bias_filler without a bias (remove it, or add bias_term)"},
      {"type: 'Bias' param { }\n>param { }",
       "layer 'it': param: 2 values for 1 parameter (the bias is the only one)"},
      {"type: 'PReLU' param { }\n>param { }",
       "layer 'it': param: 2 values for 1 parameter (the slopes are the only ones)"},
      {"type: 'Slice' slice_param {\n> axis: 2 }",
       "layer 'it': axis: 2 is not supported (channels are divided)"},
      {"type: 'Slice' top: 'y' slice_param {\n> slice_point: 1 slice_point: 2 }",
       "layer 'it': 2 tops but 2 slice_point (each is the first channel of a top, but for the "
       "first"},
      {"type: 'Slice' top: 'y' top: 'z' slice_param { slice_point: 2\n> slice_point: 2 }",
       "layer 'it': slice_point: 2 is out of range (expected a whole number from 3 to"},
      {"type: 'Slice' top: 'y' slice_param {\n> slice_point: 3 }",
       "layer 'it': channels 3 to 2 of 3 (a part has at least one channel of the input)"},
      {"type: 'Slice'\n>top: 'data'", "layer 'it': a part of a blob cannot replace it"},
      {"type: 'Deconvolution' convolution_param { num_output: 4 kernel_size: 3\n> group: 2 }",
       "layer 'it': 2 groups do not divide 3 channels and 4 filters"},
      {"type: 'Deconvolution' convolution_param { num_output: 4 kernel_h: 2 kernel_w: 3\n> pad_h: "
       "1 "
       "pad_w: 9 }",
       "layer 'it': padding of 9x1 leaves nothing of 18x17"},
      {"type: 'Convolution' convolution_param { num_output: 3 kernel_h: 3 kernel_w: 1 "
       "weight_filler "
       "{\n> type: 'bilinear' } }",
       "layer 'it': filler bilinear with filters that are no squares"},
      {"> type: 'Python' python_param { module: 'os' }",
       "layer 'it': Python layers are not supported (no code of users is run)"},
      {"> type: 'LSTM'", "layer 'it': LSTM layers are not supported (it is recurrent)"},
      {"> type: 'ContrastiveLoss'",
       "layer 'it': ContrastiveLoss layers are not supported (labels are read by SoftmaxWithLoss"},
      {"> type: 'Convolutoin'",
       "layer 'it': unknown type 'Convolutoin' (did you mean 'Convolution'?)"},
      {"type: 'Convolution' >convolution_param { kernel_size: 3 }",
       "layer 'it': has no num_output"},
      {"type: 'Convolution' >convolution_param { num_output: 3 }",
       "layer 'it': has no kernel_size"},
      {"type: 'Convolution' convolution_param {\n> num_output: 0 kernel_size: 3 }",
       "layer 'it': num_output: 0 is out of range (expected a whole number from 1 to 1048576)"},
      {"type: 'Convolution' convolution_param { num_output: 3 kernel_size: 1 kernel_size: 2\n> "
       "kernel_size: 3 }",
       "layer 'it': kernel_size of 3 dimensions (images have height and width)"},
      {"type: 'Convolution' convolution_param { num_output: 3\n> kernel_h: 3 kernel_w: 20 }",
       "layer 'it': a filter of 20x3 does not fit an input of 16x16"},
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
       "'uniform' min: 2 } }",
       "layer 'it': uniform from 2 to 1 (swap them)"},
      {"type: 'InnerProduct' inner_product_param { num_output: 4 weight_filler { type: "
       "'xavier'\n> sparse: 1 } }",
       "layer 'it': sparse with the filler 'xavier' (it is for gaussian)"},
      {"type: 'InnerProduct' inner_product_param { num_output: 4 weight_filler { type: "
       "'gaussian'\n> sparse: 0 } }",
       "layer 'it': sparse: 0 makes every value 0"},
      {"type: 'InnerProduct' inner_product_param { num_output: 4 weight_filler { type: "
       "'gaussian'\n> std: "
       "nan } }",
       "layer 'it': std: nan is not a finite number"},
      {"type: 'InnerProduct' inner_product_param { num_output: 4 weight_filler { type: "
       "'gaussian'\n> "
       "mean: inf } }",
       "layer 'it': mean: inf is not a finite number"},
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
      {"type: 'Pooling' pooling_param { kernel_h: 4 kernel_w: 2 pad_h: 2\n> pad_w: 2 }",
       "layer 'it': pad_w: 2 makes windows without a pixel (at most 1 with this size)"},
      {"type: 'Pooling' pooling_param { kernel_size: 4\n> pad_h: 2 }",
       "layer 'it': pad_h and pad_w come together (give both)"},
      {"type: 'Pooling' pooling_param { kernel_size: 1\n> stride: 4 }",
       "layer 'it': the last window would have no pixel"},
      {"type: 'Pooling' pooling_param { global_pooling: true\n> kernel_size: 2 }",
       "layer 'it': kernel_size with global_pooling"},
      {"type: 'Pooling' pooling_param { global_pooling: true\n> stride: 2 }",
       "layer 'it': stride with global_pooling (remove one of them)"},
      {"type: 'Pooling' pooling_param { global_pooling: true\n> pad_h: 1 pad_w: 1 }",
       "layer 'it': pad_h with global_pooling"},
      {"type: 'LRN' lrn_param {\n> local_size: 4 }", "layer 'it': local_size: 4 is even"},
      {"type: 'LRN' lrn_param { norm_region: WITHIN_CHANNEL\n> k: 2 }",
       "layer 'it': k: 2 within a channel (Caffe takes 1 there: remove it)"},
      {"type: 'LRN' lrn_param { norm_region: WITHIN_CHANNEL\n> local_size: 257 }",
       "layer 'it': local_size: 257 is out of range (expected a whole number from 1 to 255)"},
      {"type: 'ReLU' relu_param {\n> negative_slope: 1e7 }",
       "layer 'it': negative_slope: 10000000 is out of range"},
      {"type: 'ELU' elu_param {\n> alpha: 1e7 }", "layer 'it': alpha: 10000000 is out of range"},
      {"type: 'Split'\n>top: 'data'", "layer 'it': a copy of a blob cannot replace it"},
      {"type: 'Reshape' reshape_param { shape { dim: 0 dim: -1 }\n> axis: 1 }",
       "layer 'it': axis: 1 is not supported (whole images are flattened)"},
      {"type: 'Dropout' dropout_param {\n> dropout_ratio: 1 }",
       "layer 'it': dropout_ratio: 1 is out of range"},
      {"type: 'Eltwise' bottom: 'data' eltwise_param { operation: MAX\n> coeff: 1 coeff: 2 }",
       "layer 'it': coeff with operation: MAX (it is for operation: SUM)"},
      {"type: 'Eltwise' bottom: 'data' eltwise_param { operation: PROD\n> coeff: 1 coeff: 2 }",
       "layer 'it': coeff with operation: PROD (it is for operation: SUM)"},
      {"type: 'Eltwise' bottom: 'data' eltwise_param {\n> coeff: 1 coeff: 2 coeff: 3 }",
       "layer 'it': 2 inputs but 3 coeff"},
      {"type: 'Concat' bottom: 'data' concat_param {\n> axis: 2 }",
       "layer 'it': axis: 2 is not supported (channels are joined)"},
      {"type: 'Concat' bottom: 'data' concat_param {\n> concat_dim: 2 }",
       "layer 'it': concat_dim: 2 is not supported (channels are joined)"},
      {"type: 'Slice' slice_param {\n> slice_dim: 2 }",
       "layer 'it': slice_dim: 2 is not supported (channels are divided)"},
      {"type: 'InnerProduct' inner_product_param { num_output: 4\n> axis: 2 }",
       "layer 'it': axis: 2 is not supported (every output depends on the whole image)"},
      {"type: 'Bias' bias_param {\n> axis: 0 }",
       "layer 'it': axis: 0 is not supported (each channel has a bias)"},
      {"type: 'Bias' bias_param {\n> num_axes: 2 }",
       "layer 'it': num_axes: 2 is not supported (each channel has a bias)"},
      {"type: 'Flatten' flatten_param {\n> axis: 2 }",
       "layer 'it': axis: 2 is not supported (whole images are flattened)"},
      {"type: 'Flatten' flatten_param {\n> end_axis: 2 }",
       "layer 'it': end_axis: 2 is not supported (whole images are flattened)"},
      {"type: 'ReLU'\n> phase: TEST",
       "layer 'it': phase: TEST is not supported (include and exclude say in which phase"},
      {"> type: 'InfogainLoss'", "layer 'it': InfogainLoss layers are not supported"},
      {"> type: 'Embed'", "layer 'it': Embed layers are not supported (docs/caffe.md lists what"},
      {"type: 'ReLU'\n> propagate_down: false",
       "layer 'it': propagate_down: false is not supported"},
      {"type: 'ReLU'\n> loss_weight: 1", "layer 'it': a loss_weight is not supported here"},
      {"type: 'ReLU'\n> include { phase: TEST }", "layer 'it': is only in the TEST phase"},
      {"type: 'ReLU'\n> include { phase: TEST stage: 'a' } include { phase: TRAIN }",
       "layer 'it': is only in the TRAIN phase"},
  };
  for (const CaffeCase& each : kCases)
    expect_refusal(kCaffeData + caffe_layer(each.text) + kCaffeLoss, kCaffeSolver, each.what);
}

TEST_F(CaffeCases, nets_are_refused_with_the_line) {
  const std::string relu = caffe_layer("type: 'ReLU'"), data = kCaffeData, loss = kCaffeLoss,
                    ip = loss.substr(0, loss.find("layer { name: 'loss'"));
  const CaffeCase kCases[] = {
      {">", "no layers (is this the prototxt of a net?)"},
      {data + ">layer { name: 'it' bottom: 'none' type: 'ReLU' top: 'x' }\n" + loss,
       "layer 'it': no layer above makes 'none'"},
      {data + ">layer { name: 'it' bottom: 'label' type: 'ReLU' top: 'x' }\n" + loss,
       "layer 'it': reads the labels 'label' (they are for losses alone)"},
      {data +
           ">layer { name: 'it' type: 'Reshape' bottom: 'data' top: 'x' reshape_param {\n"
           " shape { dim: 0 dim: 48 dim: 16 } } }\n" +
           loss,
       "layer 'it': makes another shape than a vector of each image (as in shape { dim: 0 dim: -1"},
      {data + ">layer { name: 'it' type: 'ReLU' top: 'x' }\n" + loss,
       "layer 'it': has 0 bottoms (ReLU has 1)"},
      {data + ">layer { name: 'it' bottom: 'data' type: 'ReLU' }\n" + loss,
       "layer 'it': has 0 tops (ReLU has 1)"},
      {data + relu + ">layer { name: 'two' bottom: 'data' type: 'TanH' top: 'x' }\n" + loss,
       "layer 'two': a layer above makes 'x', too"},
      {data + relu + loss +
           "layer { name: 'two' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'label'\n"
           "> loss_weight: -1 }\n",
       "layer 'two': loss_weight: -1 is out of range"},
      {data + relu + ">layer { name: 'p' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'label' }\n",
       "layer 'p': a distribution for each of 16x16 pixels is not supported"},
      {data + relu + ">layer { name: 'p' type: 'Softmax' bottom: 'x' top: 'p' }\n" + loss,
       "layer 'p': reads another blob than the loss"},
      {data + ">layer { name: 'it' type: 'Slice' bottom: 'data' top: 'x' top: 'y' }\n" + loss,
       "layer 'it': 3 channels are not divisible by 2 (say where the parts begin)"},
      {data + relu + ">layer { name: 'loss' type: 'HingeLoss' bottom: 'x' bottom: 'label' }\n",
       "layer 'loss': a hinge loss of 16x16 pixels (it is of one value per class: read an"},
      {data + relu +
           "layer { name: 'p' type: 'Power' bottom: 'x' top: 'y' power_param {\n>scale: nan } }\n" +
           loss,
       "layer 'p': scale: nan is not a finite number"},
      {data + relu + loss +
           "layer { name: 'a' type: 'Accuracy' bottom: 's' bottom: 'label' }\n"
           "layer { name: 'b' type: 'Accuracy' bottom: 's' bottom: 'label' accuracy_param {\n"
           "> ignore_label: 0 } }\n",
       "layer 'b': ignores another label than the Accuracy above (right answers are counted once"},
      {data + relu + ip +
           "layer { name: 'loss' type: 'HingeLoss' bottom: 's' bottom: 'label' }\n"
           "layer { name: 'a' type: 'Accuracy' bottom: 's' bottom: 'label' accuracy_param {\n"
           "> ignore_label: 0 } }\n",
       "layer 'a': ignore_label beside a HingeLoss (only SoftmaxWithLoss leaves labels out)"},
      {data + relu + ip +
           "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'label' top: 'l'\n"
           "> loss_weight: 1 loss_weight: 2 }\n",
       "layer 'loss': 2 values of loss_weight for 1 top (each top has one)"},
      {data + relu + ip +
           "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'label' top: 'l'\n"
           "> loss_weight: 1 top: 'p' }\n",
       "layer 'loss': 1 value of loss_weight for 2 tops (each top has one)"},
      {data + relu + ip +
           "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'label' top: 'l'\n"
           "top: 'p' loss_weight: 1\n> loss_weight: 2 }\n",
       "layer 'loss': a loss_weight of probabilities (only the first top is a loss: set it to 0)"},
      {data + relu + ip +
           "layer { name: 'loss' type: 'HingeLoss' bottom: 's' bottom: 'label' top: 'l'\n"
           "> top: 'p' }\n",
       "layer 'loss': has 2 tops (the loss is the only one)"},
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
      {data + relu + loss +
           "layer { name: 'a' type: 'Accuracy' bottom: 's' bottom: 'label' accuracy_param {\n"
           "> axis: 2 } }\n",
       "layer 'a': axis: 2 is not supported (an image has one label)"},
      {data + relu + ip +
           "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'label'\n"
           "softmax_param {\n> axis: 0 } }\n",
       "layer 'loss': axis: 0 is not supported (it is over the classes of an image)"},
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
       "layer 'd': no such mean_file: 'mean.binaryproto' (its path is relative"},
      {"layer { name: 'd' type: 'Data' top: 'data' top: 'label' data_param { batch_size: 8 }\n"
       "transform_param { crop_size: 8 mean_file: 'mean.binaryproto'\n> mean_value: 1 } }\n" +
           relu + loss,
       "layer 'd': mean_value with mean_file (remove one of them)"},
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
      {data + ">layer { name: 'd' type: 'Data' top: 'data' data_param { batch_size: 8 } }\n" +
           relu + loss,
       "layer 'd': a layer above makes 'data', too (give it another name)"},
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
  for (const CaffeCase& each : kCases) expect_refusal(each.text, kCaffeSolver, each.what);
}

TEST_F(CaffeCases, tests_see_images_as_training_does) {
  const std::string rest = caffe_layer("type: 'ReLU'") + kCaffeLoss;
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
    expect_refusal(train + data("TEST", each.text) + rest, kCaffeSolver, each.what);
    expect_refusal(data("TEST", each.text) + train + rest, kCaffeSolver, each.what);
  }
  const auto files = [](const char* phase, const char* more) {
    return fmt::format(
        "layer {{ name: '{}' type: 'ImageData' top: 'data' top: 'label' include {{ phase: {} }}\n"
        "transform_param {{ crop_size: 16 }}\n image_data_param {{ batch_size: 4\n{} }} }}\n",
        phase, phase, more);
  };
  expect_refusal(files("TRAIN", "") + files("TEST", ">is_color: false") + rest, kCaffeSolver,
                 "layer 'TEST': is_color: false in tests, true in training");
  expect_refusal(train + ">" + data("TEST", "") + rest, kCaffeSolver,
                 "layer 'TEST': crop_size: 0 in tests, 16 in training");
}

}  // namespace
}  // namespace omni::test
