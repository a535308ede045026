// These tests check connected layers on cuBLASLt: what is part of the product, which algorithm is
// chosen and remembered, and what is done if cuBLASLt offers none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "codelets/dense/connected.hpp"
#include "runtime/log.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/device_context.hpp"
#include "tests/played_gpu/blas/lt.hpp"
#include "tests/played_gpu/device.hpp"
#include "tests/played_gpu/rounding.hpp"
#include "tests/played_gpu/tests/device_array.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni {
namespace {

using played::lt_calls;
using test::DeviceArray;
using testing::HasSubstr;
using testing::Not;

constexpr ConnectedShape kShape{.n = 6, .inputs = 90, .outputs = 36};

std::vector<float> draw(std::int64_t count, unsigned seed, int bits = played::kExact) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    seed = seed * 1664525 + 1013904223;
    value = played::rounded(static_cast<float>(seed >> 8) / (1 << 23) - 1, bits);
  }
  return values;
}

std::vector<double> doubles(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

void expect_close(const std::vector<float>& values, const std::vector<double>& expected,
                  double most = 1e-5) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_NEAR(values[i], expected[i], most * (1 + std::abs(expected[i]))) << "value " << i;
}

// Runs `work` in a new thread. Its CudaWorker has met no shape yet.
void on_new_worker(const std::function<void()>& work) { std::thread(work).join(); }

// Moved holds floats that begin `by` floats behind an address that is aligned for vectors.
class Moved {
 public:
  Moved(const std::vector<float>& values, int by) : array_(moved(values, by)), by_(by) {}
  float* begin() const { return array_.begin() + by_; }
  std::vector<float> values() const {
    const auto all = array_.values(nullptr);
    return {all.begin() + by_, all.end()};
  }

 private:
  static std::vector<float> moved(std::vector<float> values, int by) {
    values.insert(values.begin(), static_cast<std::size_t>(by), std::nanf(""));
    return values;
  }
  DeviceArray array_;
  int by_;
};

// A Ran has the results of the layer, after they have been checked. `kernels` is the number that a
// second run takes.
struct Ran {
  std::vector<float> values;
  long kernels = 0;
};

class ConnectedMatmul : public testing::Test {
 protected:
  ConnectedMatmul() { use(folder_); }
  ~ConnectedMatmul() override {
    played::let_lt_refuse(false);
    played::let_relu_lose_nan(false);
    set_implementation_policy({});
    unsetenv("STARPU_PERF_MODEL_DIR");
  }
  static void use(const test::TemporaryDirectory& folder) {
    setenv("STARPU_PERF_MODEL_DIR", folder.path().c_str(), 1);
  }
  // Returns the path of the table of measurements, or "" if nothing was measured.
  static std::filesystem::path table(const test::TemporaryDirectory& folder) {
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) return entry;
    return {};
  }

  // `moved` says by how many floats src, weights, dst and bias are moved.
  static Ran forward(const ConnectedForwardArgs& args, std::array<int, 4> moved = {},
                     int bits = played::kExact) {
    const ConnectedShape& s = args.shape;
    const auto src = draw(s.src_count(), 1), weights = draw(s.weights_count(), 2),
               bias = draw(s.outputs, 3);
    std::vector<double> expected(static_cast<std::size_t>(s.dst_count()));
    reference::connected_forward(args, doubles(draw(s.src_count(), 1, bits)).data(),
                                 doubles(draw(s.weights_count(), 2, bits)).data(), expected.data(),
                                 doubles(bias).data());
    const Moved a(src, moved[0]), b(weights, moved[1]),
        c(std::vector<float>(expected.size(), std::nanf("")), moved[2]), d(bias, moved[3]);
    const std::array<void*, 4> pointers{a.begin(), b.begin(), c.begin(), d.begin()};
    const auto run = [&] {
      gpu::connected_forward(args, Buffers(pointers), DeviceContext::current());
    };
    run();
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    Ran ran{c.values()};
    const long before = played::devices()[0]->launches();
    run();
    expect_close(c.values(), expected);
    ran.kernels = played::devices()[0]->launches() - before;
    expect_close(ran.values, expected);
    return ran;
  }

  static Ran backward_weights(const ConnectedWeightsArgs& args) {
    const ConnectedShape& s = args.shape;
    const auto src = draw(s.src_count(), 1), diff_dst = draw(s.dst_count(), 2),
               before = draw(s.weights_count(), 3), before_bias = draw(s.outputs, 4);
    auto expected = doubles(before), expected_bias = doubles(before_bias);
    reference::connected_backward_weights(args, doubles(src).data(), doubles(diff_dst).data(),
                                          expected.data(), expected_bias.data());
    const DeviceArray a(src), b(diff_dst), c(before), d(before_bias);
    const std::array<void*, 4> pointers{a.begin(), b.begin(), c.begin(), d.begin()};
    gpu::connected_backward_weights(args, Buffers(pointers), DeviceContext::current());
    Ran ran{c.values(nullptr)};
    expect_close(ran.values, expected);
    if (args.has_bias) expect_close(d.values(nullptr), expected_bias);
    return ran;
  }

  static Ran backward_data(const ConnectedDataArgs& args) {
    const ConnectedShape& s = args.shape;
    const auto diff_dst = draw(s.dst_count(), 1), weights = draw(s.weights_count(), 2);
    std::vector<double> expected(static_cast<std::size_t>(s.src_count()));
    reference::connected_backward_data(args, doubles(diff_dst).data(), doubles(weights).data(),
                                       expected.data());
    const DeviceArray a(diff_dst), b(weights), c(expected.size());
    const std::array<void*, 3> pointers{a.begin(), b.begin(), c.begin()};
    gpu::connected_backward_data(args, Buffers(pointers), DeviceContext::current());
    Ran ran{c.values(nullptr)};
    expect_close(ran.values, expected);
    return ran;
  }

  test::TemporaryDirectory folder_;
};

