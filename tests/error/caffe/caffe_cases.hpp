// The tests of prototxt files that are refused share these functions.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/support/omni_run_fork.hpp"

namespace omni::test {

struct CaffeCase {
  std::string text;  // lines of the file; the one that is named begins with '>'
  std::string what;  // what follows the line's number
};

// A case's layers stand between the data layer and the loss layers. The solver file is the same for
// most cases.
inline constexpr const char* kCaffeData =
    "layer { name: 'data' type: 'Input' top: 'data' top: 'label'\n"
    "  input_param { shape { dim: 2 dim: 3 dim: 16 dim: 16 } } }\n";
inline constexpr const char* kCaffeLoss =
    "layer { name: 's' type: 'InnerProduct' bottom: 'x' top: 's'\n"
    "  inner_product_param { num_output: 4 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'label' }\n";
inline constexpr const char* kCaffeSolver = "base_lr: 0.1\nlr_policy: 'fixed'\nmax_iter: 5\n";

// Removes the mark '>' from the text, and returns the number of its line, or 0 without a mark.
inline int take_mark(std::string& text) {
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

// Returns a layer with output 'x', whose other fields are `rest`.
inline std::string caffe_layer(const std::string& rest, const std::string& bottom = "data") {
  return fmt::format("layer {{ name: 'it' bottom: '{}' top: 'x'\n {} }}\n", bottom, rest);
}

}  // namespace omni::test
