// These tests convolve on a GPU in ways that the checks of all implementations do not use. cuDNN's
// algorithms are measured, or the convolution is lowered to matrix products without cuDNN.
#ifdef OMNI_CUDA

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "codelets/convolution/convolution.hpp"
#include "codelets/convolution/cudnn/folded_tensors.hpp"
#include "codelets/cuda/trial_time.hpp"
#include "runtime/cuda/worker.hpp"
#include "runtime/log.hpp"
#include "runtime/tasks/device_context.hpp"
#include "tests/gradcheck/dense/convolution_cases.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni::gradcheck {
namespace {

template <class Args>
void check_on_gpu(const Codelet<Args>& codelet, Kernel<Args> kernel,
                  const std::vector<Case<Args>>& cases, const Operation<Args>& operation) {
  check_implementations(codelet.name(),
                        std::vector<Implementation<Args>>{{"cuda", kernel, nullptr, Role::gpu}},
                        cases, operation);
}

class ConvolutionOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!gpu::present()) GTEST_SKIP() << "no GPU";
    TrialTime::of_process().lift();  // the tests look at choices that are made at once
    std::byte any{};
    gpu::Copy starts_starpu(std::span(&any, 1));  // before a test counts the files of measurements
    starts_starpu.back();
  }
};

TEST_F(ConvolutionOnGpu, lowered) {
  check_on_gpu(conv_forward, gpu::conv_forward_lowered, forward_cases(), forward_operation());
  check_on_gpu(conv_backward_weights, gpu::conv_backward_weights_lowered, weights_cases(),
               weights_operation());
  check_on_gpu(conv_backward_data, gpu::conv_backward_data_lowered, data_cases(), data_operation());
}

// The fastest algorithm may add in another order in each run, so runs need not repeat bit for bit.
template <class Args>
Operation<Args> not_repeating(Operation<Args> operation) {
  operation.repeats = false;
  return operation;
}

TEST_F(ConvolutionOnGpu, measured) {
  const test::TemporaryDirectory models;
  setenv("STARPU_PERF_MODEL_DIR", models.path().c_str(), 1);
  check_on_gpu(conv_forward, gpu::conv_forward, forward_cases(),
               not_repeating(forward_operation()));
  check_on_gpu(conv_backward_weights, gpu::conv_backward_weights, weights_cases(),
               not_repeating(weights_operation()));
  check_on_gpu(conv_backward_data, gpu::conv_backward_data, data_cases(),
               not_repeating(data_operation()));
  unsetenv("STARPU_PERF_MODEL_DIR");
  EXPECT_EQ(test::entries_in(models.path()), 1);  // the table
}

// The table of choices is a file that may hold anything. An engine that rounds must not be used for
// fp32, and a choice of an unknown engine is ignored. A bias or another activation must not be
// added by mistake.
TEST_F(ConvolutionOnGpu, what_the_table_says_is_checked) {
  using Choice = nlohmann::ordered_json;
  const test::TemporaryDirectory models;
  const auto check_forward = [](const std::filesystem::path& folder) {
    setenv("STARPU_PERF_MODEL_DIR", folder.c_str(), 1);
    CudaWorker::current().prepared() = {};  // else it remembers
    auto cases = forward_cases();
    cases.resize(14);
    check_on_gpu(conv_forward, gpu::conv_forward, cases, not_repeating(forward_operation()));
    unsetenv("STARPU_PERF_MODEL_DIR");
  };
  const auto check_edited = [&](const std::function<void(Choice&)>& edit) {
    const test::TemporaryDirectory edited;
    for (const auto& entry : std::filesystem::directory_iterator(models.path())) {
      auto json = Choice::parse(test::get(entry.path()));
      for (auto& [key, choice] : json["algorithms"].items()) edit(choice);
      test::put(edited.path() / entry.path().filename(), json.dump());
    }
    check_forward(edited.path());
  };
  check_forward(models.path());
  std::uint64_t engine = 0;
  check_edited([&](Choice& choice) { choice = {0, engine++ % 8}; });
  check_edited([](Choice& choice) { choice[0] = choice[0] == 0 ? 1 : 0; });
}

