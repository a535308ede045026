// These tests check weights in bf16 that an update wrote. Products read them directly, without a
// launch that makes a copy.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "codelets/convolution/convolution.hpp"
#include "codelets/dense/connected.hpp"
#include "codelets/elementwise/exchange.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/device_context.hpp"
#include "tests/played_gpu/blas/lt.hpp"
#include "tests/played_gpu/device.hpp"
#include "tests/played_gpu/tests/device_array.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni {
namespace {

using test::DeviceArray;

// Returns values that bf16 represents exactly.
std::vector<float> drawn(std::int64_t count, unsigned seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    seed = seed * 1664525 + 1013904223;
    value = Bf16(static_cast<float>(seed >> 8) / (1 << 23) - 1);
  }
  return values;
}

class Bf16Array {
 public:
  explicit Bf16Array(const std::vector<float>& values)
      : count_(values.size()), array_(packed(values)) {}
  explicit Bf16Array(std::int64_t count)
      : Bf16Array(std::vector<float>(static_cast<std::size_t>(count), std::nanf(""))) {}
  float* begin() const { return array_.begin(); }
  std::vector<float> values() const {
    const auto words = array_.values(nullptr);
    std::vector<Bf16> halves(2 * words.size());
    std::memcpy(halves.data(), words.data(), words.size() * sizeof(float));
    return {halves.begin(), halves.begin() + static_cast<std::ptrdiff_t>(count_)};
  }

 private:
  static std::vector<float> packed(const std::vector<float>& values) {
    std::vector<float> words((values.size() + 1) / 2);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Bf16 half = values[i];
      std::memcpy(reinterpret_cast<std::byte*>(words.data()) + i * sizeof half, &half, sizeof half);
    }
    return words;
  }
  std::size_t count_;
  DeviceArray array_;
};

class RoundedWeights : public testing::Test {
 protected:
  RoundedWeights() {
    setenv("STARPU_PERF_MODEL_DIR", folder_.path().c_str(), 1);
    set_implementation_policy(
        {.deterministic = true, .preferred = "", .precision = Precision::bf16});
  }
  ~RoundedWeights() override {
    played::let_lt_refuse(false);
    set_implementation_policy({});
    unsetenv("STARPU_PERF_MODEL_DIR");
  }
  // Calls run() twice, and returns the number of launches of the second call.
  static long launches(const std::function<void()>& run) {
    run();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const long before = played::devices()[0]->launches();
    run();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return played::devices()[0]->launches() - before;
  }
  static void on_new_worker(const std::function<void()>& work) { std::thread(work).join(); }

  test::TemporaryDirectory folder_;
};

// The second shape has few channels, so that it may be folded.
TEST_F(RoundedWeights, of_convolutions_need_no_copy) {
  for (const ConvShape& shape : {ConvShape{.n = 2,
                                .h = 6,
                                .w = 5,
                                .c = 8,
                                .filters = 16,
                                .kernel_h = 3,
                                .kernel_w = 3,
                                .pad_h = 1,
                                .pad_w = 1},
                                 ConvShape{.n = 2,
                                 .h = 9,
                                 .w = 9,
                                 .c = 3,
                                 .filters = 8,
                                 .kernel_h = 4,
                                 .kernel_w = 4,
                                 .stride_h = 2,
                                 .stride_w = 2}}) {
    const auto weights = drawn(shape.weights_count(), 2);
    const Bf16Array src(drawn(shape.src_count(), 1)), diff_dst(drawn(shape.dst_count(), 4)),
        rounded(weights);
    const DeviceArray floats(weights), bias(drawn(shape.filters, 3));
    const auto compare = [&](auto kernel, const auto& args, const Bf16Array& from,
                             std::int64_t results) {
      const auto run = [&](float* on, bool in_bf16, std::vector<float>& values) {
        long count = 0;
        on_new_worker([&] {
          const Bf16Array to(results);
          const std::array<void*, 4> pointers{from.begin(), on, to.begin(), bias.begin()};
          count = launches(
              [&] { kernel(args, Buffers(pointers, true, in_bf16), DeviceContext::current()); });
          values = to.values();
        });
        return count;
      };
      std::vector<float> of_floats, of_bf16;
      const long with_copy = run(floats.begin(), false, of_floats);
      EXPECT_EQ(run(rounded.begin(), true, of_bf16), with_copy - 1);
      EXPECT_EQ(of_bf16, of_floats);
    };
    compare(gpu::conv_forward,
            ConvForwardArgs{.shape = shape, .activation = Activation::relu, .has_bias = true}, src,
            shape.dst_count());
    compare(gpu::conv_backward_data, ConvDataArgs{.shape = shape}, diff_dst, shape.src_count());
  }
}

