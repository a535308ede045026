// These tests check the shipped nets. The numbers of parameters of nets that others published are
// those of Caffe's model zoo and torchvision. The multiply-adds were worked out by hand and agree
// with Darknet's layer tables.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "layers/formats/darknet/darknet.hpp"
#include "layers/net.hpp"
#include "layers/slice_choice.hpp"
#include "runtime/bf16/float_copies.hpp"
#include "runtime/communicator/transfers.hpp"
#include "runtime/log.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni {
namespace {

struct Shipped {
  const char* name;
  std::size_t parameters;
  int classes;
};

void PrintTo(const Shipped& net, std::ostream* stream) { *stream << net.name; }

class ShippedNet : public testing::TestWithParam<Shipped> {};

TEST_P(ShippedNet, BuildsStrictlyWithoutAWarningAndHasThePublishedSize) {
  const log::Capture said;
  auto spec = read_darknet_cfg(
      OMNI_SOURCE_DIR "/apps/nets/" + std::string(GetParam().name) + ".cfg", {.strict = true});
  ASSERT_TRUE(spec) << spec.error().message();
  auto net = Net::build(*spec, {.training = false});
  ASSERT_TRUE(net) << net.error().message();
  EXPECT_EQ(said.text(), "");
  EXPECT_EQ((*net)->parameter_count(), GetParam().parameters);
  EXPECT_EQ((*net)->classes(), GetParam().classes);
}

INSTANTIATE_TEST_SUITE_P(
    All, ShippedNet,
    testing::Values(Shipped{"lenet", 431'080, 10}, Shipped{"mlp", 5'824'522, 10},
                    Shipped{"cifar10-quick", 145'578, 10}, Shipped{"small-photos", 145'706, 10},
                    Shipped{"alexnet", 62'378'344, 1000}, Shipped{"caffenet", 60'965'224, 1000},
                    Shipped{"vgg-16", 138'357'544, 1000}, Shipped{"resnet-18", 11'689'512, 1000},
                    Shipped{"resnet-50", 25'557'032, 1000}, Shipped{"darknet19", 20'842'376, 1000},
                    Shipped{"resnet-18-32", 11'173'962, 10}, Shipped{"covtype-mlp", 1'342'466, 2},
                    Shipped{"w8a-mlp", 1'993'730, 2}));

// Returns the number of images in each slice of a mini-batch.
std::vector<int> slices(const char* name, int cores, int images = 256, int ranks = 1) {
  auto spec = read_darknet_cfg(OMNI_SOURCE_DIR "/apps/nets/" + std::string(name) + ".cfg");
  spec->options.batch = images;
  spec->options.subdivisions = 1;
  return (*Net::build(*spec, {.cores = cores, .shares = {.ranks = ranks}, .most_ranks = ranks}))
      ->slices()
      .sizes;
}

TEST(Slices, every_core_has_one) {
  EXPECT_EQ(slices("caffenet", 64), std::vector<int>(64, 4));
  std::vector<int> uneven(43, 6);  // two slices of three images would take a core just as long
  uneven.back() = 4;
  EXPECT_EQ(slices("caffenet", 48), uneven);
}

// In these nets all layers but the last are normalised, and wait for all slices. Still each core
// has a slice.
TEST(Slices, of_normalised_nets_are_one_for_each_core) {
  for (const char* name : {"resnet-18-32", "resnet-50", "darknet19"})
    EXPECT_EQ(slices(name, 16), std::vector<int>(16, 16)) << name;
  EXPECT_EQ(slices("resnet-18-32", 2), std::vector<int>(4, 64));
}

TEST(Slices, of_small_normalised_nets_keep_cores_busy) {
  const auto count = [](int cores) {
    const NetDescription spec = *parse_darknet_cfg(
        "[net]\nbatch=128\nheight=32\nwidth=32\nchannels=3\n[convolutional]\nfilters=16\nsize=3\n"
        "pad=1\nbatch_normalize=1\nactivation=relu\n[connected]\noutput=10\n[softmax]\n",
        "small.cfg");
    return (*Net::build(spec, {.training = true, .cores = cores}))->slices().count();
  };
  EXPECT_EQ(count(1), 1) << "nothing to gain";
  EXPECT_EQ(count(2), 4);
  EXPECT_GT(count(16), 8);
}

TEST(Slices, are_of_one_size) {
  EXPECT_EQ(slices("caffenet", 2, 100), (std::vector{17, 17, 17, 17, 17, 15}));
  EXPECT_EQ(slices("caffenet", 1, 100), (std::vector{15, 15, 15, 15, 15, 15, 10}));
  EXPECT_EQ(slices("cifar10-quick", 2, 100), std::vector<int>(4, 25));
  EXPECT_EQ(slices("caffenet", 6, 128), (std::vector{22, 22, 22, 22, 22, 18}));  // not 8 of 16
  EXPECT_EQ(slices("caffenet", 3, 64), (std::vector{22, 22, 20}));
  EXPECT_EQ(slices("caffenet", 64, 5), std::vector<int>(5, 1));
  EXPECT_EQ(slices("caffenet", 0, 1), std::vector{1});
}

TEST(Slices, of_small_batches_are_one_for_each_of_few_cores) {
  EXPECT_EQ(slices("resnet-18", 1, 16), std::vector{16});
  EXPECT_EQ(slices("resnet-18", 2, 16), std::vector(2, 8));
  EXPECT_EQ(slices("resnet-18", 4, 16), std::vector(4, 4));
  EXPECT_EQ(slices("resnet-18", 0, 16), std::vector(4, 4));  // --deterministic: on any machine
  EXPECT_EQ(slices("resnet-18", 1, 32), std::vector(4, 8));
}

TEST(Slices, are_large_enough_to_be_worth_a_task) {
  const std::vector<int> sizes = slices("lenet", 64);
  EXPECT_GT(sizes.front(), 256 / 64);
  EXPECT_LT(sizes.front(), 64);
}

TEST(Slices, few_cores_change_nothing_of_larger_ones) {
  for (const char* name : {"caffenet", "lenet", "resnet-50"})
    EXPECT_EQ(slices(name, 4), slices(name, 0)) << name;
}

// Returns how the layer with the most parameters is computed, by default of CaffeNet.
std::string largest_layer(const BuildOptions& options,
                          const std::string& path = OMNI_SOURCE_DIR "/apps/nets/caffenet.cfg") {
  const auto spec = read_darknet_cfg(path);
  const auto built = Net::build(*spec, options);
  const Net& net = **built;
  std::string detail;
  std::size_t most = 0;
  for (const auto& layer : net.layers())
    for (const Param* param : layer->params())
      if (param->master->count() > most) {
        most = param->master->count();
        detail = layer->detail();
      }
  return detail;
}

TEST(ConnectedBlocks, are_the_same_on_all_cores) {
  EXPECT_EQ(largest_layer({}), "4096, 8 blocks");
  EXPECT_EQ(largest_layer({.cores = 3}), "4096, 8 blocks");
}

// A guest stands for a group that another rank computes. Only its merged layers are computed here.
TEST(ConnectedBlocks, are_the_same_for_guests) {
  EXPECT_EQ(largest_layer({.sharing = {.replicas = true, .guest = true}}), "4096, 8 blocks");
}

TEST(ConnectedBlocks, fill_a_gpu_each) {
  EXPECT_EQ(largest_layer({.gpus = 1}), "4096");
  EXPECT_EQ(largest_layer({.gpus = 4}), "4096, 4 blocks");
  EXPECT_EQ(largest_layer({.slice = 16, .gpus = 1}), "4096, 8 blocks");  // cores compute, too
}

// A layer with fewer neurons than two blocks is not cut into blocks.
TEST(ConnectedBlocks, are_not_one_alone) {
  const test::TemporaryDirectory folder;
  const std::string path = folder / "few.cfg";
  const auto with_neurons = [&](int count) {
    std::ofstream(path) << "[net]\nbatch=4\ninputs=131072\n[connected]\noutput=" << count
                        << "\n[softmax]\n";
    return largest_layer({}, path);
  };
  EXPECT_EQ(with_neurons(10), "10");
  EXPECT_EQ(with_neurons(32), "32, 2 blocks");
}

// Ranks that sum their gradients must cut layers into equal blocks, whatever their numbers of GPUs
// and slices.
TEST(ConnectedBlocks, of_several_ranks_do_not_depend_on_one_of_them) {
  for (const int gpus : {0, 1, 4})
    for (const int slices : {1, 8}) {
      const ConnectedShares large{1024, 1024, 16, 1, gpus, 2}, small{1023, 1024, 16, 16, gpus, 64};
      EXPECT_EQ(choose_connected_blocks(large, slices).width, 128);
      EXPECT_EQ(choose_connected_blocks(small, slices).width, 1024);
    }
}

TEST(DividedNeurons, are_some_of_each_rank) {
  const auto divided = [](ConnectedShares shares) {
    const ConnectedBlocks blocks = divide_neurons(shares);
    return std::pair(blocks.width, blocks.per_rank);
  };
  EXPECT_EQ(divided({800, 500, 64, 1, 0, 2}), std::pair(256, 1));
  EXPECT_EQ(divided({9216, 4096, 64, 4, 0, 2}), std::pair(512, 4)) << "a block for each core";
  EXPECT_EQ(divided({9216, 4096, 64, 16, 2, 3}), std::pair(688, 2)) << "or for each GPU";
  EXPECT_EQ(divided({9216, 4096, 64, 16, 0, 15}), std::pair(48, 6)) << "no rank has fewer blocks";
  EXPECT_EQ(divided({800, 500, 64, 1, 0, 1}).second, 0);
  EXPECT_EQ(divided({9216, 4096, 64, 1, 0, 64}), std::pair(288, 1)) << "of 15 ranks";
  EXPECT_EQ(divided({800, 500, 48, 4, 0, 17}), std::pair(48, 1)) << "of 11 ranks";
  EXPECT_EQ(divided({800, 500, 500, 1, 0, 2}).second, 0)
      << "525,000 values to send, 400,000 weights";
  EXPECT_EQ(divided({16384, 10, 8, 1, 0, 2}).second, 0) << "too few neurons";
}

// Ranks send messages for every slice, so larger slices mean fewer messages.
TEST(Slices, of_a_rank_are_fewer) {
  EXPECT_EQ(slices("caffenet", 1, 32), std::vector(4, 8));
  EXPECT_EQ(slices("caffenet", 1, 64, 2), std::vector{32});
  EXPECT_EQ(slices("caffenet", 2, 64, 2), std::vector(2, 16));
  EXPECT_EQ(slices("caffenet", 1, 256, 2), std::vector(4, 32));
  EXPECT_EQ(slices("cifar10-quick", 1, 100, 2), std::vector{50});
}

// A rank with four cores and three quarters of the images beside one with two cores. Both know all
// slices.
TEST(Slices, of_unlike_ranks_are_as_many_as_their_cores) {
  auto spec = read_darknet_cfg(OMNI_SOURCE_DIR "/apps/nets/caffenet.cfg");
  spec->options.batch = 256;
  spec->options.subdivisions = 1;
  const auto slices = [&](int rank) {
    return (*Net::build(*spec, {.cores = 2,
                                .shares = {rank, 2, {3, 1}},
                                .cores_by_rank = {4, 2},
                                .most_ranks = 2}))
        ->slices();
  };
  const Slices first = slices(0), second = slices(1);
  EXPECT_EQ(first.images(), 192);
  EXPECT_EQ(second.images(), 64);
  EXPECT_EQ(second.before, 192);
  EXPECT_EQ(first.count() % 4, 0);
  EXPECT_EQ(second.sizes, std::vector(2, 32));
  EXPECT_EQ(first.all_sizes, second.all_sizes);
  EXPECT_EQ(first.owners, second.owners);
  EXPECT_EQ(second.first, first.count());
}

// If a received tensor shared its memory, the message would wait until the memory is free.
TEST(DividedNeurons, are_received_in_memory_of_their_own) {
  const auto spec = read_darknet_cfg(OMNI_SOURCE_DIR "/apps/nets/caffenet.cfg");
  const auto built = Net::build(*spec, {.slice = 16, .shares = {1, 2}, .most_ranks = 2});
  std::map<const Tensor*, std::set<const Tensor*>> users;
  std::set<const Tensor*> received;
  for (const CapturedTask& task : (*built)->capture_tasks(task_capture::Working::unknown))
    for (const CapturedTask::Use& use : task.uses) {
      if (task.layer == 0) continue;  // its images are gone
      users[&use.part.tensor->storage()].insert(use.part.tensor);
      if (task.codelet == kTransferName && use.mode == AccessMode::write)
        received.insert(use.part.tensor);
    }
  EXPECT_GT(received.size(), 10u);
  for (const Tensor* each : received) EXPECT_EQ(users[&each->storage()].size(), 1u) << each->name();
}

// A task of a training accesses at most kMostBuffers tensors, with few ranks of many cores and with
// many ranks of few cores.
TEST(DividedNeurons, fit_the_buffers_of_a_task) {
  const auto spec = read_darknet_cfg(OMNI_SOURCE_DIR "/apps/nets/caffenet.cfg");
  for (const auto& [ranks, cores, gpus] :
       {std::array{2, 8, 0}, {3, 16, 0}, {4, 4, 4}, {9, 2, 0}, {15, 8, 0}, {17, 1, 1}}) {
    const auto built = Net::build(
        *spec, {.gpus = gpus, .cores = cores, .shares = {ranks - 1, ranks}, .most_ranks = ranks});
    std::size_t most = 0;
    for (const CapturedTask& task : (*built)->capture_tasks(task_capture::Working::unknown))
      most = std::max(most, task.uses.size());
    EXPECT_LE(most, kMostBuffers) << ranks << " ranks of " << cores << " cores";
  }
}

TEST(DividedNeurons, fit_the_buffers_of_a_task_of_unlike_ranks) {
  const auto spec = read_darknet_cfg(OMNI_SOURCE_DIR "/apps/nets/caffenet.cfg");
  for (const int rank : {0, 1, 2}) {
    const auto built = Net::build(*spec, {.cores = 2,
                                          .shares = {rank, 3, {20, 1, 3}},
                                          .cores_by_rank = {48, 2, 8},
                                          .most_ranks = 3});
    for (const CapturedTask& task : (*built)->capture_tasks(task_capture::Working::unknown))
      EXPECT_LE(task.uses.size(), kMostBuffers) << rank << ": " << task.codelet;
  }
}

// Neurons are divided among ranks only in trainings with one group, and not with `fixed_sums`,
// where results must not depend on the number of ranks.
TEST(DividedNeurons, are_in_training_of_one_group_only) {
  EXPECT_EQ(largest_layer({.shares = {1, 3}, .most_ranks = 3}), "4096, 1 of 3 blocks");
  EXPECT_EQ(largest_layer({.training = false, .shares = {1, 3}, .most_ranks = 3}),
            "4096, 8 blocks");
  EXPECT_EQ(largest_layer({.shares = {1, 4}, .most_ranks = 4, .fixed_sums = true}),
            "4096, 8 blocks");
  EXPECT_EQ(largest_layer({.shares = {1, 3}, .most_ranks = 3, .sharing = {.replicas = true}}),
            "4096, 8 blocks");
}

}  // namespace
}  // namespace omni
