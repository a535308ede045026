// These tests compare the forward pass with Debian's darknet package. Both read the same cfg text,
// .weights file and images. Each net has layers whose meaning could differ. Gradients are tested in
// tests/gradcheck.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "codelets/elementwise/activation_functors.hpp"
#include "layers/formats/darknet/darknet.hpp"
#include "layers/net.hpp"
#include "runtime/rng.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/host_access.hpp"
#include "runtime/tasks/session.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "runtime/tasks/tensor_pool.hpp"
#include "tests/support/darknet_library.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni::test {
namespace {

namespace fs = std::filesystem;
using Values = std::vector<float>;

const fs::path kNets = OMNI_SOURCE_DIR "/tests/e2e/oracle_nets";

// The tolerance is for the relative Euclidean difference of one image's output. Darknet divides by
// sqrt(variance) + 1e-6, Omnivore by sqrt(variance + 1e-5). With variances of 0.3 to 1.7 the two
// differ by less than 2e-5.
constexpr double kTolerance = 1e-4;

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// Ours is the net as Omnivore computes it.

class Ours {
 public:
  explicit Ours(const fs::path& cfg)
      : net_(must(Net::build(must(read_darknet_cfg(cfg, {.strict = true})),
                             {.training = false, .slice = 2}))) {
    must(net_->allocate());
    for (const int images : net_->slices().sizes) {
      const auto count = static_cast<std::size_t>(images);
      slot_.images.push_back(&pool_.declare("images", count * input().count(), net_->values()));
      slot_.labels.push_back(&pool_.declare("labels", count, DataType::i32));
      slot_.metrics.push_back(&pool_.declare("metrics", kMetrics));
    }
    must(pool_.allocate());
  }

  Net& net() { return *net_; }
  Extent input() const { return net_->options().input; }
  Extent output() const { return net_->layers().back()->output().extent; }
  std::size_t batch() const { return static_cast<std::size_t>(net_->slices().images()); }

  // Returns the parameters that a .weights file holds and that change the output.
  std::vector<Param*> params() {
    std::vector<Param*> stored;
    for (Param* param : net_->params())
      if (!param->name.ends_with("batchnorm.shift")) stored.push_back(param);
    return stored;
  }
  // Initialises weights as in training, and gives biases and statistics random values.
  void randomise() {
    net_->initialise(3);
    Draws draws(Philox(5, RandomStream::synthetic), 0);
    for (const Param* param : params()) {
      if (param->decay > 0) continue;
      const bool positive = param->name.ends_with("variance") || param->name.ends_with("scale");
      const HostAccess access(*param->master, HostAccess::Mode::write);
      for (float& value : access.f32()) {
        const float centred = draws.uniform(-0.7f, 0.7f);
        value = positive ? 1 + centred : centred;
      }
    }
  }

  // The values of images and results are in channels-last order.
  Values predict(const Values& images) {
    std::span<const float> left = images;
    for (const Tensor* slice : slot_.images) {
      std::ranges::copy(left.first(slice->count()),
                        HostAccess(*slice, HostAccess::Mode::write).f32().begin());
      left = left.subspan(slice->count());
    }
    net_->forward({.training = false, .slot = &slot_});
    must(wait_for_tasks());
    Values all;
    for (int slice = 0; slice < net_->slices().count(); ++slice) {
      const HostAccess values(net_->output(slice), HostAccess::Mode::read);
      all.insert(all.end(), values.f32().begin(), values.f32().end());
    }
    return all;
  }

