// These tests train the members of an ensemble over ranks. They learn the same bits as in one
// process, whichever ranks prepare the samples.
#include <gtest/gtest.h>

#include "tests/cluster/ensemble/ensembles_over_ranks.hpp"
#include "tests/support/images/image_folder.hpp"

namespace omni::test {
namespace {

namespace fs = std::filesystem;

// All ranks, or as many as --preparers says, prepare equal numbers of samples, and none is prepared
// twice. Each rank receives the samples that it has not prepared, one byte for each value. The
// weights do not depend on who prepares.
TEST_F(EnsemblesOverRanks, E3_E4_LearnTheSameWhoeverPrepares) {
  ASSERT_EQ(omni_run(ensemble("one")).exit_code, 0);
  const struct {
    int ranks;
    Words words;
    std::vector<int> prepared;  // empty: the samples are not shared over ranks
  } kCases[] = {{2, {"--share", "all"}, {300, 300}},
                {3, {"--share", "all"}, {200, 200, 200}},
                {2, {"--share", "single", "--preparers", "1"}, {600, 0}},
                {3, {"--share", "single", "--preparers", "2"}, {300, 300, 0}},
                {3, {"--share", "multi", "--preparers", "2"}, {300, 300, 0}},
                {2, {"--share", "off"}, {}}};
  double most = 0;
  for (const auto& each : kCases) {
    SCOPED_TRACE(each.words.back() + std::to_string(each.ranks));
    fs::remove_all(file("ranks"));
    const Finished run = on_ranks(each.ranks, ensemble("ranks") + each.words);
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    expect_equal(file("one"), file("ranks"));
    EXPECT_EQ(numbers_after(run.errors, "samples by rank: prepared"), each.prepared) << run.errors;
    std::vector<int> received;
    for (const int prepared : each.prepared) received.push_back((600 - prepared) * 64);
    EXPECT_EQ(numbers_after(run.errors, "bytes received"), received) << run.errors;
    for (const char* name : {"small-2", "wide"})
      EXPECT_NE(run.output.find(name), std::string::npos) << "the table has all members";
    const auto record = nlohmann::json::parse(get(folder_ / "ranks/ensemble.json"));
    for (const auto& member : record["members"]) EXPECT_EQ(member["state"], "finished") << member;
    for (const char* name : {"small-1", "small-2", "seven", "wide"}) {
      int lines = 0;
      for (const auto& line : read_metrics(folder_ / "ranks" / name / "metrics.jsonl"))
        if (line.contains("stream_fill")) {
          const double fill = line["stream_fill"];
          EXPECT_GE(fill, 0);
          EXPECT_LE(fill, 1);
          most = std::max(most, fill);
          ++lines;
        }
      EXPECT_EQ(lines > 0, each.words.back() != "off") << name;
    }
  }
  EXPECT_GT(most, 0);
  const Finished chosen = on_ranks(2, ensemble("chosen"));
  ASSERT_EQ(chosen.exit_code, 0) << chosen.errors;
  EXPECT_NE(chosen.errors.find("samples over ranks: "), std::string::npos) << chosen.errors;
  expect_equal(file("one"), file("chosen"));
}

// The members of each rank train apart, but ranks are named by their number in the job.
TEST_F(EnsemblesOverRanks, NameTheRankThatIsSilent) {
  for (const int rank : {0, 3}) {
    const std::string out = file("silent" + std::to_string(rank)), errors = out + ".errors";
    Words words = ensemble(out) + Words{"--patience", "3", "--share", "off"};
    std::ranges::replace(words, std::string("60"), std::string("1000000"));
    const pid_t job = start_program(mpiexec(4, words), "/dev/null", errors);
    wait_for_text(out + "/wide/metrics.jsonl", "\"iteration\":20,");
    const pid_t process = process_of_rank(rank, out);
    ASSERT_GT(process, 0);
    kill(process, SIGSTOP);
    EXPECT_EQ(wait_for_program(job), 5) << get(errors);
    EXPECT_NE(get(errors).find("error: rank " + std::to_string(rank) + " on "), std::string::npos)
        << get(errors);
  }
}

TEST_F(EnsemblesOverRanks, GoOnWhenARankIsKilled) {
  ASSERT_EQ(omni_run(ensemble("one")).exit_code, 0);
  const Words words =
      ensemble("ranks") + Words{"--checkpoint-every", "7", "--resume", "auto", "--share", "multi"};
  for (int rank = 0; rank < 2; ++rank) {
    const pid_t job = start_program(mpiexec(2, words));
    const fs::path checkpoints = folder_ / (rank == 0 ? "ranks/small-1" : "ranks/small-2");
    const auto before = fs::exists(checkpoints) ? entries_in(checkpoints) : 0;
    for (int tries = 0; tries < 4000 && kill(job, 0) == 0; ++tries) {
      if (fs::exists(checkpoints) && entries_in(checkpoints) > before) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    const pid_t process = process_of_rank(rank, file("ranks"));
    ASSERT_GT(process, 0) << "the job ended before rank " << rank << " was killed";
    kill(process, SIGKILL);
    EXPECT_NE(wait_for_program(job), 0);
  }
  const auto unfinished = [&] {
    int members = 0;
    for (const char* name : {"small-1", "small-2", "seven", "wide"})
      members += fs::exists(folder_ / "ranks" / name / "net.weights") ? 0 : 1;
    return members;
  };
  ASSERT_GT(unfinished(), 0) << "nothing is left to do";
  const Finished last = on_ranks(3, words);
  ASSERT_EQ(last.exit_code, 0) << last.errors;
  EXPECT_EQ(unfinished(), 0);
  expect_equal(file("one"), file("ranks"));
  // The finished training resumes on one rank, where nothing is left to do.
  EXPECT_EQ(on_ranks(1, words).exit_code, 0);
  expect_equal(file("one"), file("ranks"));
}

TEST_F(EnsemblesOverRanks, CompareTheirMembers) {
  const std::string small = "--net " + file("plain.cfg");
  put(file("plain.cfg"),
      net(10, {8, 8, 1}, "learning_rate=0.2\nmomentum=0.5\n") + connected(3) + layer("softmax"));
  put(file("rivals"), small + " --name good\n" + small + " --learning-rate 1e-6 --name bad\n" +
                          small + " --learning-rate 1e-7 --batch 20 --name worse\n");
  const auto rivals = [&](const char* out, const Words& more) {
    return Words{"ensemble",      "--members", file("rivals"), "--data", "synthetic:600:3",
                 "--max-batches", "200",       "--test-every", "0",      "--deterministic",
                 "--workers",     "1",         "--json",       "--out",  file(out)} +
           more;
  };
  const Words tournament{"--exploit", "50"};
  ASSERT_EQ(omni_run(rivals("one", tournament)).exit_code, 0);
  const Finished exploits = on_ranks(2, rivals("two", tournament));
  ASSERT_EQ(exploits.exit_code, 0) << exploits.errors;
  EXPECT_EQ(get(folder_ / "one/rounds.json"), get(folder_ / "two/rounds.json"));
  EXPECT_NE(get(folder_ / "two/rounds.json").find("loser"), std::string::npos);
  for (const char* name : {"good", "bad", "worse"})
    EXPECT_TRUE(get(folder_ / "one" / name / "net.weights") ==
                get(folder_ / "two" / name / "net.weights"))
        << name;

  // So long that a rank which is early at a rung meets the other at a later one.
  const Words stop{"--stop", "asha:50:2"};
  const auto long_rivals = [&](const Words& more) {
    Words words = rivals("halves", more);
    *std::ranges::find(words, "200") = "3200";
    return words;
  };
  const Finished halves = on_ranks(2, long_rivals(stop));
  ASSERT_EQ(halves.exit_code, 0) << halves.errors;
  const auto summary = nlohmann::json::parse(halves.output);
  EXPECT_EQ(summary["best"], "good") << summary;
  std::vector<std::string> states;
  for (const auto& member : summary["members"]) states.push_back(member["state"]);
  EXPECT_EQ(states, (Words{"finished", "dropped", "dropped"})) << "the second is on another rank";
  const Finished again = on_ranks(2, long_rivals(stop + Words{"--resume", "auto"}));
  ASSERT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_EQ(nlohmann::json::parse(again.output)["members"], summary["members"]);
}

TEST_F(EnsemblesOverRanks, ReportWhatHappensOnOtherRanks) {
  const std::string small = "--net " + file("small.cfg");
  put(file("members"), small + " --name well\n" + small + " --learning-rate 1e30 --name bad\n");
  const auto words = [&](const char* out) {
    return Words{"ensemble", "--members", file("members"), "--out", file(out)} + all();
  };
  const Finished run = on_ranks(2, words("run") + Words{"--json"});
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  const auto members = nlohmann::json::parse(run.output)["members"];
  EXPECT_EQ(members[0]["state"], "finished");
  EXPECT_EQ(members[1]["state"], "diverged");
  EXPECT_NE(members[1]["error"].get<std::string>().find("not a finite number"), std::string::npos);
  EXPECT_EQ(on_ranks(2, words("strict") + Words{"--strict"}).exit_code, 6);

  const struct {
    int ranks;
    Words more;
    const char* text;
  } kCases[] = {{2, {"--part", "1/2"}, "--part: the ranks of this job share the members"},
                {2, {"--preparers", "2"}, "--preparers: has no effect with --share auto"},
                {2,
                 {"--share", "single", "--preparers", "3"},
                 "--preparers: 3 ranks cannot prepare samples, there are 2"},
                {2, {"--net", "no-such-net"}, "no-such-net"}};
  for (const auto& each : kCases) {
    const Finished refused = on_ranks(each.ranks, words("refused") + each.more);
    EXPECT_EQ(refused.exit_code, 2) << refused.errors;
    EXPECT_NE(refused.errors.find(each.text), std::string::npos) << refused.errors;
  }
}

// If a test image of one rank's member cannot be read, the job ends before any member trains.
TEST_F(EnsemblesOverRanks, CheckTestImagesBeforeAnyRankTrains) {
  make_image_folder(file("photos"), 10, 100);
  put(file("photos/val/red/109.jpg"), "no image");
  const std::string small = "--net " + file("small.cfg");
  put(file("members"), small + " --data synthetic:60:3 --name well\n" + small + " --data " +
                           file("photos") + " --damaged-images 0 --name damaged\n");
  for (int ranks = 1; ranks <= 2; ++ranks) {
    const std::string out = "checked" + std::to_string(ranks);
    const Finished run = on_ranks(
        ranks, {"ensemble", "--members", file("members"), "--out", file(out), "--max-batches",
                "100", "--display", "1", "--test-every", "0", "--deterministic", "--workers", "1"});
    EXPECT_EQ(run.exit_code, 3) << run.errors;
    const std::size_t at = run.errors.find("error: ");
    EXPECT_NE(run.errors.find("109.jpg", at), std::string::npos) << run.errors;
    EXPECT_EQ(run.errors.find("error: ", at + 1), std::string::npos) << run.errors;
    EXPECT_EQ(get(folder_ / out / "well/metrics.jsonl").find("\"loss\""), std::string::npos);
  }
}

// A damaged image counts once over all ranks, whoever finds it, and one rank names it.
TEST_F(EnsemblesOverRanks, CountAndNameADamagedImageOnce) {
  make_image_folder(file("photos"), 100, 10);
  const std::vector<std::string> damaged{"train/blue/7.jpg", "train/green/50.jpg",
                                         "train/red/99.jpg", "val/red/103.jpg"};
  for (const std::string& each : damaged) put(file("photos/" + each), "no image");
  const auto count = [](const std::string& text, const std::string& what) {
    int times = 0;
    for (std::size_t at = 0; (at = text.find(what, at)) != text.npos; ++at) ++times;
    return times;
  };
  const auto words = [&](const std::string& out, const char* share, const char* most) {
    return Words{"ensemble",
                 "--net",
                 file("small.cfg") + ":3",
                 "--data",
                 file("photos"),
                 "--out",
                 file(out),
                 "--epochs",
                 "2",
                 "--share",
                 share,
                 "--workers",
                 "1",
                 "--test-every",
                 "0",
                 "--damaged-images",
                 most};
  };
  for (const char* share : {"all", "single", "multi"}) {
    const Finished run = on_ranks(2, words(share, share, "0.05"));
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    std::string metrics;
    for (const char* name : {"small-1", "small-2", "small-3"})
      metrics += get(folder_ / share / name / "metrics.jsonl");
    for (const std::string& each : damaged)
      EXPECT_EQ(count(run.errors, each), 1) << share << " " << each << "\n" << run.errors;
    for (int i = 0; i < 3; ++i) EXPECT_EQ(count(metrics, damaged[i]), 1) << metrics;
    EXPECT_EQ(count(run.errors, "3 of 300 training images could not be read"), 1) << run.errors;
    EXPECT_EQ(count(run.errors, "1 of 30 test images could not be read"), 1) << run.errors;
  }
  // Each rank finds at most two of the three damaged training images by itself.
  fs::remove(file("photos/val/red/103.jpg"));
  const Finished run = on_ranks(2, words("many", "all", "0.007"));
  EXPECT_EQ(run.exit_code, 3) << run.errors;
  EXPECT_EQ(count(run.errors, "error: "), 1) << run.errors;
  EXPECT_NE(run.errors.find("3 of 300 training images cannot be read"), std::string::npos)
      << run.errors;
}

// The rank of the first member fails, and the job with it.
TEST_F(EnsemblesOverRanks, RecordWhyTheyFail) {
  make_image_folder(file("photos"), 100, 10);
  put(file("photos/train/red/9.jpg"), "no image");
  put(file("members"), "--net " + file("small.cfg") + " --data " + file("photos") +
                           " --damaged-images 0 --no-test --name damaged\n--net " +
                           file("small.cfg") + " --data synthetic:60:3 --name well\n");
  const Finished run =
      on_ranks(2, {"ensemble", "--members", file("members"), "--out", file("failed"),
                   "--max-batches", "10000000", "--workers", "1", "--share", "off"});
  EXPECT_EQ(run.exit_code, 3) << run.errors;
  const auto record = nlohmann::json::parse(get(folder_ / "failed/ensemble.json"));
  EXPECT_EQ(record["state"], "failed");
  EXPECT_NE(record.value("error", "").find("9.jpg"), std::string::npos) << record;
  for (const auto& each : record["members"]) {
    EXPECT_EQ(each["state"], "failed") << each;
    EXPECT_NE(each.value("error", "").find("9.jpg"), std::string::npos) << each;
  }
}

// Members on different data do not share samples, even if the data hardly differ.
TEST_F(EnsemblesOverRanks, KeepDataApartThatHardlyDiffer) {
  std::string text, other;
  for (int i = 0; i < 300; ++i) {
    const std::string line = fmt::format("{} 1:{} 2:{}\n", i % 3, i % 7, i % 11);
    text += line;
    other += i == 200 ? fmt::format("{} 1:{} 2:{}\n", i % 3, 5, 9) : line;
  }
  put(file("one.libsvm"), text);
  put(file("other.libsvm"), other);
  put(file("vectors.cfg"),
      "[net]\nbatch=10\ninputs=2\nlearning_rate=0.05\n" + connected(3) + layer("softmax"));
  const std::string net = "--net " + file("vectors.cfg") + " --data ";
  put(file("members"), net + file("one.libsvm") + " --name one\n" + net + file("other.libsvm") +
                           " --name other\n" + net + file("one.libsvm") + " --name same\n");
  const auto words = [&](const char* out) {
    return Words{"ensemble",  "--members", file("members"), "--out",   file(out),
                 "--epochs",  "1",         "--no-test",     "--share", "all",
                 "--workers", "1",         "--data-seed",   "1",       "--deterministic"};
  };
  ASSERT_EQ(omni_run(words("apart")).exit_code, 0);
  const Finished run = on_ranks(3, words("ranks"));
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  for (const char* name : {"one", "other", "same"})
    EXPECT_TRUE(get(folder_ / "apart" / name / "net.weights") ==
                get(folder_ / "ranks" / name / "net.weights"))
        << name;
  EXPECT_EQ(numbers_after(run.errors, "samples by rank: prepared"), (std::vector{150, 0, 150}))
      << "two ranks share their samples: " << run.errors;
}

// An error after the ranks have joined their streams ends the job with the same exit code and
// message as in one process.
TEST_F(EnsemblesOverRanks, EndAsOneProcessOnAnErrorAfterTheyHaveJoined) {
  Finished runs[2];
  for (int ranks = 1; ranks <= 2; ++ranks) {
    const std::string out = "folder" + std::to_string(ranks);
    fs::create_directories(folder_ / out / "ensemble.json" / "full");
    runs[ranks - 1] = on_ranks(ranks, ensemble(out) + Words{"--share", "all"});
  }
  EXPECT_NE(runs[0].exit_code, 0);
  EXPECT_EQ(runs[1].exit_code, runs[0].exit_code) << runs[1].errors;
  for (const Finished& run : runs)
    EXPECT_NE(run.errors.find("ensemble.json: "), std::string::npos) << run.errors;
}

TEST_F(EnsemblesOverRanks, StopInOrder) {
  Words words = ensemble("ranks") + Words{"--resume", "auto"};
  *std::ranges::find(words, "60") = "100000";
  const pid_t job = start_program(mpiexec(2, words));
  const std::string metrics = file("ranks/small-2/metrics.jsonl");
  wait_for_text(metrics, "\"iteration\":40");
  // Only rank 1 is asked to stop.
  kill(process_of_rank(1, file("ranks")), SIGTERM);
  EXPECT_EQ(wait_for_program(job), 75);
  const auto record = nlohmann::json::parse(get(folder_ / "ranks/ensemble.json"));
  for (const auto& member : record["members"]) {
    EXPECT_EQ(member["state"], "stopped") << member;
    EXPECT_LT(member["iteration"], 100000) << member;
  }
}

}  // namespace
}  // namespace omni::test