void expect_rounded(const std::vector<float>& values, const std::vector<double>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_NEAR(values[i], expected[i], 0.01 * (1 + std::abs(expected[i]))) << i;
}
std::vector<double> in_double(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

// The products are computed with and without cuBLASLt.
TEST_F(RoundedWeights, of_connected_layers_are_multiplied_as_they_are) {
  constexpr ConnectedShape kShape{.n = 6, .inputs = 40, .outputs = 24};
  const auto src = drawn(kShape.src_count(), 1), weights = drawn(kShape.weights_count(), 2),
             bias = drawn(kShape.outputs, 3), diff_dst = drawn(kShape.dst_count(), 4);
  const Bf16Array x(src), w(weights), dy(diff_dst), y(kShape.dst_count()), dx(kShape.src_count());
  const DeviceArray b(bias), floats(weights), dw(static_cast<std::size_t>(kShape.weights_count())),
      db(std::vector<float>(static_cast<std::size_t>(kShape.outputs)));
  for (const bool refuses : {false, true}) {
    played::let_lt_refuse(refuses);
    on_new_worker([&] {
      const auto run = [&](auto kernel, const auto& args, std::array<void*, 4> pointers,
                           bool weights_in_bf16 = true) {
        return launches([&] {
          kernel(args, Buffers(pointers, true, weights_in_bf16), DeviceContext::current());
        });
      };
      const ConnectedForwardArgs forward{kShape, Activation::relu, true};
      EXPECT_EQ(run(gpu::connected_forward, forward, {x.begin(), w.begin(), y.begin(), b.begin()}),
                2);  // the product; bias and relu
      std::vector<double> expected(src.size());
      expected.resize(static_cast<std::size_t>(kShape.dst_count()));
      reference::connected_forward(forward, in_double(src).data(), in_double(weights).data(),
                                   expected.data(), in_double(bias).data());
      expect_rounded(y.values(), expected);
      const auto of_bf16 = y.values();
      EXPECT_EQ(run(gpu::connected_forward, forward,
                    {x.begin(), floats.begin(), y.begin(), b.begin()}, false),
                3);  // the weights are rounded first
      EXPECT_EQ(y.values(), of_bf16);

      EXPECT_EQ(run(gpu::connected_backward_data, ConnectedDataArgs{kShape},
                    {dy.begin(), w.begin(), dx.begin(), nullptr}),
                1);
      expected.resize(static_cast<std::size_t>(kShape.src_count()));
      reference::connected_backward_data({kShape}, in_double(diff_dst).data(),
                                         in_double(weights).data(), expected.data());
      expect_rounded(dx.values(), expected);
      const auto gradient = dx.values();
      EXPECT_EQ(run(gpu::connected_backward_data, ConnectedDataArgs{kShape},
                    {dy.begin(), floats.begin(), dx.begin(), nullptr}, false),
                2);
      EXPECT_EQ(dx.values(), gradient);

      const ConnectedWeightsArgs writes{.shape = kShape, .adds = false, .has_bias = false};
      EXPECT_EQ(run(gpu::connected_backward_weights, writes,
                    {x.begin(), dy.begin(), dw.begin(), db.begin()}),
                1);
      expected.resize(static_cast<std::size_t>(kShape.weights_count()));
      reference::connected_backward_weights<double>(
          writes, in_double(src).data(), in_double(diff_dst).data(), expected.data(), nullptr);
      expect_rounded(dw.values(nullptr), expected);
    });
  }
}

// 1001 values do not divide into vectors.
TEST_F(RoundedWeights, are_written_by_the_update) {
  for (const int count : {64, 1001}) {
    const auto start = drawn(count, 5), gradient = drawn(count, 6);
    const DeviceArray master(start), diff(gradient),
        velocity(std::vector<float>(static_cast<std::size_t>(count)));
    const Bf16Array rounded(count);
    ExchangeTaskArgs args{.count = 1};
    args.params[0] = {.count = count, .learning_rate = 0.1f, .momentum = 0.9f, .rounds = true};
    const std::array<void*, 4> pointers{master.begin(), diff.begin(), velocity.begin(),
                                        rounded.begin()};
    EXPECT_EQ(launches([&] { gpu::exchange(args, Buffers(pointers), DeviceContext::current()); }),
              1);
    const auto values = master.values(nullptr);
    EXPECT_NE(values, start);
    EXPECT_EQ(rounded.values(), std::vector<float>(Bf16Array(values).values()));
  }
}

}  // namespace
}  // namespace omni
