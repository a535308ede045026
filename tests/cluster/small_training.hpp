// SmallTraining trains a small net over two ranks, with the same bits each time.
#pragma once

#include <fmt/format.h>

#include <string>

#include "tests/cluster/ranks.hpp"
#include "tests/support/deterministic_session.hpp"
#include "tests/support/net_text.hpp"

namespace omni::test {

inline constexpr int kHalf = 4;  // images of one rank
inline const std::string kPlainLayers =
    convolutional(20, "tanh") + connected(10, "tanh") + connected(3) + layer("softmax");

class SmallTraining : public DeterministicSession {
 protected:
  Words training(const std::string& net, int iterations, Words more) {
    Words words{"--net",         net,
                "--data",        "synthetic:60:3",
                "--seed",        "1",
                "--models",      folder_ / "models",
                "--workers",     "1",
                "--slice",       slice_,
                "--no-test",     "--deterministic",
                "--max-batches", std::to_string(iterations)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::string net_of(int batch) {
    const std::string path = folder_ / fmt::format("batch{}.cfg", batch);
    put(path, test::net(batch, {8, 8, 1}, kSgd) + kPlainLayers);
    return path;
  }
  // Returns the file with the weights of a training over two ranks.
  std::string trained(const std::string& net, int iterations, Words more,
                      const char* name = "weights") {
    const std::string weights = folder_ / name;
    more.insert(more.end(), {"--save-weights", weights});
    const Finished run = on_ranks(2, training(net, iterations, std::move(more)));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return weights;
  }

  std::string slice_ = "2";
};

}  // namespace omni::test
