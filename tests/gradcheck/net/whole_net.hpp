// A WholeNet is a net with images and labels, for tests of its gradients.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "layers/formats/darknet/darknet.hpp"
#include "layers/net.hpp"
#include "runtime/rng.hpp"
#include "runtime/tasks/host_access.hpp"
#include "runtime/tasks/session.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "runtime/tasks/tensor_pool.hpp"

namespace omni {

class WholeNet {
 public:
  WholeNet(const std::string& text, int slice) {
    auto built =
        Net::build(*parse_darknet_cfg(text, "net.cfg"), {.training = true, .slice = slice});
    if (!built) throw std::runtime_error(built.error().message());
    net_ = std::move(*built);
    const std::size_t per_image = net_->options().input.count();
    for (const int images : net_->slices().sizes) {
      const auto count = static_cast<std::size_t>(images);
      slot_.images.push_back(&pool_.declare("images", count * per_image, net_->values()));
      slot_.labels.push_back(&pool_.declare("labels", count, DataType::i32));
      slot_.metrics.push_back(&pool_.declare("metrics", net_->metrics()));
    }
    if (!net_->allocate() || !pool_.allocate()) throw std::runtime_error("no memory");
    net_->initialise(7);
    fill_inputs(per_image);
  }

  double loss() { return loss_of(true); }
  double evaluation_loss() { return loss_of(false); }
  // Returns the gradients of trainable(), in the same order, added up from zero.
  std::vector<std::vector<float>> gradients() {
    for (const Param* param : trainable()) {
      const HostAccess access(*param->diff, HostAccess::Mode::write);
      std::fill(access.f32().begin(), access.f32().end(), 0.0f);
    }
    net_->forward(step());
    net_->backward(step());
    EXPECT_TRUE(wait_for_tasks());
    std::vector<std::vector<float>> all;
    for (const Param* param : trainable()) {
      const HostAccess access(*param->diff, HostAccess::Mode::read);
      all.emplace_back(access.f32().begin(), access.f32().end());
    }
    return all;
  }
  // Returns the tasks that a training step or, without `training`, an evaluation submits.
  std::vector<CapturedTask> tasks(bool training) {
    return task_capture::capture_tasks([&] {
      net_->forward(step(training));
      if (training) net_->backward(step());
    });
  }
  std::string detail(std::size_t layer) const { return net_->layers()[layer]->detail(); }
  std::string in_one_task(std::size_t layer) const { return net_->layers()[layer]->in_one_task(); }
  std::size_t declared_bytes() const { return net_->declared_bytes(); }
  std::vector<Param*> trainable() {
    std::vector<Param*> params = net_->params();
    std::erase_if(params, [](const Param* param) { return !param->trainable; });
    return params;
  }

 private:
  Step step(bool training = true) {
    return {.training = training, .seed = 7, .first_sample = 0, .slot = &slot_};
  }
  double loss_of(bool training) {
    net_->forward(step(training));
    EXPECT_TRUE(wait_for_tasks());
    double sum = 0;
    for (const Tensor* metrics : slot_.metrics)
      sum += static_cast<double>(HostAccess(*metrics, HostAccess::Mode::read).f32()[0]);
    return sum;
  }
  void fill_inputs(std::size_t per_image) {
    std::uint64_t image = 0;
    for (std::size_t slice = 0; slice < slot_.images.size(); ++slice) {
      const HostAccess images(*slot_.images[slice], HostAccess::Mode::write);
      const HostAccess labels(*slot_.labels[slice], HostAccess::Mode::write);
      std::vector<float> values;
      for (std::size_t i = 0; i < labels.i32().size(); ++i, ++image) {
        Draws draws(Philox(11, RandomStream::synthetic), image);
        labels.i32()[i] = static_cast<int>(draws.below(4));
        for (std::size_t at = 0; at < per_image; ++at) values.push_back(draws.uniform(-1, 1));
      }
      const bool floats = slot_.images[slice]->type() == DataType::f32;
      for (std::size_t at = 0; at < values.size(); ++at)
        if (floats)
          images.f32()[at] = values[at];
        else
          images.bf16()[at] = values[at];
    }
  }
  std::unique_ptr<Net> net_;
  TensorPool pool_;
  BatchSlot slot_;
};

}  // namespace omni