TEST_F(ConnectedMatmul, bias_and_relu_are_part_of_the_product) {
  on_new_worker([&] {
    for (const auto& [activation, has_bias, kernels] :
         {std::tuple(Activation::linear, false, 1), std::tuple(Activation::linear, true, 1),
          std::tuple(Activation::relu, false, 1), std::tuple(Activation::relu, true, 1),
          std::tuple(Activation::logistic, false, 2), std::tuple(Activation::logistic, true, 2)}) {
      SCOPED_TRACE(activation_name(activation));
      EXPECT_EQ(forward({kShape, activation, has_bias}).kernels, kernels);
    }
  });
}

// A bias may be a part of a larger one. If it were read 16 bytes at once, the device would break.
TEST_F(ConnectedMatmul, a_bias_that_begins_anywhere_is_added_later) {
  on_new_worker([&] {
    for (const Activation activation : {Activation::linear, Activation::relu, Activation::tanh})
      EXPECT_EQ(forward({kShape, activation, true}, {0, 0, 0, 1}).kernels, 2);
  });
}

TEST_F(ConnectedMatmul, matrices_that_begin_anywhere_have_algorithms_of_their_own) {
  const ConnectedShape whole{.n = 8, .inputs = 64, .outputs = 32};
  on_new_worker([&] {
    for (int moved = 0; moved < 4; ++moved)
      for (int which = 0; which < 3; ++which) {
        std::array<int, 4> by{};
        by[static_cast<std::size_t>(which)] = moved;
        SCOPED_TRACE("matrix " + std::to_string(which) + " by " + std::to_string(moved));
        forward({whole, Activation::relu, true}, by);
      }
  });
}

TEST_F(ConnectedMatmul, an_algorithm_is_measured_once_and_kept) {
  on_new_worker([&] {
    const auto before = lt_calls();
    forward({kShape, Activation::relu, true});
    EXPECT_EQ(lt_calls().heuristics - before.heuristics, 1);
    EXPECT_GT(lt_calls().products - before.products, 10);
  });
  const std::string kept = test::get(table(folder_));
  EXPECT_THAT(kept, HasSubstr("6x36x90, a fp32 90 at 16, b fp32 transposed 90 at 16, "
                              "product fp32 36 at 16, bias, relu, fp32"));
  const auto expect_known = [&] {
    const auto before = lt_calls();
    forward({kShape, Activation::relu, true});
    EXPECT_EQ(lt_calls().heuristics, before.heuristics);
    EXPECT_EQ(lt_calls().products - before.products, 4);  // two checks, and two runs of forward()
  };
  on_new_worker(expect_known);
  const test::TemporaryDirectory next;  // another process would read the file
  test::put(next / table(folder_).filename().string(), kept);
  use(next);
  on_new_worker(expect_known);
}

TEST_F(ConnectedMatmul, what_is_kept_is_checked) {
  on_new_worker([&] { forward({kShape, Activation::linear, true}); });
  auto kept = nlohmann::json::parse(test::get(table(folder_)));
  for (int number = 0; number < 3; ++number) {
    SCOPED_TRACE(number);
    auto changed = kept;
    for (auto& [key, numbers] : changed["algorithms"].items())
      numbers[static_cast<std::size_t>(number)] = 0x123456789A;
    const test::TemporaryDirectory next;
    test::put(next / table(folder_).filename().string(), changed.dump());
    use(next);
    on_new_worker([&] {
      const auto before = lt_calls();
      forward({kShape, Activation::linear, true});
      EXPECT_EQ(lt_calls().heuristics - before.heuristics, 1);
    });
    EXPECT_NE(nlohmann::json::parse(test::get(table(next))), changed);
  }
}

TEST_F(ConnectedMatmul, shapes_and_ends_and_precisions_are_measured_apart) {
  const auto measures = [](const ConnectedForwardArgs& args) {
    const auto before = lt_calls();
    forward(args);
    return lt_calls().heuristics - before.heuristics;
  };
  on_new_worker([&] {
    EXPECT_EQ(measures({kShape, Activation::relu, true}), 1);
    EXPECT_EQ(measures({kShape, Activation::relu, true}), 0);
    EXPECT_EQ(measures({kShape, Activation::relu, false}), 1);
    EXPECT_EQ(measures({kShape, Activation::linear, true}), 1);
    EXPECT_EQ(measures({kShape, Activation::tanh, true}), 0);  // the same product
    EXPECT_EQ(measures({{.n = 7, .inputs = 90, .outputs = 36}, Activation::relu, true}), 1);
  });
}

