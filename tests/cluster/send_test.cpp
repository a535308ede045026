// These tests train over two ranks with coded messages (--send), and compare the parameters with
// plain loops in double precision over the same mini-batches.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "codelets/elementwise/coding.hpp"
#include "layers/formats/parameters.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "tests/cluster/small_training.hpp"
#include "tests/support/group_training.hpp"

namespace omni::test {
namespace {

constexpr double kRate = 0.05;

using Numbers = std::vector<double>;

// Returns the nearest of the numbers that bf16 has, the one with the even last bit in a tie.
double to_bf16(double value) {
  if (value == 0) return 0;
  const double unit = std::ldexp(1, std::ilogb(value) - 7);
  return std::nearbyint(value / unit) * unit;
}

// Returns what a message has of the wanted values.
Numbers sent_of(const Coding& coding, const Numbers& wanted) {
  Numbers sent = wanted;
  if (!coding.codes(wanted.size())) return sent;
  if (coding.kind == Coding::Kind::bf16) {
    std::ranges::transform(wanted, sent.begin(), to_bf16);
    return sent;
  }
  std::vector<std::size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t i) { return std::abs(wanted[i]); });
  for (std::size_t i = coding.entries(wanted.size()); i < order.size(); ++i) sent[order[i]] = 0;
  return sent;
}

// A Sender keeps what its messages leave out. An owner sends changes of the values that all know.
struct Sender {
  Numbers left;
  Numbers send(const Coding& coding, const Numbers& values) {
    left.resize(values.size());
    std::ranges::transform(values, left, left.begin(), std::plus());
    Numbers sent = sent_of(coding, left);
    std::ranges::transform(left, sent, left.begin(), std::minus());
    return sent;
  }
};

class Send : public SmallTraining {
 protected:
  // Plain has a net whose gradients the plain loops take.
  class Plain {
   public:
    explicit Plain(const std::string& cfg) : net_(ComputeGroups(make(cfg))) {
      data_ = std::move(open_dataset({.source = "synthetic:60:3",
                                      .net_input = net().options().input,
                                      .classes = 3,
                                      .seed = 1})
                            ->train);
      feed_ = std::make_unique<DataFeed>(*data_, FeedOptions{.training = true,
                                                             .seed = 1,
                                                             .augment = {},
                                                             .net_input = net().options().input,
                                                             .slices = net().slices(),
                                                             .slots = 4});
      EXPECT_TRUE(net_.allocate());
      EXPECT_TRUE(feed_->allocate());
      net().initialise(1);
      deal();
    }
    Net& net() { return net_.net(); }
    std::size_t count() { return net().params().size(); }
    int owner(std::size_t param) const { return owners_[param]; }
    std::vector<Numbers> values() {
      std::vector<Numbers> all;
      for (const Param* param : net().params()) {
        const std::vector<float> own = test::values(*param->master);
        all.emplace_back(own.begin(), own.end());
      }
      return all;
    }
    // Returns the gradients at `w`, summed over the net's batch from sample `first` on.
    std::vector<Numbers> gradients(const std::vector<Numbers>& w, std::uint64_t first) {
      std::vector<Numbers> all;
      for (std::size_t i = 0; i < count(); ++i)
        set(*net().params()[i]->master, {w[i].begin(), w[i].end()});
      feed_->submit(first);
      const Step pass{
          .training = true, .seed = 1, .first_sample = first, .slot = &feed_->slot(first)};
      net().forward(pass);
      net().backward(pass);
      EXPECT_TRUE(wait_for_tasks());
      feed_->release(first);
      for (const Param* param : net().params()) {
        const std::vector<float> diff = test::values(*param->diff);
        set(*param->diff, std::vector<float>(diff.size()));
        all.emplace_back(diff.begin(), diff.end());
      }
      return all;
    }
    // Makes a step of SGD; `images` are those of the gradient.
    void step(std::size_t i, Numbers& w, Numbers& velocity, const Numbers& gradient, int images) {
      velocity.resize(w.size());
      for (std::size_t at = 0; at < w.size(); ++at) {
        velocity[at] = 0.9 * velocity[at] + gradient[at] / images +
                       (net().params()[i]->decay > 0 ? 0.01 * w[at] : 0);
        w[at] -= kRate * velocity[at];
      }
    }

