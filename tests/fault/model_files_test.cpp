// These tests damage the files of StarPU's performance models. No damage may end a run: damaged
// files are moved aside, and StarPU reads all other files. OMNI_MUTATIONS is the number of
// mutations of each kind of file (2000 by hand).
#include <gtest/gtest.h>
#include <starpu.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <random>
#include <string>
#include <vector>

#include "runtime/log.hpp"
#include "runtime/tasks/models/model_folder.hpp"
#include "runtime/tasks/session.hpp"
#include "tests/fault/interpose.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

namespace fs = std::filesystem;

const std::string kModel =
    "omni_conv_forward.onednn.lowering_onednn.lowering.winograd.winograd_8x8.reference.cuda";
const fs::path kRecorded = fs::path(OMNI_SOURCE_DIR) / "tests/simgrid/recorded";
const std::string kVersion = "45";  // of StarPU's files

std::vector<std::string> models_and_bus() {
  return {"codelets/45/" + kModel,   "bus/here.config",    "bus/here.affinity",
          "bus/here.latency",        "bus/here.bandwidth", "bus/here.platform.xml",
          "bus/here.platform.v4.xml"};
}

int mutations() {
  const char* number = std::getenv("OMNI_MUTATIONS");
  return number != nullptr ? std::atoi(number) : 60;
}

std::string mutated(std::string text, std::mt19937& random) {
  const auto below = [&](std::size_t most) { return random() % std::max<std::size_t>(most, 1); };
  const std::size_t at = below(text.size());
  const std::size_t line = text.rfind('\n', at) + 1, next = text.find('\n', at) + 1;
  switch (below(8)) {
    case 0: return text.substr(0, at);
    case 1: text[at] = static_cast<char>(text[at] ^ (1 << below(8))); return text;
    case 2: return text.erase(line, next - line);
    case 3: return text.insert(line, text.substr(line, next - line));
    case 4: return text.insert(at, 1, static_cast<char>(below(256)));
    case 5: return text.erase(at, 1 + below(8));
    case 6: return text.replace(at, std::min<std::size_t>(text.size() - at, 512), 512, '\0');
    default: {
      const char* const words[] = {"-1",  "0",        "3",          "nan", "-nan",
                                   "inf", "1e999",    "4294967295", "x",   "99999999999999999999",
                                   "7.5", "-3.2e+07", "1e+300"};
      const std::size_t first = text.find_first_of("0123456789", at);
      if (first == text.npos) return "";
      const std::size_t end = text.find_first_of(" \t\n", first);
      return text.replace(first, end - first, words[below(std::size(words))]);
    }
  }
}

class ModelFiles : public testing::Test {
 protected:
  // The test has a StarPU folder of its own, apart from those of other tests.
  void SetUp() override {
    setenv("STARPU_HOSTNAME", "here", 1);
    setenv("STARPU_HOME", (folder_ / "home").c_str(), 1);
    for (const char* left : {"XDG_CACHE_HOME", "STARPU_PERF_MODEL_PATH"}) unsetenv(left);
  }
  void TearDown() override {
    unsetenv("STARPU_HOSTNAME");
    setenv("STARPU_HOME", home_before_.c_str(), 1);
  }
  SessionOptions options() const {
    SessionOptions chosen;
    chosen.cpu_workers = 1;
    chosen.models = models_;
    return chosen;
  }
  // Writes a performance model, and lets StarPU measure the bus.
  void fill() {
    fs::create_directories(models_ / "codelets" / kVersion);
    fs::copy_file(kRecorded / kModel, models_ / "codelets" / kVersion / kModel);
    ASSERT_EQ(in_a_copy([&] { return bool(Session::start(options())); }), 0);
  }
  std::string warnings_of_start() {
    const log::Capture said;
    EXPECT_TRUE(ModelFolder::open(models_));
    return said.text();
  }

  TemporaryDirectory folder_;
  const std::string home_before_ = std::getenv("STARPU_HOME");
  fs::path models_ = folder_ / "models";
};

