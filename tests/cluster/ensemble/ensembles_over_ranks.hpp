// EnsemblesOverRanks is the fixture of tests that train the members of an ensemble over ranks.
#pragma once

#include <gtest/gtest.h>

#include <sstream>

#include "tests/cluster/ranks.hpp"
#include "tests/support/net_text.hpp"

namespace omni::test {

inline Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class EnsemblesOverRanks : public testing::Test {
 protected:
  EnsemblesOverRanks() {
    put(file("small.cfg"),
        net(6, {8, 8, 1}, kSgd) + convolutional(4, "relu") + connected(3) + layer("softmax"));
    put(file("wide.cfg"),
        net(10, {8, 8, 1}, kSgd) + connected(9, "tanh") + connected(3) + layer("softmax"));
    put(file("members"), "--net " + file("small.cfg") + " --seed 7 --name seven\n--net " +
                             file("wide.cfg") + " --strategy sma --groups 2\n");
  }
  std::string file(const std::string& name) const { return folder_ / name; }
  Words all() const {
    return {"--data", "synthetic:60:3",  "--max-batches", "60", "--test-every",
            "30",     "--deterministic", "--workers",     "1"};
  }
  // Four members train. The last member uses 600 samples, the other members 360.
  Words ensemble(const std::string& out) const {
    return Words{"ensemble", "--net",  file("small.cfg") + ":2", "--members", file("members"),
                 "--out",    file(out)} +
           all();
  }
  void expect_equal(const std::filesystem::path& one, const std::filesystem::path& other) const {
    for (const char* name : {"small-1", "small-2", "seven", "wide"}) {
      const std::string weights = get(one / name / "net.weights");
      EXPECT_FALSE(weights.empty()) << name;
      EXPECT_TRUE(weights == get(other / name / "net.weights")) << name;
    }
  }
  static std::vector<int> numbers_after(const std::string& text, const std::string& words) {
    const std::size_t at = text.find(words);
    std::vector<int> numbers;
    if (at == std::string::npos) return numbers;
    std::istringstream rest(text.substr(at + words.size()));
    for (int number = 0; rest >> number;) numbers.push_back(number);
    return numbers;
  }

  TemporaryDirectory folder_;
};

}  // namespace omni::test
