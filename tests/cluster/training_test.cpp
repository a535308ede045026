// These tests train one net over several ranks. The ranks must learn what one process learns, also
// after a resume on another number of ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/cluster/ranks.hpp"
#include "tests/support/images/image_folder.hpp"
#include "tests/support/images/jpeg_writer.hpp"
#include "tests/support/net_text.hpp"

namespace omni::test {
namespace {

const std::string kNormalised =
    test::net(24, {12, 12, 3}, "learning_rate=0.05\nmomentum=0.9\ndecay=0.0005\n") +
    convolutional(8, "leaky", "stride=1\npad=1\nbatch_normalize=1\n") +
    convolutional(8, "linear", "pad=1\nbatch_normalize=1\n") +
    layer("shortcut", "from=-2\nactivation=relu\n") + layer("maxpool", "size=2\nstride=2\n") +
    layer("dropout", "probability=0.3\n") + connected(10) + layer("softmax");

class Ranks : public testing::Test {
 protected:
  Ranks() { put(folder_ / "normalised.cfg", kNormalised); }

  Words training(const std::string& net, int iterations, Words more = {}) {
    Words words{
        "--net", net,        "--data",           "synthetic:960:10", "--workers",
        "1",     "--models", folder_ / "models", "--max-batches",    std::to_string(iterations)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // Returns the weights and the summary of a deterministic training.
  std::string bits(int ranks, const std::string& net, Words more = {}) {
    const std::string weights = folder_ / ("w" + std::to_string(ranks));
    more.insert(more.end(), {"--deterministic", "--json", "--save-weights", weights});
    const Finished run = on_ranks(ranks, training(net, 12, more));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    auto summary = nlohmann::json::parse(run.output);
    summary.erase("seconds");
    return get(weights) + summary.dump();
  }
  std::string lenet() { return "lenet"; }

  TemporaryDirectory folder_;
};

TEST_F(Ranks, give_the_same_bits_for_lenet) {
  const Words slices{"--batch", "64", "--slice", "16"};
  const std::string one = bits(1, "lenet", slices);
  EXPECT_EQ(bits(2, "lenet", slices), one);
  EXPECT_EQ(bits(4, "lenet", slices), one);
}

// Six slices are divided among 2, 3, 4 (unevenly) and 6 ranks, nine among 3, 5 and 7.
TEST_F(Ranks, give_the_same_bits_for_lenet_whatever_their_number) {
  for (const auto& [batch, numbers] :
       {std::pair("96", std::vector{2, 3, 4, 6}), std::pair("144", std::vector{3, 5, 7})}) {
    const Words slices{"--batch", batch, "--slice", "16"};
    const std::string one = bits(1, "lenet", slices);
    for (const int ranks : numbers) EXPECT_EQ(bits(ranks, "lenet", slices), one) << ranks;
  }
}

// The last slice has fewer images. With Adam in several passes, slices add to their gradients
// again.
TEST_F(Ranks, give_the_same_bits_for_a_normalised_net_whatever_their_number) {
  const std::string net = folder_ / "normalised.cfg";
  for (const Words& how :
       {Words{"--batch", "23", "--slice", "4"},
        Words{"--batch", "30", "--slice", "3", "--set", "adam=1", "--subdivisions", "2"}}) {
    const std::string one = bits(1, net, how);
    for (const int ranks : {3, 5}) EXPECT_EQ(bits(ranks, net, how), one) << ranks;
  }
}

TEST_F(Ranks, give_the_same_bits_for_a_normalised_net) {
  const Words slices{"--slice", "6"};
  const std::string net = folder_ / "normalised.cfg", one = bits(1, net, slices);
  EXPECT_EQ(bits(2, net, slices), one);
  EXPECT_EQ(bits(4, net, slices), one);
}

TEST_F(Ranks, give_the_same_bits_with_adam_in_several_passes) {
  const Words slices{"--slice", "3", "--set", "adam=1", "--subdivisions", "2"};
  const std::string net = folder_ / "normalised.cfg", one = bits(1, net, slices);
  EXPECT_EQ(bits(2, net, slices), one);
  EXPECT_EQ(bits(4, net, slices), one);
}

// Three ranks have unequal shares of a mini-batch and add up sums in another order. Eight ranks
// exchange batch statistics in rows.
TEST_F(Ranks, learn_alike_on_three_and_on_eight) {
  const auto loss = [&](int ranks) {
    const Finished run = on_ranks(ranks, training(folder_ / "normalised.cfg", 6,
                                                  {"--batch", "25", "--slice", "3", "--json"}));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return nlohmann::json::parse(run.output)["loss_average"].get<double>();
  };
  const double one = loss(1);
  for (const int ranks : {3, 8}) EXPECT_NEAR(loss(ranks), one, 1e-5 * one) << ranks;
}

// Each rank computes some neurons of the connected layers for the images of all ranks. The cases
// have one slice or several, unequal shares, Adam, or several passes. A training that resumes needs
// the velocities of all ranks.
TEST_F(Ranks, divide_neurons_and_learn_alike) {
  const auto run = [&](int ranks, const std::string& iterations, Words more) {
    more.insert(more.end(), {"--net", "lenet", "--data", "synthetic:480:10", "--models",
                             folder_ / "models", "--max-batches", iterations, "--json"});
    const Finished finished = on_ranks(ranks, std::move(more));
    EXPECT_EQ(finished.exit_code, 0) << finished.errors;
    EXPECT_EQ(ranks > 1, finished.errors.find("1 of ") != std::string::npos) << finished.errors;
    return nlohmann::json::parse(finished.output, nullptr, false)["loss_average"].get<double>();
  };
  const std::vector<Words> ways{
      {"--workers", "1", "--batch", "32"},
      {"--workers", "1", "--batch", "47", "--slice", "5"},
      {"--workers", "1", "--batch", "32", "--set", "adam=1", "--learning-rate", "0.0005"},
      {"--workers", "1", "--batch", "64", "--subdivisions", "2"},
  };
  for (const Words& way : ways) {
    const double one = run(1, "12", way);
    for (const int ranks : {2, 3}) EXPECT_NEAR(run(ranks, "12", way), one, 1e-4 * one) << way[3];
    EXPECT_LT(one, 2.28) << way[3];
  }
  const double one = run(1, "3", ways.front());
  EXPECT_NEAR(run(17, "3", ways.front()), one, 1e-4 * one) << "11 ranks have neurons";
  Words saving = ways.front();
  const std::string out = folder_ / "run";
  saving.insert(saving.end(), {"--out", out, "--checkpoint-every", "6"});
  run(3, "6", saving);
  Words resuming = ways.front();
  resuming.insert(resuming.end(), {"--out", out, "--resume", "auto"});
  const double straight = run(2, "12", ways.front());
  EXPECT_NEAR(run(2, "12", resuming), straight, 1e-4 * straight);
}

// A small image of the next mini-batch may be decoded before a large one of this mini-batch. The
// first layer must still send images to other ranks in the order of mini-batches.
TEST_F(Ranks, send_images_in_the_order_of_mini_batches) {
  const std::string net = folder_ / "connected.cfg";
  put(net,
      "[net]\nbatch=4\nheight=16\nwidth=16\nchannels=3\nlearning_rate=0.01\nmomentum=0.9\n"
      "[connected]\noutput=512\nactivation=relu\n[connected]\noutput=2\nactivation=linear\n"
      "[softmax]\n");
  for (int i = 0; i < 24; ++i) {
    const std::filesystem::path label = folder_ / "images" / "train" / (i % 3 == 0 ? "a" : "b");
    const int edge = i % 2 == 0 ? 1200 : 16;
    std::filesystem::create_directories(label);
    put(label / (std::to_string(i) + ".jpg"),
        make_jpeg(edge, edge,
                  std::vector<std::uint8_t>(3 * edge * edge, static_cast<std::uint8_t>(10 * i))));
  }
  const auto loss = [&](int ranks) {
    const Finished run =
        on_ranks(ranks, {"--net", net, "--data", folder_ / "images", "--workers", "2", "--models",
                         folder_ / "models", "--max-batches", "120", "--no-test", "--json"});
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return nlohmann::json::parse(run.output, nullptr, false)["loss_average"].get<double>();
  };
  const double one = loss(1);
  EXPECT_NEAR(loss(2), one, 1e-4 * one);
}

// Each rank reads a share of the images. Damaged images are counted over all ranks, and the first
// rank lists all of them.
TEST_F(Ranks, skip_damaged_images) {
  const std::string net = folder_ / "images.cfg", set = folder_ / "set";
  put(net, kImageNet);
  make_image_folder(set, 40, 10);
  Words damaged{set + "/train/blue/3.jpg", set + "/train/red/21.jpg"};
  const std::string of_test = set + "/val/green/44.jpg";
  for (const std::string& path : damaged) put(path, get(path).substr(0, 400));
  put(of_test, get(of_test).substr(0, 400));
  const auto train = [&](int ranks, const char* share) {
    const std::string number = std::to_string(ranks) + share;
    return on_ranks(ranks, {"--net",
                            net,
                            "--data",
                            set,
                            "--workers",
                            "1",
                            "--models",
                            folder_ / "models",
                            "--epochs",
                            "3",
                            "--slice",
                            "6",
                            "--deterministic",
                            "--damaged-images",
                            share,
                            "--metrics",
                            folder_ / ("m" + number),
                            "--save-weights",
                            folder_ / ("w" + number),
                            "--json"});
  };
  for (const int ranks : {1, 2}) {
    const Finished run = train(ranks, "4%");
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_EQ(nlohmann::json::parse(run.output)["damaged_images"], 2);
    EXPECT_EQ(nlohmann::json::parse(run.output)["damaged_test_images"], 1);
    EXPECT_NE(run.errors.find(" on 29 images"), std::string::npos) << run.errors;
    for (const std::string& path : {damaged[0], damaged[1], of_test})
      EXPECT_NE(run.errors.find("warning: skipped: " + path), std::string::npos) << run.errors;
    Words listed;
    for (const auto& line : read_metrics(folder_ / ("m" + std::to_string(ranks) + "4%")))
      if (line.contains("damaged_image")) listed.push_back(line["damaged_image"]);
    std::ranges::sort(listed);
    EXPECT_EQ(listed, damaged);
  }
  EXPECT_TRUE(get(folder_ / "w14%") == get(folder_ / "w24%"));

  std::filesystem::copy(set + "/val/green/40.jpg", of_test,
                        std::filesystem::copy_options::overwrite_existing);
  const Finished many = train(2, "1%");
  EXPECT_EQ(many.exit_code, 3) << many.errors;
  EXPECT_NE(many.errors.find("2 of 120 training images cannot be read, more than"),
            std::string::npos)
      << many.errors;
}

TEST_F(Ranks, measure_their_links) {
  const Finished devices = on_ranks(3, {"devices", "--json"});
  ASSERT_EQ(devices.exit_code, 0) << devices.errors;
  const auto links = nlohmann::json::parse(devices.output)["links"];
  ASSERT_EQ(links.size(), 3u);
  for (const auto& link : links) {
    EXPECT_GT(link["latency_seconds"], 0);
    EXPECT_GT(link["bytes_per_second"], 0);
    EXPECT_GT(link["core_seconds_per_message"], 0);
  }
  EXPECT_NE(on_ranks(2, {"devices"}).output.find("link to rank 1 on "), std::string::npos);
  const Finished trained = on_ranks(2, training("mlp", 1, {"--no-test"}));
  EXPECT_NE(trained.errors.find("links between ranks: "), std::string::npos) << trained.errors;
}

TEST_F(Ranks, plan_with_the_link_they_measured) {
  const auto plan = [&](int ranks, Words more) {
    Words words{"plan",    "--net",     "mlp",           "--workers", "1",
                "--batch", "16",        "--most-groups", "1",         "--iterations",
                "4",       "--nodes",   "1,2",           "--models",  folder_ / "models",
                "--fc",    "replicated"};
    words.insert(words.end(), more.begin(), more.end());
    return on_ranks(ranks, words);
  };
  const auto measured = nlohmann::json::parse(plan(2, {"--json"}).output);
  EXPECT_EQ(measured["link"]["origin"], "measured between 2 ranks");
  EXPECT_GT(measured["link"]["bytes_per_second"], 0);
  EXPECT_EQ(measured["nodes"].size(), 6u);
  const Finished given = plan(2, {"--link", "1gbit:50us"});
  EXPECT_NE(given.output.find("link: 50 us, 1000.0 Mbit/s (given)"), std::string::npos)
      << given.output << given.errors;
  const Finished unknown = plan(1, {});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.errors.find("--nodes: the link between nodes is not known"), std::string::npos);
}

TEST_F(Ranks, go_on_elsewhere_after_a_stop) {
  const std::string net = folder_ / "normalised.cfg", out = folder_ / "run",
                    errors = folder_ / "errors";
  const Words how{"--slice", "6", "--deterministic", "--out", out, "--no-test", "--display", "5"};
  const pid_t job = start_program(mpiexec(2, training(net, 100000, how)), "/dev/null", errors);
  wait_for_text(errors, "\n20, ");
  kill(job, SIGTERM);
  EXPECT_EQ(wait_for_program(job), 75) << get(errors);
  EXPECT_NE(get(errors).find("stopped after iteration"), std::string::npos) << get(errors);
  EXPECT_NE(get(errors).find("; to go on:\n  mpiexec -n 2 "), std::string::npos) << get(errors);
  const int stopped = number_after(get(errors), "stopped after iteration ");
  ASSERT_GE(stopped, 20);

  const auto weights_of = [&](int ranks, Words more) {
    const std::string weights = folder_ / "weights";
    more.insert(more.end(),
                {"--slice", "6", "--deterministic", "--no-test", "--save-weights", weights});
    const Finished run = on_ranks(ranks, training(net, stopped + 7, more));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return get(weights);
  };
  const std::string resumed = weights_of(1, {"--out", out, "--resume", "auto"});
  EXPECT_EQ(weights_of(1, {}), resumed);
  std::filesystem::remove_all(out);
}

TEST_F(Ranks, write_a_trace_each_with_their_messages) {
  const std::string trace = folder_ / "trace";
  for (int start = 0; start < 2; ++start) {  // the second one beside the first
    const Finished run =
        on_ranks(2, training(folder_ / "normalised.cfg", 5, {"--trace", trace, "--no-test"}));
    ASSERT_EQ(run.exit_code, 0) << run.errors;
  }
  for (const std::string& folder : {trace, trace + "-2"})
    EXPECT_EQ(entries_in(folder), 3) << "of two ranks, and the metrics";
  const auto perf = [&](const char* command) {
    const Finished said =
        run_program({beside_this_program("omni-perf"), command, trace + "-2", "--json"});
    EXPECT_EQ(said.exit_code, 0) << said.errors;
    return nlohmann::json::parse(said.output);
  };
  EXPECT_EQ(perf("summary")["processes"], 2);
  std::set<std::pair<int, int>> links;
  const auto transfers = perf("transfers"), idle = perf("idle");
  for (const auto& link : transfers["links"])
    if (link["from_rank"].is_number()) links.emplace(link["from_rank"], link["rank"]);
  EXPECT_EQ(links, (std::set<std::pair<int, int>>{{0, 1}, {1, 0}}));
  double waited = 0;
  for (const auto& worker : idle["workers"]) waited += worker["parts"]["other_nodes"].get<double>();
  EXPECT_GT(waited, 0);
}

TEST_F(Ranks, write_one_metrics_file_and_one_checkpoint) {
  const Finished run =
      on_ranks(2, training(folder_ / "normalised.cfg", 10,
                           {"--metrics", folder_ / "metrics", "--display", "1",
                            "--checkpoint-every", "5", "--out", folder_ / "run", "--no-test"}));
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  std::size_t steps = 0;
  for (const auto& line : read_metrics(folder_ / "metrics")) steps += line.contains("loss") ? 1 : 0;
  EXPECT_EQ(steps, 10u);
  const std::size_t first = run.errors.find("saved ");
  EXPECT_NE(run.errors.find("saved ", first + 1), std::string::npos) << run.errors;
  EXPECT_EQ(run.errors.find("saved ", run.errors.find("saved ", first + 1) + 1), std::string::npos)
      << run.errors;
}

}  // namespace
}  // namespace omni::test
