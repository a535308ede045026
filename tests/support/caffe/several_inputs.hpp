// These are two nets with several inputs for the tests of trainings.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/support/temporary_directory.hpp"

namespace omni::test {

// Returns the words of a training of two towers: images and vectors, with own weights each.
inline std::vector<std::string> two_towers(const TemporaryDirectory& folder) {
  put(folder / "towers.cfg",
      "[net]\nbatch=16\nheight=9\nwidth=7\nchannels=1\nflip=1\nlearning_rate=0.05\n"
      "momentum=0.9\nmax_batches=120\n"
      "[convolutional]\nfilters=6\nsize=3\nactivation=relu\n"
      "[connected]\noutput=8\nactivation=relu\n"
      "[input]\nname=facts\ninputs=5\n"
      "[connected]\noutput=8\nactivation=relu\n"
      "[route]\nlayers=1,3\n"
      "[connected]\noutput=3\nactivation=linear\n"
      "[softmax]\n");
  const auto facts = [&](const char* file, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      text += std::to_string(i % 3);
      for (int f = 1; f <= 5; ++f)
        text += fmt::format(" {}:{}", f, ((i % 3 * f * 37 + i * 11) % 100) / 100.0);
      text += "\n";
    }
    put(folder / file, text);
    return (folder / file).string();
  };
  return {"--net",  folder / "towers.cfg",
          "--data", "data=synthetic:96:3",
          "--data", "facts=" + facts("train.svm", 96) + "," + facts("test.svm", 19)};
}

// Returns the words of a training whose target is a second input, and whose loss has no classes.
inline std::vector<std::string> denoiser(const TemporaryDirectory& folder) {
  put(folder / "n.prototxt",
      "layer { name: 'd' type: 'MemoryData' top: 'noisy' transform_param { scale: 0.004 }\n"
      "  memory_data_param { batch_size: 16 channels: 3 height: 6 width: 5 } }\n"
      "layer { name: 't' type: 'MemoryData' top: 'clean' transform_param { scale: 0.004 }\n"
      "  memory_data_param { batch_size: 16 channels: 3 height: 6 width: 5 } }\n"
      "layer { name: 'e' type: 'InnerProduct' bottom: 'noisy' top: 'e' inner_product_param {\n"
      "  num_output: 12 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 's' type: 'Sigmoid' bottom: 'e' top: 'e' }\n"
      "layer { name: 'o' type: 'InnerProduct' bottom: 'e' top: 'o' inner_product_param {\n"
      "  num_output: 90 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'cross' type: 'SigmoidCrossEntropyLoss' bottom: 'o' bottom: 'clean' }\n"
      "layer { name: 'p' type: 'Sigmoid' bottom: 'o' top: 'p' }\n"
      "layer { name: 'square' type: 'EuclideanLoss' bottom: 'p' bottom: 'clean' loss_weight: 0.5 "
      "}\n");
  put(folder / "s.prototxt",
      "net: 'n.prototxt'\nbase_lr: 0.01\nmomentum: 0.9\nlr_policy: 'fixed'\nmax_iter: 40\n");
  return {"--solver", folder / "s.prototxt", "--data", "synthetic:96:3"};
}

}  // namespace omni::test
