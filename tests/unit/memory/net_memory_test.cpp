// These tests check all shipped nets and the nets that are compared with Darknet. No task may read
// a tensor after another tensor's task wrote to the same memory.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>

#include "codelets/elementwise/exchange.hpp"
#include "layers/formats/darknet/darknet.hpp"
#include "layers/net.hpp"
#include "runtime/tasks/task_capture.hpp"
#include "runtime/tasks/tensor_pool.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

// Returns the first access of a tensor whose memory holds another tensor's values, or "". Tasks are
// in the order of submission.
std::string first_mistake(const std::vector<CapturedTask>& tasks) {
  std::map<std::uint32_t, const Tensor*> written;  // by memory: whose values lie there
  for (const CapturedTask& task : tasks)
    for (const CapturedTask::Use& use : task.uses) {
      const Tensor*& there = written.try_emplace(use.id(), use.part.tensor).first->second;
      if (use.mode != AccessMode::write && there != use.part.tensor)
        return task.codelet + " finds " + there->name() + " in " + use.part.tensor->name();
      there = use.part.tensor;
    }
  return "";
}

// Returns the first access that reads a transient tensor before a task has written it, or "".
std::string first_memory(const std::vector<CapturedTask>& tasks) {
  std::set<const Tensor*> written;
  for (const CapturedTask& task : tasks)
    for (const CapturedTask::Use& use : task.uses) {
      const Tensor* tensor = use.part.tensor;
      if (use.mode == AccessMode::write)
        written.insert(tensor);
      else if (tensor->is_transient() && !written.contains(tensor))
        return task.codelet + " finds " + tensor->name();
    }
  return "";
}

class CapturedNet {
 public:
  explicit CapturedNet(Net& net) : net_(net), images_("images", 1, net.values()) {
    const auto each_slice = [&](Tensor& tensor) {
      return std::vector<Tensor*>(net.slices().sizes.size(), &tensor);
    };
    slot_ = {each_slice(images_), each_slice(rest_), each_slice(rest_)};
  }
  void train() {
    net_.forward({.training = true, .slot = &slot_});
    const UpdateOf update_of = [](const Param&) { return ExchangeArgs(); };
    net_.backward({.training = true, .slot = &slot_, .update_of = &update_of});
  }
  void evaluate() { net_.forward({.training = false, .slot = &slot_}); }

 private:
  Net& net_;
  Tensor images_, rest_{"labels and metrics", 1};
  BatchSlot slot_;
};

std::unique_ptr<Net> training_net(const fs::path& cfg, int slice, bool replicas, DataType values) {
  std::ostringstream text;
  text << std::ifstream(cfg).rdbuf();
  const bool loss = text.str().find("[softmax]") != std::string::npos ||
                    text.str().find("[logistic]") != std::string::npos;
  if (!loss) text << "\n[softmax]\n";
  auto built =
      Net::build(*parse_darknet_cfg(text.str(), cfg.string()), {.slice = slice,
                                                                .values = values,
                                                                .sharing = {.replicas = replicas},
                                                                .update_in_backward = true});
  if (!built) throw std::runtime_error(built.error().message());
  return std::move(*built);
}

// Returns the path of each net twice: with values in floats and in bf16.
std::vector<std::pair<fs::path, DataType>> cfgs() {
  std::vector<std::pair<fs::path, DataType>> found;
  for (const char* folder : {"/apps/nets", "/tests/e2e/oracle_nets"})
    for (const auto& entry : fs::directory_iterator(OMNI_SOURCE_DIR + std::string(folder)))
      if (entry.path().extension() == ".cfg")
        for (const DataType values : {DataType::f32, DataType::bf16})
          found.emplace_back(entry.path(), values);
  return found;
}

TEST(NetMemory, S14_nobody_reads_what_another_tensor_left) {
  int sharing = 0;
  for (const auto& [cfg, values] : cfgs())
    for (const bool replicas : {false, true})
      for (const int slice : {0, 1}) {
        const bool shipped = cfg.parent_path().filename() == "nets";
        if (slice == 1 && shipped) continue;  // hundreds of slices
        const auto net = training_net(cfg, slice, replicas, values);
        CapturedNet captured(*net);
        const auto tasks = task_capture::capture_tasks([&] {
          for (int twice = 0; twice < 2; ++twice) {
            captured.train();
            captured.train();
            captured.evaluate();
            captured.evaluate();
          }
        });
        EXPECT_EQ(first_mistake(tasks), "") << cfg;
        EXPECT_EQ(first_memory(tasks), "") << cfg;
        EXPECT_EQ(first_memory(task_capture::capture_tasks([&] {
                    captured.evaluate();
                    captured.train();
                  })),
                  "")
            << cfg;
        EXPECT_TRUE(std::ranges::any_of(net->tensor_sizes(), &TensorSize::is_transient)) << cfg;
        EXPECT_LE(net->tensor_bytes(), net->declared_bytes()) << cfg;
        const bool shares = net->tensor_bytes() < net->declared_bytes();
        EXPECT_TRUE(shares || !shipped) << cfg;
        sharing += shares;
      }
  EXPECT_GE(sharing, 60);
}

TEST(NetMemory, TheCheckSeesAMistake) {
  Tensor one("one", 4), other("other", 4);
  const auto task = [](const Tensor& tensor, AccessMode mode) {
    CapturedTask one_use;
    one_use.codelet = "task";
    one_use.uses.push_back({tensor, mode});
    return one_use;
  };
  std::vector<CapturedTask> tasks{task(one, AccessMode::write), task(other, AccessMode::write),
                                  task(one, AccessMode::read)};
  EXPECT_EQ(first_mistake(tasks), "");
  other.place_in(one);
  EXPECT_EQ(first_mistake(tasks), "task finds other in one");
  std::swap(tasks[1], tasks[2]);
  EXPECT_EQ(first_mistake(tasks), "");
}

TEST(NetMemory, TheOtherCheckSeesAMistake) {
  Tensor tensor("it", 4);
  CapturedTask task;
  task.codelet = "task";
  task.uses.push_back({tensor, AccessMode::read_write});
  EXPECT_EQ(first_memory({task}), "");
  tensor.make_transient();
  EXPECT_EQ(first_memory({task}), "task finds it");
}

}  // namespace
}  // namespace omni
