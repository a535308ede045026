// GroupTraining trains a small net in compute groups on synthetic images, for tests that compare
// the results.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "layers/formats/darknet/darknet.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/data/open.hpp"
#include "runtime/tasks/host_access.hpp"
#include "scheduling/training/trainer.hpp"

namespace omni::test {

inline std::vector<float> values(const Tensor& tensor) {
  const HostAccess access(tensor, HostAccess::Mode::read);
  return {access.f32().begin(), access.f32().end()};
}

inline void set(const Tensor& tensor, const std::vector<float>& values) {
  const HostAccess access(tensor, HostAccess::Mode::write);
  std::ranges::copy(values, access.f32().begin());
}

// Stops a training at an iteration, as a signal would do.
class StopAt : public Pilot {
 public:
  explicit StopAt(std::uint64_t iteration) : iteration_(iteration) {}
  std::string_view name() const override { return "stop-at"; }
  std::uint64_t next_rest() const override { return iteration_; }
  Status rested(Trainer& training) override {
    const std::uint64_t now = training.state().iteration;
    return now < iteration_ ? Status() : stopped_after(now);
  }

 private:
  std::uint64_t iteration_;
};

// Trains with another learning rate or momentum than the net's.
class Steered : public Pilot {
 public:
  explicit Steered(const Steering& by) : by_(by) {}
  std::string_view name() const override { return "steered"; }
  Steering steering() const override { return by_; }

 private:
  Steering by_;
};

class GroupTraining {
 public:
  explicit GroupTraining(const std::string& cfg, int count = 1,
                         FullyConnected fully_connected = FullyConnected::merged,
                         const BuildOptions& build = {})
      : GroupTraining(cfg, count, Sharing{.fully_connected = fully_connected}, build) {}

  // `images_per_pass` has the images per pass of each group. If it is empty, a pass takes the whole
  // mini-batch.
  GroupTraining(const std::string& cfg, int count, const Sharing& like, const BuildOptions& build,
                const std::vector<int>& images_per_pass = {})
      : solver(parse_darknet_cfg(cfg, "net.cfg")->solver),
        groups(make(cfg, count, like, build, images_per_pass)) {
    const Extent input = groups.net().options().input;
    const int classes = groups.net().classes();
    auto data = open_dataset({.source = "synthetic:60:" + std::to_string(classes),
                              .net_input = input,
                              .classes = classes,
                              .seed = 5});
    data_ = std::move(data->train);
    feed = make_feed(groups.net(), Trainer::slots(groups));
    for (int group = 0; !images_per_pass.empty() && group < count; ++group) {
      own_feeds_.push_back(make_feed(groups.net(group), Trainer::slots_of_passes(1)));
      feeds.push_back(own_feeds_.back().get());
    }
    EXPECT_TRUE(groups.allocate());
    groups.net().initialise(1);
    groups.refresh_replicas();
  }

  // Trains to the end, or to the iteration `until`.
  void train(TrainerOptions options, std::uint64_t until = UINT64_MAX) {
    options.solver = solver;
    options.feeds = feeds;
    StopAt stop(until);
    std::vector<Pilot*> all = pilots;
    all.push_back(&stop);
    Trainer trainer(groups, *feed, nullptr, state, options,
                    {.on_iteration = [this](const StepReport& at) { reports.push_back(at); }}, all);
    const Status trained = trainer.run();
    EXPECT_TRUE(trained || trained.error().kind == ErrorKind::interrupted)
        << trained.error().message();
    state.strategy = trainer.state().strategy;
    state.arrivals = trainer.state().arrivals;
    done = trainer.state();
    if (feeds.empty()) {
      EXPECT_EQ(done.iteration, std::min(until, options.iterations));
    }
  }

  std::vector<std::vector<float>> masters() {
    std::vector<std::vector<float>> all;
    for (const Param* param : groups.net().params()) all.push_back(values(*param->master));
    return all;
  }

  SolverOptions solver;
  ComputeGroups groups;
  std::unique_ptr<DataFeed> feed;
  std::vector<StepReport> reports;
  std::vector<Pilot*> pilots;
  std::vector<DataFeed*> feeds;    // by group, where images_per_pass says so
  TrainingState state{.seed = 1};  // where train() begins; it renews strategy and arrivals
  TrainingState done;              // at the end of train()

 private:
  static ComputeGroups make(const std::string& cfg, int count, const Sharing& like,
                            BuildOptions build, const std::vector<int>& images_per_pass) {
    const TrainableNet spec = *parse_darknet_cfg(cfg, "net.cfg", {.strict = true});
    build.adam = spec.solver.adam;
    build.slice = images_per_pass.empty() ? 2 : 0;
    return std::move(*ComputeGroups::make(count, like, [&](const Sharing& sharing, int, int group) {
      build.sharing = sharing;
      if (!images_per_pass.empty()) build.images = images_per_pass[static_cast<std::size_t>(group)];
      return Net::build(spec, build);
    }));
  }
  std::unique_ptr<DataFeed> make_feed(const Net& net, int slots) {
    auto made = std::make_unique<DataFeed>(*data_, FeedOptions{.training = true,
                                                               .seed = 1,
                                                               .augment = {},
                                                               .net_input = net.options().input,
                                                               .slices = net.slices(),
                                                               .slots = slots});
    EXPECT_TRUE(made->allocate());
    return made;
  }
  std::vector<std::unique_ptr<DataFeed>> own_feeds_;
  std::unique_ptr<Dataset> data_;
};

}  // namespace omni::test