template <class Args>
std::vector<Case<Args>> worth_folding(std::vector<Case<Args>> cases) {
  std::erase_if(cases, [](const auto& each) { return !gpu::is_worth_folding(each.args.shape); });
  return cases;
}

template <class Args>
std::vector<Case<Args>> in_groups(std::vector<Case<Args>> cases) {
  std::erase_if(cases, [](const auto& each) {
    return each.args.shape.groups == 1 || each.args.shape.groups > 8;
  });
  return cases;
}

// Checks cases twice, the second time with a table whose entries ask for another form. An entry
// that is of no use would be measured again, and overwritten.
void check_forms(const std::function<void()>& check_cases,
                 const std::function<std::uint64_t(std::uint64_t)>& other) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const Deterministic restores(precision);
    ImplementationPolicy measures = implementation_policy();
    measures.deterministic = false;
    set_implementation_policy(measures);
    const test::TemporaryDirectory models;
    setenv("STARPU_PERF_MODEL_DIR", models.path().c_str(), 1);
    const auto check = [&] {
      CudaWorker::current().prepared() = {};
      check_cases();
    };
    const auto for_each_choice = [&](const auto& use) {
      for (const auto& entry : std::filesystem::directory_iterator(models.path())) {
        auto json = nlohmann::ordered_json::parse(test::get(entry.path()));
        for (auto& [key, choice] : json["algorithms"].items()) use(choice);
        test::put(entry.path(), json.dump());
      }
    };
    check();
    std::vector<std::uint64_t> wanted, found;
    for_each_choice([&](auto& choice) {
      choice[0] = wanted.emplace_back(other(choice[0].template get<std::uint64_t>()));
    });
    check();
    for_each_choice(
        [&](const auto& choice) { found.push_back(choice[0].template get<std::uint64_t>()); });
    unsetenv("STARPU_PERF_MODEL_DIR");
    EXPECT_EQ(found, wanted);
    EXPECT_FALSE(found.empty());
  }
}

// Images with few channels are folded if the table says so.
TEST_F(ConvolutionOnGpu, folded) {
  constexpr std::uint64_t kFolds = 2;
  check_forms(
      [] {
        check_on_gpu(conv_forward, gpu::conv_forward, worth_folding(forward_cases()),
                     not_repeating(forward_operation()));
        check_on_gpu(conv_backward_weights, gpu::conv_backward_weights,
                     worth_folding(weights_cases()), not_repeating(weights_operation()));
      },
      [](std::uint64_t form) { return form | kFolds; });
}

// Each group is a convolution by itself, on a part of the channels, if the table says so.
TEST_F(ConvolutionOnGpu, group_by_group) {
  constexpr std::uint64_t kSplits = 4;
  const auto check_all = [] {
    check_on_gpu(conv_forward, gpu::conv_forward, in_groups(forward_cases()),
                 not_repeating(forward_operation()));
    check_on_gpu(conv_backward_weights, gpu::conv_backward_weights, in_groups(weights_cases()),
                 not_repeating(weights_operation()));
    check_on_gpu(conv_backward_data, gpu::conv_backward_data, in_groups(data_cases()),
                 not_repeating(data_operation()));
  };
  check_forms(check_all, [](std::uint64_t) { return kSplits; });
}

// Returns the result of a small convolution whose tensors begin at addresses that are aligned only
// for floats.
std::vector<float> computed_anywhere() {
  std::vector<float> values{0, 1, 2, 3, 4, 0, -2, 0, 0, 7, 7, 7, 7};
  gpu::Copy copy(std::as_writable_bytes(std::span(values)));
  const auto at = [&](std::size_t i) -> void* { return copy.data() + i * sizeof(float); };
  const std::array<void*, 3> pointers{at(1), at(6), at(9)};
  gpu::conv_forward({.shape = {.h = 2, .w = 2}}, Buffers(pointers), DeviceContext::current());
  copy.back();
  return {values.begin() + 9, values.end()};
}

TEST_F(ConvolutionOnGpu, tensors_that_begin_anywhere) {
  const Deterministic policy;
  const log::Capture said;
  EXPECT_THAT(computed_anywhere(), testing::ElementsAre(-2, -4, -6, -8));
  EXPECT_EQ(said.text(), "");  // not lowered
}

