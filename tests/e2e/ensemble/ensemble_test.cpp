// These tests check omni-run ensemble: members learn exactly what they learn alone, also after a
// kill and a resume.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "tests/support/images/image_folder.hpp"
#include "tests/support/net_text.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class EnsembleRuns : public testing::Test {
 protected:
  void SetUp() override {
    put(folder_ / "small.cfg",
        net(6, {8, 8, 1}, kSgd) + convolutional(4, "relu") + connected(3) + layer("softmax"));
    put(folder_ / "wide.cfg",
        net(10, {8, 8, 1}, kSgd) + connected(9, "tanh") + connected(3) + layer("softmax"));
    put(folder_ / "members", "--net " + file("small.cfg") + " --seed 7 --name seven  # one more\n" +
                                 "\n--net " + file("wide.cfg") +
                                 " --strategy sma --groups 2 --learning-rate 0.02\n");
  }
  std::string file(const char* name) const { return folder_ / name; }
  Words all() const {
    return {"--data", "synthetic:60:3",  "--max-batches", "60", "--test-every",
            "30",     "--deterministic", "--workers",     "2"};
  }
  Words ensemble(const char* out) const {
    return Words{"ensemble", "--net",  file("small.cfg") + ":2", "--members", file("members"),
                 "--out",    file(out)} +
           all();
  }
  std::string weights(const fs::path& of) const { return get(of / "net.weights"); }
  void expect_equal(const fs::path& one, const fs::path& other) const {
    for (const char* name : {"small-1", "small-2", "seven", "wide"}) {
      EXPECT_FALSE(weights(one / name).empty()) << name;
      EXPECT_EQ(weights(one / name), weights(other / name)) << name;
    }
  }

  // Returns the number of tasks of each codelet in the traces of all members.
  std::map<std::string, int> tasks_in(const char* traces) const {
    std::map<std::string, int> tasks;
    for (const auto& member : fs::directory_iterator(folder_ / traces)) {
      std::map<int, std::string> names;
      std::istringstream lines(get(member.path() / "rank-0.jsonl"));
      for (std::string line; std::getline(lines, line);) {
        const auto record = nlohmann::json::parse(line);
        if (line.starts_with("{\"codelet\":")) names[record["codelet"]] = record["name"];
        if (line.starts_with("{\"task\":")) ++tasks[names.at(record["codelet"])];
      }
    }
    return tasks;
  }

  TemporaryDirectory folder_;
};

// Sharing prepares each sample once (E1), and changes nothing in what members learn (E6).
TEST_F(EnsembleRuns, E1_E6_MembersLearnWhatTheyLearnAlone) {
  const Finished together = omni_run(ensemble("together"));
  ASSERT_EQ(together.exit_code, 0) << together.errors;
  EXPECT_NE(together.output.find("small-2"), std::string::npos) << together.output;
  const Finished off = omni_run(ensemble("off") + Words{"--share", "off"});
  ASSERT_EQ(off.exit_code, 0) << off.errors;
  expect_equal(file("together"), file("off"));
  EXPECT_NE(weights(folder_ / "together/small-1"), weights(folder_ / "together/small-2"));

  // The member with mini-batches of 10 needs 600 samples. The other members need 360 samples, which
  // are among these.
  const int prepared = number_after(together.errors, "shared samples: ");
  EXPECT_GE(prepared, 600) << together.errors;
  EXPECT_LE(prepared, 700) << together.errors;
  EXPECT_EQ(off.errors.find("shared samples"), std::string::npos);
  // Each of four members tests twice, on the same test set, whose samples are prepared once.
  const int tested = number_after(together.errors, "shared test samples: ");
  EXPECT_GT(tested, 0) << together.errors;
  EXPECT_LE(tested, 60) << together.errors;
  const std::size_t memory = together.errors.find("MiB at most");
  EXPECT_EQ(memory, together.errors.rfind("MiB at most")) << "each member says the same";

  const Words alone =
      Words{"--net",          file("small.cfg"),    "--seed", "2", "--data-seed", "1",
            "--save-weights", file("alone.weights")} +
      all();
  ASSERT_EQ(omni_run(alone).exit_code, 0);
  EXPECT_EQ(get(folder_ / "alone.weights"), weights(folder_ / "together/small-2"));
  const auto metrics = read_metrics(folder_ / "together/small-2/metrics.jsonl");
  EXPECT_TRUE(std::ranges::any_of(metrics,
                                  [](const auto& line) { return line.contains("test_accuracy"); }));
}

