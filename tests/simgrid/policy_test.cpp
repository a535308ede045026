// These tests run our scheduling policy on simulated machines. They compare the time of a training
// or of a simple graph with StarPU's policies, and with the GPUs alone. Simulated time is the same
// in every run.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <limits>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "tests/simgrid/machine.hpp"

namespace omni::test {
namespace {

using nlohmann::json;

// Simulations run at the same time on all cores of this machine.
class Simulations {
 public:
  std::future<json> start(const Machine& machine, json arguments) {
    return std::async(std::launch::async, [this, machine, arguments = std::move(arguments)] {
      free_.acquire();
      json result = simulate(machine, arguments);
      free_.release();
      return result;
    });
  }

 private:
  std::counting_semaphore<> free_{std::max(1u, std::thread::hardware_concurrency())};
};

json run(const Machine& machine, const json& arguments) {
  json result = simulate(machine, arguments);
  EXPECT_FALSE(result.contains("failed")) << arguments << "\n" << result;
  return result;
}

double seconds(const json& result) { return result.value("seconds", 0.0); }

// Returns the sum of `what` ("tasks", "flops", "seconds" or "trespasses") over the workers of a
// type ("CPU", "CUDA").
double sum(const json& result, const std::string& type, const char* what) {
  double all = 0;
  for (const json& types : result.at("done"))
    if (types.contains(type)) all += types[type].at(what).get<double>();
  return all;
}

json with(json arguments, const json& more) {
  arguments.update(more);
  return arguments;
}

std::string net_file(const char* name) {
  return std::string(OMNI_SOURCE_DIR) + "/apps/nets/" + name + ".cfg";
}

const json kCaffeNet{{"net", net_file("caffenet")}, {"batch", 32}, {"slice", 4}, {"iterations", 8}};
const json kAlexNet{{"net", net_file("alexnet")}, {"batch", 32}, {"slice", 4}, {"iterations", 8}};
const json kResNet{{"net", net_file("resnet-18")}, {"batch", 16}, {"slice", 4}, {"iterations", 8}};
const Machine kCores{.cores = 8}, kOneGpu{.cores = 8, .gpus = 1}, kFourGpus{.cores = 16, .gpus = 4},
    kEightGpus{.cores = 2, .gpus = 8};

struct Case {
  const char* machine_name;
  Machine machine;
  const char* net_name;
  json training;
  double most;           // as a share of the time of the best other policy
  double most_of_bound;  // as a multiple of the bound; a tenth more than was reached
};

TEST(OmniPolicy, is_about_as_fast_as_the_best_of_the_others) {
  const std::vector<Case> cases{{"8 cores", kCores, "CaffeNet", kCaffeNet, 1.02, 1.16},
                                {"8 cores", kCores, "ResNet-18", kResNet, 1.02, 1.13},
                                {"8 cores, 1 GPU", kOneGpu, "CaffeNet", kCaffeNet, 1.02, 1.45},
                                {"8 cores, 1 GPU", kOneGpu, "AlexNet", kAlexNet, 0.9, 1.37},
                                {"8 cores, 1 GPU", kOneGpu, "ResNet-18", kResNet, 1.02, 1.53},
                                {"16 cores, 4 GPUs", kFourGpus, "CaffeNet", kCaffeNet, 1.02, 2.95},
                                {"16 cores, 4 GPUs", kFourGpus, "AlexNet", kAlexNet, 0.9, 2.57},
                                {"16 cores, 4 GPUs", kFourGpus, "ResNet-18", kResNet, 1.02, 3.7},
                                {"2 cores, 8 GPUs", kEightGpus, "CaffeNet", kCaffeNet, 1.02, 3.32},
                                {"2 cores, 8 GPUs", kEightGpus, "ResNet-18", kResNet, 1.02, 4.1}};
  const std::vector<const char*> policies{"omni", "dmdas", "dmda", "lws", "heteroprio"};
  Simulations simulations;
  std::vector<std::vector<std::future<json>>> results;
  for (const Case& each : cases)
    for (auto& row = results.emplace_back(); const char* policy : policies)
      row.push_back(simulations.start(each.machine, with(each.training, {{"scheduler", policy}})));
  std::printf("%-18s%-10s%10s%10s", "machine", "net", "area", "path");
  for (const char* policy : policies) std::printf("%12s", policy);
  std::printf("  ms\n");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& at = cases[i];
    double omni = 0, best = std::numeric_limits<double>::infinity();
    for (std::size_t policy = 0; policy < policies.size(); ++policy) {
      const json result = results[i][policy].get();
      ASSERT_FALSE(result.contains("failed")) << result;
      if (policy == 0) {
        std::printf("%-18s%-10s%10.1f%10.1f", at.machine_name, at.net_name,
                    1000 * result.value("area", 0.0), 1000 * result.value("path", 0.0));
        omni = seconds(result);
        EXPECT_LE(omni,
                  at.most_of_bound * std::max(result.value("area", 0.0), result.value("path", 0.0)))
            << at.machine_name << ", " << at.net_name;
      } else {
        best = std::min(best, seconds(result));
      }
      std::printf("%12.1f", 1000 * seconds(result));
    }
    std::printf("\n");
    EXPECT_LE(omni, at.most * best) << at.machine_name << ", " << at.net_name;
  }
}

// Eight cores together do 8 % or 1 % of the GPU's operations per second. They must not make the
// training slower than on the GPU alone.
TEST(OmniPolicy, is_no_slower_than_the_gpu_alone) {
  for (const json& training : {kCaffeNet, kResNet})
    for (const double core_flops : {50e9, 6.3e9}) {
      const json own = with(training, {{"core_flops", core_flops}, {"iterations", 4}});
      const double alone = seconds(run(kOneGpu, with(own, {{"gpus_only", true}})));
      EXPECT_LE(seconds(run(kOneGpu, own)), alone) << own;
    }
}

// The net is sliced as the engine slices it for one GPU. With cores that are a hundredth as fast,
// it must take no longer than the GPU alone with its best slices. This does not hold for all
// slices: with slices of 8, CaffeNet takes 0.3 % longer.
TEST(OmniPolicy, is_no_slower_than_the_gpu_alone_in_its_best_slices) {
  for (const json& training : {kCaffeNet, kResNet}) {
    const json own = with(training, {{"core_flops", 6.3e9}, {"iterations", 4}});
    const int batch = own["batch"];
    double alone = std::numeric_limits<double>::infinity();
    for (int slice = batch; slice >= 4; slice /= 2)
      alone = std::min(alone,
                       seconds(run(kOneGpu, with(own, {{"gpus_only", true}, {"slice", slice}}))));
    const double together = seconds(run(kOneGpu, with(own, {{"slice", batch}})));
    std::printf("GPU alone, best slices %.2f, with cores %.2f ms\n", 250 * alone, 250 * together);
    EXPECT_GT(together, 0);
    EXPECT_LE(together, alone) << own;
  }
}

// The cores have 30 % of the machine's speed. Omnivore's policy must be nearly as fast as the best
// fixed division of the slices between GPU and cores.
TEST(OmniPolicy, cores_and_a_gpu_are_faster_than_the_gpu) {
  const json training{{"net", net_file("caffenet")},
                      {"batch", 128},
                      {"gpu_flops", 930e9},
                      {"warm", 2},
                      {"iterations", 3}};
  const json sliced = with(training, {{"slice", 4}});
  Simulations simulations;
  auto gpu = simulations.start(kOneGpu, with(training, {{"slice", 16}, {"gpus_only", true}}));
  auto omni = simulations.start(kOneGpu, sliced);
  // `on_gpu` of 32 slices run on the GPU. With fewer slices the cores end last, with more slices
  // the GPU.
  std::vector<std::future<json>> splits;
  for (int on_gpu = 20; on_gpu <= 27; ++on_gpu)
    splits.push_back(simulations.start(kOneGpu, with(sliced, {{"split", on_gpu}})));
  double best = std::numeric_limits<double>::infinity();
  for (auto& split : splits) {
    const json result = split.get();
    ASSERT_FALSE(result.contains("failed")) << result;
    best = std::min(best, seconds(result));
  }
  const double alone = seconds(gpu.get()), together = seconds(omni.get());
  std::printf("GPU alone %.1f, best split %.1f, omni %.1f ms\n", 1000 * alone / 3, 1000 * best / 3,
              1000 * together / 3);
  EXPECT_GT(together, 0);
  EXPECT_LE(together, alone / 1.2);
  EXPECT_LE(together, 1.05 * best);
}

// A mini-batch that is sliced for 64 cores takes little longer than its longest chain of tasks. It
// is faster than one that is sliced for a few cores.
TEST(OmniPolicy, sixty_four_cores_share_a_mini_batch) {
  const Machine machine{.cores = 64};
  const json training{{"net", net_file("caffenet")}, {"batch", 256}, {"iterations", 2}};
  const double one = seconds(run({.cores = 1}, training));
  const json result = run(machine, training);
  const double path = result.at("path"), area = result.at("area");
  std::printf(
      "CaffeNet, 256: 64 cores are %.1f times as fast as one; %.1f ms, path %.1f, area %.1f\n",
      one / seconds(result), 1000 * seconds(result), 1000 * path, 1000 * area);
  EXPECT_LE(seconds(result), 1.1 * std::max(path, area));
  EXPECT_LE(seconds(result), 0.7 * seconds(run(machine, with(training, {{"slice", 16}}))));
}

// Of 4000 tasks the cores should do the share cores / (cores + GPU), up to a tenth of it.
TEST(OmniPolicy, splits_work_in_proportion_to_speed) {
  constexpr double kFlops = 1e8, kCore = 50e9, kGpu = 930e9;
  const double cores = 8 / (kFlops / kCore + 1e-6), gpu = 1 / (kFlops / kGpu + 8e-6);
  for (const int chains : {4000, 100}) {
    const json result =
        run(kOneGpu, {{"tasks", 4000}, {"chains", chains}, {"flops", kFlops}, {"gpu_flops", kGpu}});
    const double share = sum(result, "CPU", "tasks") / 4000;
    EXPECT_NEAR(share, cores / (cores + gpu), 0.1 * cores / (cores + gpu)) << chains << " chains";
    EXPECT_LE(seconds(result), 1.05 * 4000 / (cores + gpu)) << chains << " chains";
  }
}

TEST(OmniPolicy, a_hundred_thousand_tasks_end) {
  const json result =
      run({.cores = 4, .gpus = 1}, {{"tasks", 100'000}, {"chains", 100}, {"flops", 1e6}});
  EXPECT_EQ(sum(result, "CPU", "tasks") + sum(result, "CUDA", "tasks"), 100'000);
}

// Tasks of a compute group run on its workers only, even if other workers are idle.
TEST(OmniPolicy, groups_keep_to_their_workers) {
  const json result =
      run({.cores = 4, .gpus = 2}, with(kCaffeNet, {{"groups", 3}, {"iterations", 6}}));
  EXPECT_GT(sum(result, "CUDA", "tasks"), 0);
  EXPECT_EQ(sum(result, "CPU", "trespasses") + sum(result, "CUDA", "trespasses"), 0);
}

// The models believe, as firmly as StarPU's models can, that a task of 0.2 ms takes 85 ms on the
// GPU.
TEST(OmniPolicy, a_gpu_whose_model_was_poisoned_gets_work_again) {
  const Machine machine{.cores = 4, .gpus = 1};
  const json poisoned{{"flops", 1e9}, {"poisoned", "plain"}, {"poison", 0.085}};
  const json at_once = run(machine, with(poisoned, {{"tasks", 2000}, {"chains", 64}}));
  EXPECT_GE(sum(at_once, "CUDA", "tasks"), 0.9 * 2000) << "many at once";
  const json in_turn = run(machine, with(poisoned, {{"tasks", 2000}, {"chains", 1}}));
  EXPECT_GE(sum(in_turn, "CUDA", "tasks"), 0.4 * 2000) << "one after the other";
}

// A core would take a second for a task that takes a GPU 10 ms. Trying it would make the training
// much slower.
TEST(OmniPolicy, what_no_model_knows_does_not_stall_the_gpus) {
  const json training = with(kCaffeNet, {{"warm", 0}, {"iterations", 3}});
  for (const Machine& machine : {kOneGpu, kFourGpus}) {
    const double known = seconds(run(machine, training));
    EXPECT_LE(seconds(run(machine, with(training, {{"learning", true}}))), 1.25 * known);
  }
}

}  // namespace
}  // namespace omni::test