   private:
    static std::unique_ptr<Net> make(const std::string& cfg) {
      return std::move(*Net::build(*read_darknet_cfg(cfg), {.training = true, .slice = 2}));
    }
    // The largest parameter goes to the rank that owns the fewest values so far, and so on.
    void deal() {
      std::vector<std::size_t> order(count()), owned(2);
      std::iota(order.begin(), order.end(), std::size_t{0});
      const auto size = [this](std::size_t i) { return net().params()[i]->master->count(); };
      std::ranges::stable_sort(order, std::ranges::greater(), size);
      owners_.resize(count());
      for (const std::size_t i : order) {
        owners_[i] = owned[1] < owned[0] ? 1 : 0;
        owned[static_cast<std::size_t>(owners_[i])] += size(i);
      }
    }

    ComputeGroups net_;
    std::unique_ptr<Dataset> data_;
    std::unique_ptr<DataFeed> feed_;
    std::vector<int> owners_;
  };

  // Returns the mean difference between saved weights and the expected values.
  static double distance(Plain& plain, const std::string& weights,
                         const std::vector<Numbers>& expected) {
    EXPECT_TRUE(load_parameter_files(plain.net(), parameter_files(weights)));
    const std::vector<Numbers> found = plain.values();
    double all = 0, sum = 0;
    for (std::size_t i = 0; i < found.size(); ++i)
      for (std::size_t at = 0; at < found[i].size(); ++at) {
        sum += std::abs(found[i][at] - expected[i][at]);
        ++all;
      }
    return sum / all;
  }

  // Two ranks share each mini-batch.
  std::vector<Numbers> plain_sync(Plain& plain, const Coding& coding, int iterations) {
    std::vector<Numbers> known = plain.values(), exact = known, velocity(known.size());
    std::vector<Sender> senders(known.size());
    for (int number = 0; number < iterations; ++number) {
      const auto first = static_cast<std::uint64_t>(2 * kHalf * number);
      const std::vector<Numbers> gradients[] = {plain.gradients(known, first),
                                                plain.gradients(known, first + kHalf)};
      for (std::size_t i = 0; i < known.size(); ++i) {
        const auto owner = static_cast<std::size_t>(plain.owner(i));
        Numbers sum = senders[i].send(coding, gradients[1 - owner][i]);
        std::ranges::transform(sum, gradients[owner][i], sum.begin(), std::plus());
        plain.step(i, exact[i], velocity[i], sum, 2 * kHalf);
        return_values(coding, exact[i], known[i]);
      }
    }
    return known;
  }
  static void return_values(const Coding& coding, const Numbers& exact, Numbers& known) {
    Numbers change(exact.size());
    std::ranges::transform(exact, known, change.begin(), std::minus());
    change = sent_of(coding, change);
    std::ranges::transform(known, change, known.begin(), std::plus());
  }

  // Two groups with models of their own meet after `every` mini-batches of each.
  std::vector<Numbers> plain_local(Plain& plain, const Coding& coding, int iterations, int every) {
    std::vector<Numbers> known = plain.values(), exact = known, outer(known.size());
    std::vector<Numbers> w[] = {known, known}, velocity[] = {outer, outer};
    std::vector<Sender> senders(known.size());
    for (int number = 0; number < iterations; ++number) {
      const auto group = static_cast<std::size_t>(number % 2);
      const std::vector<Numbers> gradients =
          plain.gradients(w[group], static_cast<std::uint64_t>(kHalf * number));
      for (std::size_t i = 0; i < known.size(); ++i)
        plain.step(i, w[group][i], velocity[group][i], gradients[i], kHalf);
      if ((number + 1) % (2 * every) != 0) continue;
      const double momentum = number + 1 == 2 * every ? 0 : 0.5;
      for (std::size_t i = 0; i < known.size(); ++i) {
        Numbers change[2];
        for (std::size_t each : {0u, 1u})
          for (std::size_t at = 0; at < known[i].size(); ++at)
            change[each].push_back((w[each][i][at] - known[i][at]) / 2);
        const auto owner = static_cast<std::size_t>(plain.owner(i));
        Numbers sum = senders[i].send(coding, change[1 - owner]);
        outer[i].resize(sum.size());
        for (std::size_t at = 0; at < sum.size(); ++at) {
          sum[at] += change[owner][at];
          outer[i][at] = momentum * outer[i][at] + sum[at];
          exact[i][at] += momentum * outer[i][at] + sum[at];
        }
        return_values(coding, exact[i], known[i]);
        w[0][i] = w[1][i] = known[i];
      }
    }
    return known;
  }
};