// In bf16, floats are copied, so their alignment does not matter. The copies are aligned for tensor
// cores, which read 16 bytes at once.
TEST_F(ConvolutionOnGpu, copies_begin_where_vectors_do) {
  const test::TemporaryDirectory models;
  setenv("STARPU_PERF_MODEL_DIR", models.path().c_str(), 1);
  const Deterministic restores(Precision::bf16);
  ImplementationPolicy measures = implementation_policy();
  measures.deterministic = false;
  set_implementation_policy(measures);
  EXPECT_THAT(computed_anywhere(), testing::ElementsAre(-2, -4, -6, -8));
  unsetenv("STARPU_PERF_MODEL_DIR");
  ASSERT_EQ(test::entries_in(models.path()), 1);
  for (const auto& entry : std::filesystem::directory_iterator(models.path()))
    EXPECT_THAT(test::get(entry.path()), testing::HasSubstr("bf16 of floats, 16-byte tensors"));
}

#ifdef OMNI_PLAYED_GPU  // a real cuDNN takes memory of its own when it likes
// The memory that is left is smaller than the result, so an algorithm cannot be tried on a copy of
// the result.
TEST_F(ConvolutionOnGpu, with_hardly_any_memory_left) {
  const test::TemporaryDirectory models;
  setenv("STARPU_PERF_MODEL_DIR", models.path().c_str(), 1);
  ConvForwardArgs args{.shape = {.n = 2, .h = 32, .w = 32, .c = 4, .filters = 64}};
  const log::Capture said;
  run_on<float>(
      forward_operation().operands(args), 1,
      [&](const Buffers& buffers) {
        const auto result = sizeof(float) * static_cast<std::size_t>(args.shape.dst_count());
        std::size_t free = 0, all = 0;
        check(cudaMemGetInfo(&free, &all), "asking for free memory");
        void* rest = nullptr;
        check(cudaMalloc(&rest, free - result / 2), "taking it");
        gpu::conv_forward(args, buffers, DeviceContext::current());
        check(cudaFree(rest), "giving it back");
      },
      true);
  EXPECT_EQ(said.text(), "");  // not lowered
  unsetenv("STARPU_PERF_MODEL_DIR");
}
#endif

// The played cuDNN first offers a relu that turns NaN into 0.
TEST_F(ConvolutionOnGpu, relu_of_nan_is_nan) {
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    const Deterministic policy(precision);
    std::vector<float> values(16);
    values[0] = 1, values[4] = 1, values[12] = NAN, values[13] = -9;
    gpu::Copy copy(std::as_writable_bytes(std::span(values)));
    const auto at = [&](std::size_t i) -> void* { return copy.data() + i * sizeof(float); };
    const std::array<void*, 4> pointers{at(0), at(4), at(8), at(12)};
    gpu::conv_forward({.shape = {.filters = 2}, .activation = Activation::relu, .has_bias = true},
                      Buffers(pointers), DeviceContext::current());
    copy.back();
    EXPECT_TRUE(std::isnan(values[8]));
    EXPECT_EQ(values[9], 0);
  }
}

// The played cuDNN refuses a padding as large as the kernel.
TEST_F(ConvolutionOnGpu, what_cudnn_refuses_is_said_once_per_shape) {
  const ConvForwardArgs args{.shape = {.n = 1,
                                       .h = 5,
                                       .w = 4,
                                       .c = 8,
                                       .filters = 2,
                                       .kernel_h = 2,
                                       .kernel_w = 2,
                                       .pad_h = 4,
                                       .pad_w = 4}};
  const Deterministic policy;
  const log::Capture said;
  for (int i = 0; i < 2; ++i)
    run_on<float>(
        forward_operation().operands(args), 1,
        [&](const Buffers& buffers) { gpu::conv_forward(args, buffers, DeviceContext::current()); },
        true);
  if (said.text().empty()) GTEST_SKIP() << "this cuDNN takes it";
  EXPECT_EQ(said.text(),
            "warning: cuDNN has no algorithm for the convolution forward 1x5x4x8, 2 2x2, stride "
            "1x1, pad 4x4, dilation 1x1, groups 1, fp32, 16-byte tensors: it is lowered to matrix "
            "products\n");
}

}  // namespace
}  // namespace omni::gradcheck

#endif
