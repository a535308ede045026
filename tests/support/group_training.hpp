// Small compute groups that train on computed images, for tests that compare what they learn.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "layers/formats/darknet_cfg.hpp"
#include "runtime/data/dataset.hpp"
#include "scheduling/trainer.hpp"

namespace omni::test {

inline std::vector<float> values(const Tensor& tensor) {
  const HostAccess access(tensor, HostAccess::Mode::read);
  return {access.f32().begin(), access.f32().end()};
}

inline void set(const Tensor& tensor, const std::vector<float>& values) {
  const HostAccess access(tensor, HostAccess::Mode::write);
  std::ranges::copy(values, access.f32().begin());
}

class GroupTraining {
 public:
  explicit GroupTraining(const std::string& cfg, int count = 1,
                         FullyConnected fully_connected = FullyConnected::merged,
                         const BuildOptions& build = {})
      : groups(make(cfg, count, fully_connected, build)) {
    const Extent input = groups.net().options().input;
    const int classes = groups.net().classes();
    auto data = open_dataset({.source = "synthetic:60:" + std::to_string(classes),
                              .net_input = input,
                              .classes = classes,
                              .seed = 5});
    data_ = std::move(data->train);
    feed = std::make_unique<DataFeed>(*data_, FeedOptions{.training = true,
                                                          .seed = 1,
                                                          .augment = {},
                                                          .net_input = input,
                                                          .slices = groups.net().slices(),
                                                          .slots = Trainer::slots(groups)});
    EXPECT_TRUE(groups.allocate());
    EXPECT_TRUE(feed->allocate());
    groups.net().initialise(1);
    groups.refresh_replicas();
  }

  void train(const TrainerOptions& options) {
    Trainer trainer(groups, *feed, nullptr, {.seed = 1, .strategy = state.strategy}, options,
                    {.on_iteration = [this](const StepReport& at) { reports.push_back(at); },
                     .on_step = {},
                     .on_evaluation = {},
                     .save_checkpoint = {}});
    const Status trained = trainer.run();
    EXPECT_TRUE(trained) << trained.error().message();
    state = trainer.state();
    EXPECT_EQ(reports.size(), options.iterations);
  }

  std::vector<std::vector<float>> masters() {
    std::vector<std::vector<float>> all;
    for (const Param* param : groups.net().params()) all.push_back(values(*param->master));
    return all;
  }

  ComputeGroups groups;
  std::unique_ptr<DataFeed> feed;
  std::vector<StepReport> reports;
  TrainingState state;  // after train(), which begins with its strategy's

 private:
  static ComputeGroups make(const std::string& cfg, int count, FullyConnected fully_connected,
                            BuildOptions build) {
    const NetSpec spec = *parse_darknet_cfg(cfg, "net.cfg");
    build.strict = true;
    build.slice = 2;
    return std::move(*ComputeGroups::make(
        count, {.fully_connected = fully_connected}, [&](const Sharing& sharing, int, int) {
          build.sharing = sharing;
          return Net::build(spec, build);
        }));
  }
  std::unique_ptr<Dataset> data_;
};

}  // namespace omni::test