// Sums of floats and of doubles may lie on either side of a tie in bf16, so a few values differ by
// a unit of their last message. `near` is the largest distance from the plain loop, relative to
// that of a training without coding.
struct Way {
  const char* send;
  Coding coding;
  double near;
};
const Way kWays[] = {{"bf16", {.kind = Coding::Kind::bf16}, 0.15},
                     {"top:5%", {.kind = Coding::Kind::top, .share = 0.05}, 1e-5}};
TEST_F(Send, sync_learns_what_a_plain_loop_learns) {
  const std::string net = net_of(2 * kHalf), half = net_of(kHalf);
  Plain plain(half);
  for (const Way& way : kWays) {
    plain.net().initialise(1);
    const auto expected = plain_sync(plain, way.coding, 30);
    const double coded = distance(plain, trained(net, 30, {"--send", way.send}), expected),
                 whole = distance(plain, trained(net, 30, {}), expected);
    EXPECT_LT(coded, way.near * whole) << way.send << ": " << coded << ", " << whole;
  }
}

TEST_F(Send, local_learns_what_a_plain_loop_learns) {
  const std::string net = net_of(kHalf);
  Plain plain(net);
  const Words how{"--strategy",   "local", "--groups",         "2",
                  "--sync-every", "3",     "--outer-momentum", "0.5"};
  for (const Way& way : kWays) {
    plain.net().initialise(1);
    const auto expected = plain_local(plain, way.coding, 48, 3);
    Words with = how;
    with.insert(with.end(), {"--send", way.send});
    const double coded = distance(plain, trained(net, 48, with), expected),
                 whole = distance(plain, trained(net, 48, how), expected);
    EXPECT_LT(coded, way.near * whole) << way.send << ": " << coded << ", " << whole;
  }
}

// Every strategy gives the same bits again, and after a stop at any iteration.
TEST_F(Send, goes_on_with_the_same_bits) {
  const std::string net = net_of(2 * kHalf);
  const std::vector<Words> strategies{
      {"--strategy", "sync"},
      {"--strategy", "async", "--groups", "2", "--guard", "off", "--fc", "replicated"},
      {"--strategy", "sma", "--groups", "2"},
      {"--strategy", "local", "--groups", "2", "--sync-every", "3"},
      {"--strategy", "local", "--group-layout", "0-1:0", "--sync-every", "3"},
      {"--strategy", "elastic", "--groups", "2", "--sync-every", "2"}};
  for (const char* send : {"bf16", "top:5%"})
    for (const Words& strategy : strategies) {
      Words how = strategy;
      how.insert(how.end(), {"--send", send});
      slice_ = strategy[1] == "elastic" ? "1" : "2";
      const std::string whole = get(trained(net, 22, how));
      EXPECT_TRUE(get(trained(net, 22, how)) == whole) << strategy[1] << send;
      const std::string out = folder_ / "run";
      std::filesystem::remove_all(out);
      Words first = how, second = how;
      first.insert(first.end(), {"--out", out, "--checkpoint-every", "11"});
      second.insert(second.end(), {"--out", out, "--resume", "auto"});
      const Finished begun = on_ranks(2, training(net, 11, first));
      EXPECT_EQ(begun.exit_code, 0) << begun.errors;
      // The learning rate is constant, so a longer training has the same beginning.
      EXPECT_TRUE(get(trained(net, 22, second)) == whole) << strategy[1] << send;
    }
}

// After 17 updates the first two of three groups have contributed to the next meeting, each on a
// rank of its own.
TEST_F(Send, contributions_on_all_ranks_outlast_a_stop) {
  const std::string net = net_of(kHalf);
  const auto weights = [&](int iterations, Words more) {
    Words how{
        "--strategy", "local",          "--groups",         "3", "--sync-every", "3", "--send",
        "top:5%",     "--save-weights", folder_ / "weights"};
    how.insert(how.end(), more.begin(), more.end());
    const Finished run = on_ranks(3, training(net, iterations, how));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return get(folder_ / "weights");
  };
  const std::string whole = weights(27, {}), out = folder_ / "run";
  weights(17, {"--out", out, "--checkpoint-every", "17"});
  EXPECT_TRUE(weights(27, {"--out", out, "--resume", "auto"}) == whole);
}