TEST_F(ConnectedMatmul, trials_leave_the_gradients_alone) {
  on_new_worker([&] {
    const auto before = lt_calls();
    backward_weights({kShape, true});
    backward_data({kShape});
    EXPECT_EQ(lt_calls().heuristics - before.heuristics, 2);
    EXPECT_GT(lt_calls().products - before.products, 20);
  });
}

// The fastest algorithm that works must not be used, because it adds in another order every time.
TEST_F(ConnectedMatmul, deterministic_products_repeat_and_are_not_measured) {
  set_implementation_policy({.deterministic = true, .preferred = ""});
  on_new_worker([&] {
    const auto before = lt_calls();
    const auto first = forward({kShape, Activation::relu, true}).values;
    EXPECT_EQ(lt_calls().heuristics - before.heuristics, 1);
    EXPECT_LT(lt_calls().products - before.products, 8);
    const auto gradients = backward_weights({kShape, true}).values;
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(forward({kShape, Activation::relu, true}).values, first);
      EXPECT_EQ(backward_weights({kShape, true}).values, gradients);
    }
  });
  EXPECT_EQ(table(folder_), "");
}

TEST_F(ConnectedMatmul, what_cublaslt_refuses_cublas_multiplies) {
  played::let_lt_refuse(true);
  on_new_worker([&] {
    const auto before = lt_calls();
    const log::Capture captured;
    EXPECT_EQ(forward({kShape, Activation::relu, true}).kernels, 2);
    backward_weights({kShape, true});
    backward_data({kShape});
    EXPECT_EQ(lt_calls().products, before.products);
    EXPECT_THAT(captured.text(), HasSubstr("cuBLASLt has no algorithm for the product 6x36x90"));
    EXPECT_THAT(captured.text(), HasSubstr("the product 36x90x6"));
    EXPECT_THAT(captured.text(), HasSubstr("the product 6x90x36"));
    const std::string said = captured.text();
    forward({kShape, Activation::relu, true});
    EXPECT_EQ(captured.text(), said);
  });
  EXPECT_EQ(table(folder_), "");
}

TEST_F(ConnectedMatmul, factors_are_rounded_as_the_precision_says) {
  for (const auto& [precision, bits] :
       {std::pair(Precision::fp32, played::kExact), std::pair(Precision::tf32, played::kTf32),
        std::pair(Precision::bf16, played::kBf16)}) {
    SCOPED_TRACE(name_of(precision));
    set_implementation_policy({.preferred = "", .precision = precision});
    on_new_worker([&, bits = bits] { forward({kShape, Activation::tanh, true}, {}, bits); });
  }
}

// Some algorithms lose NaN in their relu. If `lost` is true, all do.
TEST_F(ConnectedMatmul, relu_keeps_nan) {
  for (const bool deterministic : {false, true})
    for (const bool lost : {false, true})
      for (const bool has_bias : {false, true}) {
        SCOPED_TRACE(deterministic);
        SCOPED_TRACE(lost);
        const test::TemporaryDirectory folder;
        use(folder);
        set_implementation_policy({.deterministic = deterministic, .preferred = ""});
        played::let_relu_lose_nan(lost);
        on_new_worker([&] {
          EXPECT_EQ(forward({kShape, Activation::relu, has_bias}).kernels, lost ? 2 : 1);
          std::vector<float> src(static_cast<std::size_t>(kShape.src_count()), 1);
          src[3] = std::nanf("");
          const DeviceArray a(src), b(draw(kShape.weights_count(), 2)),
              c(static_cast<std::size_t>(kShape.dst_count())), d(draw(kShape.outputs, 3));
          const std::array<void*, 4> pointers{a.begin(), b.begin(), c.begin(), d.begin()};
          gpu::connected_forward({kShape, Activation::relu, has_bias}, Buffers(pointers),
                                 DeviceContext::current());
          const auto dst = c.values(nullptr);
          for (int i = 0; i < kShape.n; ++i)
            EXPECT_EQ(std::isnan(dst[static_cast<std::size_t>(i * kShape.outputs)]), i == 0);
        });
      }
}

// ctest runs this test with a device whose memory holds the product only once.
TEST_F(ConnectedMatmul, without_room_to_try_cublas_multiplies) {
  std::size_t room = 0, all = 0;
  ASSERT_EQ(cudaMemGetInfo(&room, &all), cudaSuccess);
  if (all > std::size_t{16} << 20) GTEST_SKIP() << "the device is too large";
  const ConnectedWeightsArgs args{{.n = 2, .inputs = 1500, .outputs = 1500}};
  const auto before = lt_calls();
  on_new_worker([&] { backward_weights(args); });
  set_implementation_policy({.deterministic = true, .preferred = ""});
  on_new_worker([&] { EXPECT_THROW(backward_weights(args), std::bad_alloc); });
  EXPECT_EQ(lt_calls().products, before.products);
  EXPECT_EQ(table(folder_), "");
}

}  // namespace
}  // namespace omni
