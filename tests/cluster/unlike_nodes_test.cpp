// These tests start ranks on nodes that differ: other pictures, no room for copies. They also check
// a stop before the first iteration, and the first rank's memory when it saves.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/cluster/ranks.hpp"
#include "tests/support/net_text.hpp"

namespace omni::test {
namespace {

class UnlikeNodes : public testing::Test {
 protected:
  UnlikeNodes() {
    put(folder_ / "small.cfg",
        test::net(4, {8, 8, 3}, "learning_rate=0.01\n") + connected(2) + layer("softmax"));
    for (const char* label : {"a", "b"})
      for (int i = 0; i < 8; ++i)
        picture(folder_ / "photos" / "train" / label / (std::to_string(i) + ".ppm"), 40 + i);
  }
  static void picture(const std::filesystem::path& path, int value) {
    std::filesystem::create_directories(path.parent_path());
    put(path, "P6 8 8 255\n" + std::string(8 * 8 * 3, static_cast<char>(value)));
  }
  Words training() {
    return {"--net",    folder_ / "small.cfg", "--data", folder_ / "photos", "--workers",
            "1",        "--max-batches",       "2",      "--models",         folder_ / "models",
            "--no-test"};
  }
  // Returns the words of a rank in a folder of its own, with options of mpiexec before the program.
  Words rank(const char* name, Words options, const Words& more = {}) {
    std::filesystem::create_directories(folder_ / name);
    options.insert(options.end(), {"-wdir", folder_ / name, kOmniRun});
    for (const Words& words : {training(), more})
      options.insert(options.end(), words.begin(), words.end());
    return options;
  }

  TemporaryDirectory folder_;
};

// A signal to one rank ends all, whether or not an iteration is already under way.
TEST_F(UnlikeNodes, stop_with_the_code_of_a_stop_before_the_first_iteration) {
  for (const int who : {0, 3}) {
    const std::string errors = folder_ / ("errors" + std::to_string(who));
    Words words = training();
    words[7] = "1000000";
    words.insert(words.end(), {"--out", folder_ / ("run" + std::to_string(who))});
    const pid_t job = start_program(mpiexec(4, words), "/dev/null", errors);
    wait_for_text(errors, "mini-batch: ");
    kill(process_of_rank(who, "small.cfg"), SIGTERM);
    EXPECT_EQ(wait_for_program(job), 75) << get(errors);
  }
}

}  // namespace
}  // namespace omni::test