TEST_F(ModelFiles, that_StarPU_has_written_are_sound) {
  for (const auto& file : fs::directory_iterator(kRecorded))
    EXPECT_TRUE(is_sound_codelet_model(get(file), kVersion)) << file.path();
  EXPECT_FALSE(is_sound_codelet_model(get(kRecorded / kModel), "44"));
  fill();
  for (const std::string& name : models_and_bus()) EXPECT_TRUE(fs::exists(models_ / name)) << name;
  EXPECT_EQ(warnings_of_start(), "");
}

// The files describe a machine with two NUMA nodes and three GPUs, in StarPU's format.
TEST_F(ModelFiles, of_a_bus_agree_with_its_config) {
  const std::string config =
      "# Current configuration\n64 # Number of CPUs\n2 # Number of NUMA nodes\n"
      "3 # Number of CUDA nodes\n0 # Number of OpenCL nodes\n";
  const std::string affinity = "# GPU\tNUMA0\tNUMA1\t\n0\t0\t1\t\n1\t0\t1\t\n2\t1\t0\t\n";
  std::string matrix = "# to NUMA 0\tto NUMA 1\tto CUDA 0\tto CUDA 1\tto CUDA 2\t\n";
  for (int row = 0; row < 6; ++row)
    for (int column = 0; column < 6; ++column)
      matrix += (row == 5 || column == 5 ? "nan"
                 : row == column         ? "0.000000e+00"
                                         : "2.5e+04") +
                std::string(column == 5 ? "\n" : "\t");
  const auto sound = [&](const char* kind, const std::string& text) {
    return is_sound_bus_file(kind, text, config);
  };
  EXPECT_TRUE(sound(".config", config));
  EXPECT_TRUE(sound(".affinity", affinity));
  EXPECT_TRUE(sound(".bandwidth", matrix));
  EXPECT_TRUE(sound(".latency", matrix));
  EXPECT_FALSE(is_sound_bus_file(".config", config, "many # Number of CPUs\n"));
  const auto with = [](std::string text, const std::string& old, const std::string& now) {
    return text.replace(text.find(old), old.size(), now);
  };
  EXPECT_FALSE(sound(".affinity", with(affinity, "2\t1\t0", "3\t1\t0")));  // StarPU asserts
  EXPECT_FALSE(sound(".affinity", with(affinity, "2\t1\t0", "2\t1\t2")));  // no such memory
  EXPECT_FALSE(sound(".affinity", with(affinity, "2\t1\t0", "2\t1")));
  EXPECT_FALSE(sound(".affinity", with(affinity, "2\t1\t0\t\n", "")));
  for (const char* bad : {"nan", "-2.5e+04", "x", "1e999", "2.5e+04\t2.5e+04", ""}) {
    EXPECT_FALSE(sound(".bandwidth", with(matrix, "2.5e+04", bad))) << bad;
    EXPECT_FALSE(sound(".latency", with(matrix, "2.5e+04", bad))) << bad;
  }
  EXPECT_FALSE(sound(".bandwidth", with(matrix, "2.5e+04", "0")));  // a transfer would never end
  EXPECT_TRUE(sound(".latency", with(matrix, "2.5e+04", "0")));
}

TEST_F(ModelFiles, that_are_damaged_are_moved_aside_with_one_warning) {
  fill();
  const fs::path others = models_ / "codelets" / kVersion / "another_program.here";
  put(others, "its own affair");
  const fs::path model = models_ / "codelets" / kVersion / kModel;
  const std::string damaged = get(model).substr(0, fs::file_size(model) / 2);
  put(model, damaged);
  put(models_ / "bus/here.latency", "");
  const std::string said = warnings_of_start();
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
  EXPECT_NE(said.find(kModel), said.npos) << said;
  EXPECT_NE(said.find("bus/here.latency"), said.npos) << said;
  EXPECT_EQ(get(models_ / "damaged" / kModel), damaged);
  EXPECT_EQ(get(others), "its own affair");
  EXPECT_EQ(warnings_of_start(), "");
}

TEST_F(ModelFiles, that_are_not_ours_to_move_stay) {
  fill();
  const fs::path model = models_ / "codelets" / kVersion / kModel;
  put(model, "45\n1\n");
  setenv("STARPU_PERF_MODEL_PATH", models_.c_str(), 1);
  const log::Capture said;
  EXPECT_TRUE(ModelFolder::open(folder_ / "new"));  // they belong to another program
  unsetenv("STARPU_PERF_MODEL_PATH");
  EXPECT_NE(said.text().find("are passed over"), std::string::npos) << said.text();
  put(models_ / "damaged", "a file of that name");
  EXPECT_NE(warnings_of_start().find("are passed over"), std::string::npos);
  EXPECT_EQ(get(model), "45\n1\n");
}