TEST_F(EnsembleRuns, AKilledEnsembleGoesOn) {
  const Words words = ensemble("undisturbed") + Words{"--checkpoint-every", "7"};
  ASSERT_EQ(omni_run(words).exit_code, 0);
  Words killed = ensemble("killed") + Words{"--checkpoint-every", "7", "--resume", "auto"};
  for (int kills = 0; kills < 3; ++kills) {
    Words command = killed;
    command.insert(command.begin(), kOmniRun);
    const pid_t child = start_program(command);
    const fs::path checkpoints = folder_ / "killed/small-1";
    const auto before = fs::exists(checkpoints) ? entries_in(checkpoints) : 0;
    for (int tries = 0; tries < 2000; ++tries) {
      if (fs::exists(checkpoints) && entries_in(checkpoints) > before) break;
      if (kill(child, 0) != 0) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    kill(child, SIGKILL);
    wait_for_program(child);
  }
  const Finished last = omni_run(killed);
  ASSERT_EQ(last.exit_code, 0) << last.errors;
  expect_equal(file("undisturbed"), file("killed"));
}

TEST_F(EnsembleRuns, AMemberThatDivergesLeavesTheOthers) {
  put(folder_ / "members", "--net " + file("small.cfg") + " --name well\n--net " +
                               file("small.cfg") + " --learning-rate 1e30 --name bad\n");
  const auto words = [&](const char* out) {
    return Words{"ensemble", "--members", file("members"), "--out", file(out)} + all();
  };
  const Finished run = omni_run(words("run") + Words{"--json"});
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  const auto members = nlohmann::json::parse(run.output)["members"];
  EXPECT_EQ(members[0]["state"], "finished");
  EXPECT_EQ(members[0]["iterations"], 60);
  EXPECT_EQ(members[1]["state"], "diverged");
  const Finished strict = omni_run(words("strict") + Words{"--strict"});
  EXPECT_EQ(strict.exit_code, 6) << strict.errors;
  put(folder_ / "members", "--net " + file("small.cfg") + " --learning-rate 1e30\n");
  EXPECT_EQ(omni_run(words("all")).exit_code, 6);
}

// The training meets the damaged image, after the record says that all members are running.
TEST_F(EnsembleRuns, AnErrorOfATaskIsRecorded) {
  make_image_folder(folder_ / "photos", 40, 10);
  put(folder_ / "photos/train/red/7.jpg", "no image");
  const Finished run = omni_run({"ensemble", "--net", file("small.cfg") + ":2", "--data",
                                 file("photos"), "--damaged-images", "0", "--epochs", "9",
                                 "--no-test", "--workers", "2", "--out", file("run"), "--json"});
  EXPECT_EQ(run.exit_code, 3) << run.errors;
  const auto record = nlohmann::json::parse(get(folder_ / "run/ensemble.json"));
  EXPECT_EQ(record["state"], "failed");
  for (const auto& each : record["members"]) {
    EXPECT_EQ(each["state"], "failed") << each;
    EXPECT_NE(each.value("error", "").find("7.jpg"), std::string::npos) << each;
  }
  EXPECT_EQ(record.value("error", ""), record["members"][0].value("error", "none"));
  EXPECT_EQ(nlohmann::json::parse(run.output)["members"][1]["state"], "failed") << run.output;
}

// A member that has ended before keeps its state, and --resume auto goes on with the others.
TEST_F(EnsembleRuns, ASignalIsRecorded) {
  const std::string net = "--net " + file("small.cfg");
  put(folder_ / "members", net + " --name brief --max-batches 20\n" + net + " --name long\n");
  Words words{"ensemble", "--members",     file("members"),  "--out",     file("run"), "--resume",
              "auto",     "--data",        "synthetic:60:3", "--workers", "2",         "--display",
              "1",        "--max-batches", "10000000"};
  const auto state = [&](const char* name) {
    const auto record = nlohmann::json::parse(get(folder_ / "run/ensemble.json"));
    for (const auto& each : record["members"])
      if (each["name"] == name) return each;
    return nlohmann::json();
  };
  for (const auto& [number, text] :
       {std::pair(SIGSEGV, "signal SIGSEGV"), std::pair(SIGABRT, "signal SIGABRT")}) {
    std::error_code ignored;
    fs::remove(folder_ / "run/long/metrics.jsonl", ignored);
    Words command = words;
    command.insert(command.begin(), kOmniRun);
    const pid_t child = start_program(command);
    const auto is_there = [&] {
      return fs::exists(folder_ / "run/ensemble.json") &&
             fs::exists(folder_ / "run/long/metrics.jsonl") &&
             get(folder_ / "run/long/metrics.jsonl").find("\"iteration\":9") != std::string::npos &&
             state("brief")["state"] == "finished" && state("long")["state"] == "running";
    };
    while (!is_there()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    kill(child, number);
    EXPECT_EQ(wait_for_program(child), 128 + number);
    EXPECT_EQ(state("long")["state"], "failed");
    EXPECT_EQ(state("long")["error"], text);
    EXPECT_EQ(state("brief")["state"], "finished");
    const auto record = nlohmann::json::parse(get(folder_ / "run/ensemble.json"));
    EXPECT_EQ(record["state"], "failed");
    EXPECT_EQ(record.value("error", ""), text);
  }
  words.back() = "30";
  EXPECT_EQ(omni_run(words).exit_code, 0);
  EXPECT_EQ(state("long")["state"], "finished");
  EXPECT_FALSE(state("long").contains("error"));
}

// Each process trains a part of the members in the same run folder, as tasks of a Slurm array do.
TEST_F(EnsembleRuns, ProcessesShareTheMembers) {
  const Finished first = omni_run(ensemble("parts") + Words{"--part", "1/3"});
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_TRUE(fs::exists(folder_ / "parts/small-1")) << "the first";
  EXPECT_FALSE(fs::exists(folder_ / "parts/small-2")) << "of another part";
  EXPECT_TRUE(fs::exists(folder_ / "parts/wide")) << "the fourth";
  setenv("SLURM_ARRAY_TASK_ID", "6", 1);
  setenv("SLURM_ARRAY_TASK_MIN", "4", 1);
  setenv("SLURM_ARRAY_TASK_STEP", "2", 1);
  setenv("SLURM_ARRAY_TASK_COUNT", "3", 1);
  const Finished second = omni_run(ensemble("parts"));
  for (const char* each : {"ID", "MIN", "STEP", "COUNT"})
    unsetenv((std::string("SLURM_ARRAY_TASK_") + each).c_str());
  ASSERT_EQ(second.exit_code, 0) << second.errors;
  std::vector<std::string> states;
  const auto record = nlohmann::json::parse(get(folder_ / "parts/ensemble.json"));
  for (const auto& member : record["members"]) states.push_back(member["state"]);
  EXPECT_EQ(states, (Words{"finished", "finished", "running", "finished"})) << "not yet the third";
  const Finished empty = omni_run(ensemble("parts") + Words{"--part", "5/5"});
  EXPECT_EQ(empty.exit_code, 0);
  EXPECT_NE(empty.errors.find("no member is in this part"), std::string::npos) << empty.errors;
}

TEST_F(EnsembleRuns, RefusesWhatAMemberCannotHave) {
  const std::string net = "--net " + file("small.cfg");
  const struct {
    std::string line;
    Words words;
    std::string text;
  } kCases[] = {
      {net + " --workers 3", {}, ":1: --workers is no option of one member"},
      {"# none\n" + net + " --out x", {}, ":2: --out is no option of one member"},
      {"--seed 3", {}, ":1: names no net"},
      {net + " --seed x", {}, ":1: --seed"},
      {net + " --name a/b", {}, "a/b"},
      {"", {}, "has no members"},
      {net + " --trace t", {}, ":1: --trace is no option of one member (give it to omni-run ens"},
      {net, {"--log", "caffe"}, "--log: is not for the members of an ensemble"},
      {net, {"--survive"}, "--survive: is not for the members of an ensemble"},
      {net, {"--resume", "some-checkpoint"}, "each member has checkpoints of its own"},
      {net, {"--net", file("small.cfg") + ":0"}, "is no number of members"},
      {net, {"--share", "some"}, "--share"},
      {net, {"--part", "3/2"}, "--part 3/2: names no part"},
      {net, {"--part", "1/2", "--stop", "asha"}, "cannot be compared while they train"},
  };
  for (const auto& each : kCases) {
    put(folder_ / "members", each.line);
    const Finished run = omni_run(
        Words{"ensemble", "--members", file("members"), "--out", file("out")} + all() + each.words);
    EXPECT_EQ(run.exit_code, 2) << run.errors;
    EXPECT_NE(run.errors.find(each.text), std::string::npos) << run.errors;
  }
  const Finished absent = omni_run(Words{"ensemble", "--members", file("absent")} + all());
  EXPECT_EQ(absent.exit_code, 2) << absent.errors;
  EXPECT_NE(absent.errors.find("No such file"), std::string::npos) << absent.errors;
  const Finished late = omni_run({"--deterministic", "ensemble"});
  EXPECT_EQ(late.exit_code, 2);
  EXPECT_NE(late.errors.find("stands before 'ensemble'"), std::string::npos) << late.errors;
}

// The work of decoding and augmenting is that of one member, whatever their number. Without sharing
// it is N-fold. How much processor time that is, perf/experiments/ensemble measures.
TEST_F(EnsembleRuns, E7_TheWorkSavedGrowsWithTheMembers) {
  make_image_folder(file("photos"), 10, 2);
  const auto decoded = [&](int members, const char* share) {
    const std::string traces = share + std::to_string(members);
    const Finished run =
        omni_run({"ensemble", "--net", file("small.cfg") + ":" + std::to_string(members), "--data",
                  file("photos"), "--share", share, "--workers", "2", "--batch", "8", "--slice",
                  "4", "--prepare-only", "48", "--trace", file(traces.c_str())});
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    const auto tasks = tasks_in(traces.c_str());
    const auto found = tasks.find("read_image_files");
    return found == tasks.end() ? 0 : found->second;
  };
  const int alone = decoded(1, "off");
  EXPECT_EQ(alone, 96 / 4) << "a task reads four images, also those for warm-up";
  EXPECT_EQ(decoded(3, "off"), 3 * alone);
  EXPECT_LE(decoded(3, "all"), alone + 2) << "some blocks beyond the end";
}

// A member whose loss does not fall rests to be inspected. It reads its mini-batches again, which
// the window still has.
TEST_F(EnsembleRuns, MembersThatRestShareOn) {
  const Finished run = omni_run(
      {"ensemble", "--net", file("small.cfg") + ":3", "--data", "synthetic:60:3", "--max-batches",
       "500", "--no-test", "--learning-rate", "1e-9", "--workers", "2", "--out", file("run")});
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(number_after(run.errors, "shared samples: "), 6 * 500) << run.errors;
}

// Samples are prepared by the tasks that prepare them in a training, and no other task runs. So a
// training cannot have a higher rate, and has the same one if preparing is the bottleneck.
TEST_F(EnsembleRuns, E8_PreparationAloneHasTheTasksOfATrainingsPipeline) {
  put(folder_ / "two",
      "--net " + file("small.cfg") + " --name one\n--net " + file("wide.cfg") + " --name other\n");
  const auto run = [&](const char* traces, const Words& more) {
    return omni_run(Words{"ensemble", "--members", file("two"), "--data", "synthetic:60:3",
                          "--deterministic", "--workers", "2", "--json", "--trace", file(traces)} +
                    more);
  };
  // After 60 samples for warm-up another 60 are measured.
  const bool had_runs = fs::exists("omni-runs");
  const Finished prepares = run("prepared", {"--prepare-only", "60", "--out", file("unused")});
  ASSERT_EQ(prepares.exit_code, 0) << prepares.errors;
  EXPECT_GE(number_after(prepares.errors, "shared samples: "), 120) << prepares.errors;
  EXPECT_LE(number_after(prepares.errors, "shared samples: "), 140) << prepares.errors;
  const auto summary = nlohmann::json::parse(prepares.output);
  EXPECT_EQ(summary["samples"], 60);
  ASSERT_EQ(summary["members"].size(), 2u);
  for (const auto& each : summary["members"]) EXPECT_GT(each["samples_per_second"], 0) << each;
  EXPECT_EQ(summary["members"][1]["name"], "other");
  EXPECT_FALSE(fs::exists(file("unused"))) << "only a training has a run folder";
  EXPECT_EQ(fs::exists("omni-runs"), had_runs);

  const Finished trains = run("trained", {"--epochs", "2", "--no-test", "--out", file("out")});
  ASSERT_EQ(trains.exit_code, 0) << trains.errors;
  std::map<std::string, int> pipeline = tasks_in("trained");
  const std::map<std::string, int> prepared = tasks_in("prepared");
  EXPECT_GT(pipeline.size(), prepared.size()) << "a training computes more";
  std::erase_if(pipeline, [&](const auto& each) { return !prepared.contains(each.first); });
  EXPECT_EQ(prepared, pipeline);

  const Finished resumes = run("none", {"--prepare-only", "60", "--resume", "auto"});
  EXPECT_EQ(resumes.exit_code, 2) << resumes.errors;
  EXPECT_NE(resumes.errors.find("--resume: --prepare-only begins with sample 0"), std::string::npos)
      << resumes.errors;
}

// Each member has a trace like that of a training alone.
TEST_F(EnsembleRuns, TraceEachMember) {
  put(folder_ / "members", "--net " + file("small.cfg") + " --name one\n--net " + file("wide.cfg") +
                               " --max-batches 31 --name other\n");
  const Words words = Words{"ensemble", "--members", file("members"), "--out", file("out")} +
                      all() + Words{"--trace", file("traces")};
  const Finished run = omni_run(words);
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  for (const char* name : {"one", "other"}) {
    std::istringstream trace(get(folder_ / "traces" / name / "rank-0.jsonl"));
    std::set<int> iterations;
    std::size_t tasks = 0, ended = 0;
    std::string net;
    for (std::string line; std::getline(trace, line);) {
      const auto record = nlohmann::json::parse(line);
      if (record.contains("net")) net = record["net"];
      tasks += line.starts_with("{\"task\":");
      if (line.starts_with("{\"iteration\":")) iterations.insert(record["iteration"].get<int>());
      if (record.contains("end")) ended = record["tasks"];
    }
    const bool first = name == std::string("one");
    EXPECT_EQ(net, first ? "small" : "wide");
    EXPECT_EQ(iterations.size(), first ? 60u : 31u) << name;
    EXPECT_GT(tasks, iterations.size());
    EXPECT_EQ(tasks, ended);
  }
  const auto record = nlohmann::json::parse(get(folder_ / "out/ensemble.json"));
  for (const auto& each : record["members"])
    EXPECT_EQ(each["options"].dump().find("--trace"), std::string::npos) << each;
}

}  // namespace
}  // namespace omni::test
