// AutoTraining trains a small net in compute groups with --auto, and records its messages and
// checkpoints.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "layers/formats/darknet/darknet.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/data/open.hpp"
#include "runtime/log.hpp"
#include "runtime/signals.hpp"
#include "runtime/tasks/host_access.hpp"
#include "runtime/tasks/session.hpp"
#include "scheduling/checkpoint/training_checkpoint.hpp"
#include "scheduling/forecast/machine/machine_file.hpp"
#include "scheduling/pilots/tuning/tuned.hpp"
#include "tests/support/group_training.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni {

inline constexpr const char* kAutoLayers = R"(
[convolutional]
filters=5
size=3
pad=1
activation=tanh
batch_normalize=1
[connected]
output=3
activation=linear
[softmax]
)";

class AutoTraining : public testing::Test {
 protected:
  AutoTraining() : session_(start()) {
    auto data =
        open_dataset({.source = "synthetic:60:3", .net_input = {8, 8, 1}, .classes = 3, .seed = 5});
    data_ = std::move(data->train);
  }

  Result<Session> start() {
    SessionOptions options;
    options.cpu_workers = 2;
    options.deterministic = true;
    options.models = folder_ / "models";
    return Session::start(options);
  }

  void make(int groups, const std::string& solver) {
    const TrainableNet spec =
        *parse_darknet_cfg("[net]\nbatch=6\nheight=8\nwidth=8\nchannels=1\n" + solver + kAutoLayers,
                           "net.cfg", {.strict = true});
    solver_ = spec.solver;
    groups_.emplace(
        std::move(*ComputeGroups::make(groups, {}, [&](const Sharing& sharing, int, int) {
          return Net::build(spec, {.training = true, .slice = 3, .sharing = sharing});
        })));
    feed_ = std::make_unique<DataFeed>(*data_, FeedOptions{.training = true,
                                                           .seed = 1,
                                                           .augment = {},
                                                           .net_input = {8, 8, 1},
                                                           .slices = groups_->net().slices(),
                                                           .slots = Trainer::slots(*groups_)});
    ASSERT_TRUE(groups_->allocate());
    ASSERT_TRUE(feed_->allocate());
    groups_->net().initialise(1);
    groups_->refresh_replicas();
  }

  Status train(std::uint64_t iterations, TrainingState state = {.seed = 1},
               Asynchrony asynchrony = Asynchrony::free) {
    Tuned tuned(2, asynchrony);
    Trainer training(*groups_, *feed_, nullptr, std::move(state),
                     {.iterations = iterations,
                      .solver = solver_,
                      .checkpoint_every = checkpoint_every_,
                      .strategy = async(asynchrony, Compensation::theory),
                      .make_clock = make_clock_,
                      .use_groups =
                          [this](int count) {
                            groups_->use(count, 2);
                            return Status();
                          }},
                     {.on_iteration = [this](const StepReport& at) { drawn_.push_back(at); },
                      .on_step = [this](const StepReport& at) { reports_.push_back(at); },
                      .save_checkpoint =
                          [this](const TrainingState& at) {
                            saved_.push_back(at);
                            saved_.back().kept.clear();  // these pointers are valid only now
                            if (on_save_) on_save_(at);
                            return Status();
                          },
                      .say =
                          [this](const std::string& line) {
                            said_.push_back(line);
                            if (stop_in_a_search_ && line.starts_with("auto: trial"))
                              std::raise(SIGTERM);
                          },
                      .record = [this](const nlohmann::ordered_json& line) { note_trial(line); }},
                     {&tuned});
    Status status = training.run();
    state_ = training.state();
    tuning_ = tuned.tuning();
    lost_ = tuned.lost();
    return status;
  }

  void note_trial(const nlohmann::ordered_json& line) {
    if (line.contains("returned_to")) returned_to_.push_back(line["returned_to"]);
    if (!line.contains("trial")) return;
    trials_.push_back({.number = line["trial"],
                       .setting = {line["groups"], line["momentum"], line["learning_rate"]},
                       .chosen = line["chosen"],
                       .reason = line["reason"]});
    began_.push_back(line["iteration"]);
  }

  // Returns the state of a training in a checkpoint of iteration 100.
  static TrainingState tuned_state(const Tuning& tuning, std::uint64_t lost = 0) {
    TrainingState state{.seed = 1, .iteration = 100, .samples = 600, .average_loss = 1};
    state.pilots["tuned"] = {tuning.momentum,
                             tuning.learning_rate,
                             tuning.warm ? 1.0 : 0.0,
                             std::min(static_cast<double>(tuning.next_search), 1e12),
                             static_cast<double>(lost),
                             tuning.failed.empty() ? 0 : tuning.failed.begin()->second,
                             static_cast<double>(tuning.returns),
                             1e30,
                             0};
    return state;
  }

  // All groups share one simulated core, so several groups are slower than one.
  void simulate() {
    const auto machine = parse_machine(
        R"({"name": "a core", "devices": [{"kind": "cpu", "flops_per_second": 1e9}]})", "machine");
    ASSERT_TRUE(machine) << machine.error().message();
    make_clock_ = [machine = *machine](int groups) {
      return std::make_unique<VirtualClock>(machine, place_on(machine, groups, false),
                                            NetCosts{.flops = 1e7 * groups}, 7);
    };
  }

  // Returns the state of the virtual clock with one group, whose mini-batch of 6 samples is not
  // finished.
  ArrivalState arrivals_at(double seconds) const {
    const auto clock = make_clock_(1);
    clock->begin(0, 6, Sends::update);
    ArrivalState arrivals{clock->state(), {6}, -1, "a core"};
    arrivals.clock.now = seconds;
    return arrivals;
  }

  std::vector<std::vector<float>> masters() {
    std::vector<std::vector<float>> all;
    for (const Param* param : groups_->net().params()) {
      const HostAccess access(*param->master, HostAccess::Mode::read);
      all.emplace_back(access.f32().begin(), access.f32().end());
    }
    return all;
  }

  test::TemporaryDirectory folder_;
  Result<Session> session_;
  std::unique_ptr<Dataset> data_;
  SolverOptions solver_;
  std::optional<ComputeGroups> groups_;
  std::unique_ptr<DataFeed> feed_;
  std::vector<StepReport> reports_, drawn_;  // of steps, and of every iteration
  std::vector<std::string> said_;
  std::vector<Trial> trials_;
  std::vector<std::uint64_t> began_;        // by trial
  std::vector<std::uint64_t> returned_to_;  // iterations of the states, by return
  TrainingState state_;
  std::vector<TrainingState> saved_;
  std::function<void(const TrainingState&)> on_save_{};
  bool stop_in_a_search_ = false;
  MakeClock make_clock_;
  Tuning tuning_;
  std::uint64_t lost_ = 0;
  std::uint64_t checkpoint_every_ = 0;
};

}  // namespace omni