// Directories in place of the files cannot be read, not even by root, as files without permission
// could be.
TEST_F(ModelFiles, that_cannot_be_read_stay) {
  fill();
  for (const fs::path& unreadable :
       {models_ / "codelets" / kVersion / kModel, models_ / "bus/here.config"}) {
    fs::remove(unreadable);
    fs::create_directory(unreadable);
  }
  EXPECT_EQ(warnings_of_start(), "");
  for (const std::string& name : models_and_bus()) EXPECT_TRUE(fs::exists(models_ / name)) << name;
}

TEST_F(ModelFiles, are_read_where_StarPU_has_kept_them_before) {
  fill();
  const auto copied = ModelFolder::open(folder_ / "new");
  ASSERT_TRUE(copied);
  EXPECT_FALSE(fs::exists((*copied)->path() / "codelets" / kVersion / kModel));
  setenv("STARPU_PERF_MODEL_PATH", (folder_.path().string() + "/none:" + models_.string()).c_str(),
         1);
  const auto from_path = ModelFolder::open(folder_ / "new");
  unsetenv("STARPU_PERF_MODEL_PATH");
  ASSERT_TRUE(from_path);
  EXPECT_TRUE(fs::exists((*from_path)->path() / "codelets" / kVersion / kModel));
  EXPECT_TRUE(fs::exists((*from_path)->path() / "bus/here.config"));
}

TEST_F(ModelFiles, are_replaced_by_what_a_run_has_written_whole) {
  fill();
  const fs::path name = fs::path("codelets") / kVersion / kModel;
  const std::string before = get(models_ / name), after = get(kRecorded / kModel) + "# more\n";
  const auto written = [&](const std::string& text) {
    const log::Capture said;
    const auto copy = ModelFolder::open(models_);
    EXPECT_TRUE(copy);
    put((*copy)->path() / name, text);
    (*copy)->publish();
    return said.text();
  };
  EXPECT_NE(written(before.substr(0, before.size() / 2)).find("could not write"),
            std::string::npos);
  EXPECT_EQ(get(models_ / name), before);
  EXPECT_EQ(written(after), "");
  EXPECT_EQ(get(models_ / name), after);
}

TEST_F(ModelFiles, leave_nothing_behind_when_a_run_is_killed) {
  const TemporaryDirectory temporary;
  setenv("TMPDIR", temporary.path().c_str(), 1);
  const auto killed = [&] {
    const auto copy = ModelFolder::open(models_);
    raise(SIGKILL);
    return bool(copy);
  };
  EXPECT_EQ(in_a_copy(killed), 128 + SIGKILL);
  EXPECT_EQ(entries_in(temporary.path()), 1);
  const fs::path left = fs::directory_iterator(temporary.path())->path();
  EXPECT_TRUE(ModelFolder::open(models_));
  EXPECT_TRUE(fs::exists(left));  // a run that starts may have no lock yet
  const auto before = fs::file_time_type::clock::now() - std::chrono::hours(1);
  fs::last_write_time(left, before);
  const std::string name = left.filename().string();
  const fs::path of_another = temporary / (name.substr(0, name.rfind('-') - 8) + "another-machine");
  fs::create_directory(of_another);
  fs::last_write_time(of_another, before);
  EXPECT_TRUE(ModelFolder::open(models_));
  EXPECT_TRUE(fs::exists(of_another));
  fs::remove(of_another);
  const auto mine = ModelFolder::open(models_), another = ModelFolder::open(models_);
  EXPECT_EQ(entries_in(temporary.path()), 2);
  unsetenv("TMPDIR");
}

