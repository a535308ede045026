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

// One picture is a link to a file in each rank's own folder. It has the same size on both ranks.
TEST_F(UnlikeNodes, are_refused_if_a_picture_differs) {
  const std::filesystem::path link = folder_ / "photos" / "train" / "b" / "9.ppm";
  std::filesystem::create_symlink("/proc/self/cwd/own.ppm", link);
  const Words first = rank("first", {}), second = rank("second", {});
  picture(folder_ / "first" / "own.ppm", 50);
  picture(folder_ / "second" / "own.ppm", 51);
  const Finished unlike = on_two_unlike(first, second);
  EXPECT_EQ(unlike.exit_code, 2) << unlike.errors;
  EXPECT_NE(unlike.errors.find("9.ppm' has other contents there than on a lower rank"),
            std::string::npos)
      << unlike.errors;
  picture(folder_ / "second" / "own.ppm", 50);
  const Finished alike = on_two_unlike(first, second);
  EXPECT_EQ(alike.exit_code, 0) << alike.errors;
}

TEST_F(UnlikeNodes, leave_no_copies_if_one_has_no_room) {
  std::filesystem::create_directory(folder_ / "room");
  const Finished run =
      on_two_unlike(rank("first", {"-env", "TMPDIR", folder_ / "room"}, {"--stage"}),
                    rank("second", {"-env", "TMPDIR", folder_ / "nowhere"}, {"--stage"}));
  EXPECT_EQ(run.exit_code, 2) << run.errors;
  EXPECT_NE(run.errors.find("error: rank 1 on "), std::string::npos) << run.errors;
  EXPECT_NE(run.errors.find("nowhere: cannot hold copies"), std::string::npos) << run.errors;
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "room"));
}

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

// Over TCP, as between hosts, a rank sends without asking the receiver. The first rank must not get
// all models at once: they have three times 24 MiB here, and as much for the optimizer's state.
TEST_F(UnlikeNodes, save_without_a_copy_of_all_models) {
  put(folder_ / "wide.cfg", test::net(8, {8, 8, 3}, "learning_rate=0.001\nmomentum=0.9\n") +
                                connected(2048) + connected(2816) + connected(10) +
                                layer("softmax"));
  setenv("UCX_TLS", "tcp,self", 1);
  setenv("UCX_RNDV_THRESH", "inf", 1);
  const std::string net = folder_ / "wide.cfg";
  Words words{"--net", net, "--data", "synthetic:160:10", "--workers", "1", "--no-test"};
  for (const char* word : {"--strategy", "local", "--groups", "4", "--sync-every", "2",
                           "--max-batches", "8", "--checkpoint-every", "4"})
    words.emplace_back(word);
  words.insert(words.end(), {"--models", folder_ / "models", "--out", folder_ / "run"});
  const Finished run = on_ranks(4, std::move(words));
  unsetenv("UCX_TLS");
  unsetenv("UCX_RNDV_THRESH");
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const int planned = number_after(run.errors, "memory: "),
            most = number_after(run.errors.substr(run.errors.find("MiB planned")), "memory: ");
  EXPECT_GT(planned, 150) << run.errors;
  EXPECT_LT(most, planned + 72) << "a model of each other rank: " << run.errors;
}

}  // namespace
}  // namespace omni::test