 private:
  std::unique_ptr<Net> net_;
  TensorPool pool_;
  BatchSlot slot_;
};

// The next functions compare outputs.

Values channels_first(const Values& values, const Extent& extent) {
  const auto pixels = static_cast<std::size_t>(extent.h) * static_cast<std::size_t>(extent.w);
  const auto channels = static_cast<std::size_t>(extent.c);
  Values turned(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t image = i / extent.count(), in_image = i % extent.count();
    const std::size_t pixel = in_image / channels, channel = in_image % channels;
    turned[image * extent.count() + channel * pixels + pixel] = values[i];
  }
  return turned;
}

// Returns the largest relative L2 difference of any image, or NaN if a value is NaN.
double difference(const Values& ours, const Values& theirs, std::size_t per_image) {
  double worst = ours.size() == theirs.size() && !ours.empty() ? 0 : NAN;
  for (std::size_t first = 0; first < theirs.size() && !std::isnan(worst); first += per_image) {
    double error = 0, size = 0;
    for (std::size_t i = first; i < first + per_image; ++i) {
      error += std::pow(double{ours[i]} - double{theirs[i]}, 2);
      size += std::pow(double{theirs[i]}, 2);
    }
    const double relative = std::sqrt(error / size);
    worst = std::isnan(relative) ? relative : std::max(worst, relative);
  }
  return worst;
}

class DarknetOracle : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    SessionOptions options;
    options.cpu_workers = 2;
    session_.emplace(must(Session::start(options)));
  }
  static void TearDownTestSuite() { session_.reset(); }
  void SetUp() override {
    if (!fs::exists(DarknetLibrary::kPath))
      GTEST_SKIP() << "no " << DarknetLibrary::kPath << ": install Debian's package darknet";
    set_implementation_policy({.deterministic = true, .preferred = ""});
  }

  void open(const std::string& name) { open_text(get(kNets / (name + ".cfg"))); }
  // Builds Omnivore's net from `cfg` with random parameters, and writes the .weights file that
  // Darknet reads.
  void open_text(const std::string& cfg) {
    put(folder_ / "net.cfg", cfg);
    ours_.emplace(folder_ / "net.cfg");
    ours_->randomise();
    must(save_darknet_weights(ours_->net(), folder_ / "ours.weights", 1234567));
    Draws draws(Philox(11, RandomStream::synthetic), 0);
    images_.resize(ours_->batch() * ours_->input().count());
    for (float& value : images_) value = draws.uniform(-2, 2);
  }
  DarknetNet darknet(const std::string& weights) {
    return DarknetNet(folder_ / "net.cfg", weights.empty() ? "" : (folder_ / weights).string());
  }
  double apart(Ours& ours, const Values& theirs) {
    return difference(channels_first(ours.predict(images_), ours.output()), theirs,
                      ours.output().count());
  }
  Values ask(DarknetNet& theirs) {
    EXPECT_EQ(theirs.inputs(), ours_->input().count());
    EXPECT_EQ(theirs.outputs(), ours_->output().count());
    if (HasFailure()) throw std::runtime_error("the two nets have different shapes");
    return theirs.predict(channels_first(images_, ours_->input()));
  }

  static inline std::optional<Session> session_;
  TemporaryDirectory folder_;
  std::optional<Ours> ours_;
  Values images_;
};

class DarknetNets : public DarknetOracle, public testing::WithParamInterface<std::string> {};

TEST_P(DarknetNets, ForwardAgrees) {
  open(GetParam());
  DarknetNet theirs = darknet("ours.weights");
  const Values expected = ask(theirs);
  for (const char* implementation : {"onednn", "lowering", "gemm", "reference"}) {
    set_implementation_policy({.deterministic = true, .preferred = implementation});
    EXPECT_LE(apart(*ours_, expected), kTolerance) << implementation;
  }
  // Reversing the values of any parameter must change the output. Otherwise the comparison above
  // would not notice wrong parameters.
  for (const Param* param : ours_->params()) {
    const auto reverse = [&] {
      std::ranges::reverse(HostAccess(*param->master, HostAccess::Mode::write).f32());
    };
    reverse();
    EXPECT_GT(apart(*ours_, expected), 100 * kTolerance) << param->name << " does not matter";
    reverse();
  }
}