TEST_F(Send, goes_on_elsewhere_without_what_was_left_out) {
  const std::string net = net_of(2 * kHalf), out = folder_ / "run";
  const Words how{"--strategy", "local", "--groups", "2", "--sync-every", "3"};
  Words first = how, alone = how;
  first.insert(first.end(), {"--send", "top:5%", "--out", out, "--checkpoint-every", "9"});
  EXPECT_EQ(on_ranks(2, training(net, 9, first)).exit_code, 0);
  alone.insert(alone.end(), {"--out", out, "--resume", "auto"});
  const Finished resumed = on_ranks(1, training(net, 22, alone));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_NE(resumed.errors.find("what its messages had left out is not sent any more: it was "
                                "trained with --send on 2 ranks"),
            std::string::npos)
      << resumed.errors;
}

// Groups of two ranks each have messages within the group and, in meetings, between groups.
TEST_F(Send, groups_of_several_ranks_learn) {
  const std::string net = net_of(2 * kHalf);
  const auto loss = [&](const Words& strategy, const char* send, bool in_turn) {
    Words words = training(net, 120,
                           {"--group-layout", "0-1:0;2-3:0", "--learning-rate", "0.01", "--send",
                            send, "--json", "--strategy"});
    words.insert(words.end(), strategy.begin(), strategy.end());
    if (!in_turn) std::erase(words, "--deterministic");
    const Finished run = on_ranks(4, words);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return nlohmann::json::parse(run.output, nullptr, false)["loss_average"].get<double>();
  };
  const Words async{"async", "--guard", "off", "--fc", "replicated"};
  for (const auto& [strategy, in_turn] :
       {std::pair{async, true}, std::pair{async, false}, std::pair{Words{"sma"}, true},
        std::pair{Words{"local", "--sync-every", "3"}, true}}) {
    const double whole = loss(strategy, "fp32", in_turn);
    EXPECT_NEAR(loss(strategy, "bf16", in_turn), whole, (in_turn ? 0.01 : 0.1) * whole)
        << strategy[0];
    EXPECT_NEAR(loss(strategy, "top:20%", in_turn), whole, 0.1 * whole) << strategy[0];
  }
}

TEST_F(Send, is_refused_where_nothing_is_sent) {
  const std::string net = net_of(2 * kHalf);
  const Finished one = on_ranks(1, training(net, 4, {"--send", "bf16"}));
  EXPECT_EQ(one.exit_code, 2);
  EXPECT_NE(one.errors.find("--send: a training on one rank sends nothing (start several"),
            std::string::npos)
      << one.errors;
  for (const char* wrong :
       {"bf8", "top", "top:", "top:0", "top:50%", "top:100%", "top:-1%", "top:nan"}) {
    const Finished run = on_ranks(1, training(net, 4, {"--send", wrong}));
    EXPECT_EQ(run.exit_code, 2) << wrong;
    EXPECT_NE(run.errors.find("is none of fp32, bf16, and top:"), std::string::npos) << run.errors;
  }
}

TEST_F(Send, warns_of_a_momentum_of_the_average) {
  const std::string net = net_of(kHalf);
  const auto warns = [&](const char* send, Words more) {
    more.insert(more.end(), {"--strategy", "sma", "--groups", "2", "--send", send});
    const Finished run = on_ranks(2, training(net, 4, more));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return run.errors.find("warning: --send top: values arrive late") != std::string::npos;
  };
  EXPECT_TRUE(warns("top:5%", {}));
  EXPECT_FALSE(warns("top:5%", {"--central-momentum", "0"}));
  EXPECT_FALSE(warns("bf16", {}));
}

TEST_F(Send, warns_where_only_the_clock_counts_it) {
  const std::string net = net_of(2 * kHalf);
  const auto seconds = [&](Words more) {
    more.insert(more.end(), {"--arrivals", "virtual", "--machine", "33-nodes", "--groups", "4",
                             "--strategy", "local", "--sync-every", "2", "--json"});
    const Finished run = on_ranks(1, training(net, 40, more));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_EQ(
        run.errors.find("--send: the virtual clock counts smaller messages") != std::string::npos,
        std::ranges::count(more, "--send") > 0)
        << run.errors;
    return nlohmann::json::parse(run.output, nullptr, false)["simulated_seconds"].get<double>();
  };
  EXPECT_LT(seconds({"--send", "top:1%"}), seconds({}));
}

}  // namespace
}  // namespace omni::test