// Programs that clean /tmp remove old files.
TEST_F(ModelFiles, that_are_removed_during_a_run_do_not_end_it) {
  const TemporaryDirectory temporary;
  const auto runs = [&] {
    setenv("STARPU_CALIBRATE", "1", 1);  // StarPU writes models at the end
    setenv("TMPDIR", temporary.path().c_str(), 1);
    const Result<Session> session = Session::start(options());
    static starpu_perfmodel model{};
    model.type = STARPU_HISTORY_BASED;
    model.symbol = "omni_removed.x";
    starpu_perfmodel_init(&model);
    starpu_save_history_based_model(&model);  // makes the folders, once
    const fs::path copy = fs::directory_iterator(temporary.path())->path();
    return bool(session) && fs::file_size(copy / "room") > 0 && fs::remove_all(copy) > 0;
  };
  EXPECT_EQ(in_a_copy(runs), 0);
  const fs::path copy = fs::directory_iterator(temporary.path())->path();
  EXPECT_TRUE(fs::exists(copy / "codelets" / kVersion / "omni_removed.x"));
}

// The fourth and all later operations find no room, so the copy fails.
TEST_F(ModelFiles, are_copied_where_there_is_room) {
  fill();
  const TemporaryDirectory temporary;
  setenv("TMPDIR", temporary.path().c_str(), 1);
  const FileSession full(temporary.path(), {.at = 4, .code = ENOSPC, .from_then_on = true});
  const auto copy = ModelFolder::open(models_);
  unsetenv("TMPDIR");
  ASSERT_TRUE(copy);
  EXPECT_EQ((*copy)->path().parent_path(), models_);
}

TEST_F(ModelFiles, need_room_and_say_so) {
  fs::create_directories(models_);
  const auto said = [&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    const Result<Session> session = Session::start(options());
    return !session && session.error().kind == ErrorKind::failed &&
           session.error().message().find("no room for a copy of the performance models") !=
               std::string::npos;
  };
  EXPECT_EQ(in_a_copy(said), 0);
}

TEST_F(ModelFiles, however_mutated_are_refused_or_read_by_StarPU) {
  const std::string original = get(kRecorded / kModel);
  std::mt19937 random(1);
  std::vector<std::string> sound;
  for (int i = 0; i < mutations(); ++i)
    if (std::string text = mutated(original, random); is_sound_codelet_model(text, kVersion))
      sound.push_back(std::move(text));
  EXPECT_FALSE(sound.empty());
  const auto read_them = [&] {
    const Result<Session> session = Session::start(options());
    for (const std::string& text : sound) {
      put(folder_ / "mutated", text);
      starpu_perfmodel model{};
      model.type = STARPU_HISTORY_BASED;
      model.symbol = strdup("omni_mutated.x");
      if (starpu_perfmodel_load_file((folder_ / "mutated").c_str(), &model) != 0) return false;
      starpu_save_history_based_model(&model);
      starpu_perfmodel_unload_model(&model);
    }
    return bool(session);
  };
  EXPECT_EQ(in_a_copy(read_them), 0) << "see " << folder_ / "mutated";
}

TEST_F(ModelFiles, of_the_bus_however_mutated_end_no_start) {
  fill();
  std::mt19937 random(2);
  for (const std::string& name : models_and_bus()) {
    if (name.starts_with("codelets")) continue;
    const std::string original = get(models_ / name);
    for (int i = 0; i < mutations() / 6; ++i) {
      const std::string text = mutated(original, random);
      put(models_ / name, text);
      const auto starts = [&] {
        const log::Capture quiet;
        return bool(Session::start(options()));
      };
      ASSERT_EQ(in_a_copy(starts), 0) << name << ":\n" << text;
    }
  }
}

// The program is run as a user runs it. It must warn, and train.
TEST_F(ModelFiles, that_are_damaged_end_no_training) {
  fill();
  put(models_ / "codelets" / kVersion / kModel, "45\n1\n");
  const std::vector<std::string> training{
      "--net",     "mlp",      "--batch",      "8",      "--max-batches", "2",
      "--no-test", "--data",   "synthetic:64", "--gpus", "none",          "--workers",
      "1",         "--models", models_};
  const Finished first = omni_run(training), second = omni_run(training);
  EXPECT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_NE(first.errors.find("damaged performance models"), std::string::npos) << first.errors;
  EXPECT_EQ(second.exit_code, 0) << second.errors;
  EXPECT_EQ(second.errors.find("damaged"), std::string::npos) << second.errors;
}

}  // namespace
}  // namespace omni::test