TEST_P(DarknetNets, WeightsThatDarknetWroteLoad) {
  open(GetParam());
  DarknetNet theirs = darknet("ours.weights");
  theirs.save(folder_ / "theirs.weights");
  EXPECT_TRUE(get(folder_ / "theirs.weights") == get(folder_ / "ours.weights")) << "bytes differ";

  Ours other(folder_ / "net.cfg");
  other.net().initialise(99);
  const Values expected = ask(theirs);
  EXPECT_GT(apart(other, expected), 100 * kTolerance);
  must(load_darknet_weights(other.net(), folder_ / "theirs.weights"));
  EXPECT_LE(apart(other, expected), kTolerance);
}

INSTANTIATE_TEST_SUITE_P(, DarknetNets,
                         testing::Values("darknet19-like", "connected", "branches", "pixels",
                                         "crop-l2norm", "local"),
                         [](const auto& net) {
                           std::string name = net.param;
                           std::erase(name, '-');
                           return name;
                         });

// Darknet writes the weights here. No net has batch normalisation, because a new net of Darknet has
// rolling variances of zero. [deconvolutional] is tested in this way alone. The reason is that
// libdarknet divides by zero when it reads its weights.
TEST_F(DarknetOracle, NetThatDarknetInitialisedLoads) {
  for (const char* net : {"branches", "deconvolutional"}) {
    open(net);
    DarknetNet theirs = darknet("");
    theirs.save(folder_ / "theirs.weights");
    must(load_darknet_weights(ours_->net(), folder_ / "theirs.weights"));
    for (const char* implementation : {"onednn", "lowering", "reference"}) {
      set_implementation_policy({.deterministic = true, .preferred = implementation});
      EXPECT_LE(apart(*ours_, ask(theirs)), kTolerance) << net << ", " << implementation;
    }
  }
}

// Files of a version above 1000 hold connected weights as (inputs, outputs).
TEST_F(DarknetOracle, OldTransposedFileMeansTheSame) {
  open("connected");
  const std::string file = get(folder_ / "ours.weights");
  DarknetNet plain = darknet("ours.weights");
  const Values before = ask(plain);

  const std::array<std::int32_t, 4> header{1001, 0, 0, 1234567};  // version, images seen
  std::string old(sizeof header, '\0');
  std::memcpy(old.data(), header.data(), sizeof header);
  put(folder_ / "old.weights",
      old + file.substr(20));  // today's header: 3 numbers of 4, one of 8 bytes
  DarknetNet theirs = darknet("old.weights");
  const Values expected = ask(theirs);
  EXPECT_GT(difference(expected, before, ours_->output().count()), 100 * kTolerance);
  must(load_darknet_weights(ours_->net(), folder_ / "old.weights"));
  EXPECT_LE(apart(*ours_, expected), kTolerance);
}

// The test compares only the .weights files, because libdarknet crashes in the forward pass of
// [batchnorm].
TEST_F(DarknetOracle, BatchnormLayerIsStoredAlike) {
  open_text(
      "[net]\nbatch=3\nheight=5\nwidth=5\nchannels=3\n"
      "[convolutional]\nfilters=4\nactivation=relu\n[batchnorm]\n"
      "[convolutional]\nfilters=2\nactivation=linear\n");
  darknet("ours.weights").save(folder_ / "theirs.weights");
  EXPECT_TRUE(get(folder_ / "theirs.weights") == get(folder_ / "ours.weights"));
}

// Activations whose gradient needs the input are AlexeyAB's. The darknet package takes them for
// relu, so they are left out.
TEST_F(DarknetOracle, EveryActivationAgrees) {
  for (std::size_t i = 0; i < kActivationNames.size(); ++i) {
    if (gradient_needs_input(static_cast<Activation>(i))) continue;
    const std::string_view name = kActivationNames[i];
    const std::string cfg =
        "[net]\nbatch=3\nheight=10\nwidth=10\nchannels=3\n[activation]\nactivation=";
    open_text(cfg + std::string(name) + "\n");
    DarknetNet theirs = darknet("ours.weights");
    EXPECT_LE(apart(*ours_, ask(theirs)), kTolerance) << name;
  }
}

}  // namespace
}  // namespace omni::test
