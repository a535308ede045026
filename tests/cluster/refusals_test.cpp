// These tests end trainings over several ranks by refusals, by errors of one rank, and by killed
// ranks.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>

#include "tests/cluster/ranks.hpp"

namespace omni::test {
namespace {

Words refused_net(const std::string& iterations, Words more = {}) {
  Words words{"--net",   "mlp", "--data",        "synthetic:256:10", "--workers", "1",
              "--batch", "16",  "--max-batches", iterations,         "--no-test"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::size_t count(const std::string& text, const std::string& words) {
  std::size_t found = 0;
  for (std::size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1))
    ++found;
  return found;
}

// Expects that the run was refused with this exit code and this text, which is printed once.
void expect_refused(const Finished& run, int code, const std::string& text) {
  EXPECT_EQ(run.exit_code, code) << run.errors;
  EXPECT_EQ(count(run.errors, "error: "), 1u) << run.errors;
  EXPECT_NE(run.errors.find(text), std::string::npos) << run.errors;
}

TEST(RanksRefuse, what_works_on_one_rank_only) {
  expect_refused(on_ranks(2, refused_net("2", {"--groups", "2"})), 2,
                 "--fc merged: all layers would be on the first rank");
  expect_refused(on_ranks(2, {"--net", "lenet", "--batch", "16", "--max-batches", "2", "--groups",
                              "2", "--subdivisions", "2", "--no-test"}),
                 2, "--subdivisions: merged layers of several ranks take whole mini-batches");
  expect_refused(on_ranks(2, refused_net("2", {"--strategy", "sma", "--group-layout", "0:0;2:0"})),
                 2, "--group-layout: '2:0' does not begin with rank 0, or 1");
  expect_refused(on_ranks(2, refused_net("2", {"--set", "clip_gradients=1"})), 2,
                 "clip_gradients needs the whole gradient, of which each rank has a part");
  expect_refused(on_ranks(2, {"layers"}), 2,
                 "omni-run layers: only trainings, ensembles, devices and plan");
  expect_refused(on_ranks(3, {"--net", "mlp", "--batch", "2", "--no-test"}), 2,
                 "3 ranks cannot share 2 images");
  expect_refused(on_ranks(3, refused_net("2", {"--deterministic", "--slice", "8"})), 2,
                 "3 ranks cannot share slices of 8 of 16 images (--slice 5, say)");
  expect_refused(on_ranks(2, refused_net("2", {"--deterministic", "--slice", "16"})), 2,
                 "2 ranks cannot share slices of 16 of 16 images (--slice 8, say)");
  expect_refused(on_ranks(2, {"--net", "lenet", "--batch", "8", "--no-test", "--deterministic"}), 2,
                 "2 ranks cannot share slices of 8 of 8 images (--slice 4, say)");
  expect_refused(on_ranks(2, refused_net("2", {"--group-layout", "0-1:0"})), 2,
                 "--group-layout: one group is on all ranks");
}

// If several ranks exited with 2 one after another, mpiexec would often return 9.
TEST(RanksRefuse, with_the_same_code_every_time) {
  for (int i = 0; i < 8; ++i) {
    const Finished run = on_ranks(4, refused_net("2", {"--groups", "2"}));
    EXPECT_EQ(run.exit_code, 2) << run.errors;
    EXPECT_EQ(run.errors.find("Abort"), std::string::npos) << run.errors;
  }
}

TEST(RanksRefuse, ranks_that_differ) {
  Words first = refused_net("2"), second = refused_net("2", {"--learning-rate", "0.5"});
  first.insert(first.begin(), kOmniRun);
  second.insert(second.begin(), kOmniRun);
  expect_refused(on_two_unlike(first, second), 2, ": the command line is --net mlp");
}

// Both ranks have the same command but different folders, in which the net's file differs.
TEST(RanksRefuse, nets_that_differ) {
  const TemporaryDirectory folder;
  const auto rank = [&](const char* name, const std::string& rate) {
    std::filesystem::create_directory(folder / name);
    put(folder / name / "own.cfg",
        "[net]\nbatch=8\ninputs=4\nlearning_rate=" + rate + "\n[connected]\noutput=2\n[softmax]\n");
    return Words{"-wdir", folder / name, kOmniRun, "--net", "own.cfg", "--max-batches", "2"};
  };
  expect_refused(on_two_unlike(rank("a", "0.1"), rank("b", "0.2")), 2, ": the net description is");
}

// Ranks exchange what they compare in rounds, whose number depends on that of the ranks.
TEST(RanksRefuse, a_net_that_differs_on_one_of_several) {
  const TemporaryDirectory folder;
  for (const auto& [name, rate] : {std::pair("a", "0.1"), std::pair("b", "0.2")}) {
    std::filesystem::create_directory(folder / name);
    put(folder / name / "own.cfg", std::string("[net]\nbatch=8\ninputs=4\nlearning_rate=") + rate +
                                       "\n[connected]\noutput=2\n[softmax]\n");
  }
  for (const auto& [ranks, other] : {std::pair(5, 3), std::pair(6, 1), std::pair(7, 6)}) {
    Words command{OMNI_MPIEXEC, "-iface", "lo"};
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank > 0) command.emplace_back(":");
      command.insert(command.end(), {"-n", "1", "-wdir", folder / (rank == other ? "b" : "a"),
                                     kOmniRun, "--net", "own.cfg", "--max-batches", "2"});
    }
    const Finished run = run_program(std::move(command));
    expect_refused(run, 2, ": the net description is");
    EXPECT_NE(run.errors.find("error: rank " + std::to_string(other) + " on "), std::string::npos)
        << run.errors;
  }
}

TEST(RanksRefuse, weights_that_differ) {
  const TemporaryDirectory folder;
  const auto rank = [&](const char* name, Words more) {
    std::filesystem::create_directory(folder / name);
    const std::string weights = folder / name / "own.weights";
    more.insert(more.end(), {"--deterministic", "--save-weights", weights});
    EXPECT_EQ(omni_run(refused_net("1", more)).exit_code, 0);
    Words words = refused_net("2", {"--weights", "own.weights"});
    words.insert(words.begin(), {"-wdir", folder / name, kOmniRun});
    return words;
  };
  const Words first = rank("a", {}), alike = rank("b", {}), other = rank("c", {"--seed", "2"});
  const Finished run = on_two_unlike(first, alike);
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  expect_refused(on_two_unlike(first, other), 2, ": the checksum of --weights is");
}

TEST(RanksEnd, with_the_error_of_one_of_them) {
  const TemporaryDirectory folder;
  const auto rank = [&](const char* name) {
    std::filesystem::create_directory(folder / name);
    Words words = refused_net("2", {"--weights", "start.weights"});
    words.insert(words.begin(), {"-wdir", folder / name, kOmniRun});
    return words;
  };
  const Words first = rank("a"), second = rank("b");
  put(folder / "a" / "start.weights", std::string(200, 'x'));
  const Finished run = on_two_unlike(first, second);
  EXPECT_EQ(run.exit_code, 2) << run.errors;
  EXPECT_NE(run.errors.find("error: rank 1 on "), std::string::npos) << run.errors;
  EXPECT_NE(run.errors.find("start.weights"), std::string::npos) << run.errors;
}

TEST(RanksEnd, alike_when_the_training_diverges) {
  expect_refused(on_ranks(2, refused_net("50", {"--learning-rate", "1e30"})), 6,
                 "is not a finite number");
}

struct Job {
  explicit Job(Words more) {
    more.insert(more.end(),
                {"--metrics", folder / "metrics", "--display", "1", "--out", folder / "run"});
    process = start_program(mpiexec(2, refused_net("1000000", std::move(more))), "/dev/null",
                            folder / "errors");
    wait_for_text(folder / "metrics", "\"iteration\":5,");
  }
  TemporaryDirectory folder;
  pid_t process;
};

// A rank must wait for the others. As soon as one rank closes its connection to the launcher, hydra
// kills the other ranks.
TEST(RanksEnd, after_they_have_told_the_launcher) {
  const TemporaryDirectory folder;
  const std::string ended = folder / "ended";
  Words words = refused_net("2");
  words.insert(
      words.begin(),
      {"/bin/bash", "-c", R"("$@" & eval "exec $PMI_FD>&-"; wait $! && sleep 1 && echo >>)" + ended,
       "sh", kOmniRun});
  Words command = mpiexec(2, words);
  command.erase(std::ranges::find(command, kOmniRun));
  const Finished run = run_program(command);
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(get(ended), "\n\n");
}

// The first rank cannot save. The other ranks must not wait for it to receive their models. A later
// save succeeds.
TEST(RanksEnd, in_order_after_a_save_that_failed) {
  const Job job({"--groups", "2", "--strategy", "sma", "--checkpoint-every", "20"});
  const std::string errors = job.folder / "errors";
  const auto limit = [&](rlim_t bytes) {
    const rlimit both{bytes, RLIM_INFINITY};
    EXPECT_EQ(prlimit(process_of_rank(0, job.folder / "metrics"), RLIMIT_FSIZE, &both, nullptr), 0);
  };
  limit(0);
  wait_for_text(errors, "arrays.safetensors: cannot write: File too large");
  limit(RLIM_INFINITY);
  kill(process_of_rank(1, job.folder / "metrics"), SIGTERM);
  EXPECT_EQ(wait_for_program(job.process), 75) << get(errors);
  EXPECT_EQ(count(get(errors), "rank 1 on "), 0u) << get(errors);
}

TEST(RanksEnd, when_one_is_killed) {
  for (const int rank : {0, 1}) {
    const Job job({});
    kill(process_of_rank(rank, job.folder / "metrics"), SIGKILL);
    EXPECT_NE(wait_for_program(job.process), 0) << get(job.folder / "errors");
    EXPECT_EQ(process_of_rank(1 - rank, job.folder / "metrics"), 0);
  }
}

TEST(RanksEnd, when_one_stays_silent) {
  for (const int rank : {0, 1}) {
    const Job job({"--patience", "12"});
    kill(process_of_rank(rank, job.folder / "metrics"), SIGSTOP);
    EXPECT_EQ(wait_for_program(job.process), 5);
    const std::string said = get(job.folder / "errors");
    EXPECT_NE(said.find("error: rank " + std::to_string(rank) + " on "), std::string::npos) << said;
    EXPECT_NE(said.find("has been silent for 12 s; the last iteration here was "),
              std::string::npos)
        << said;
  }
}

}  // namespace
}  // namespace omni::test
