// These tests check batch normalisation over unequal slices. The chain of its operations is exact,
// and StarPU runs the same chain.
#include <numeric>

#include "codelets/normalise/batchnorm.hpp"
#include "runtime/tasks/host_access.hpp"
#include "runtime/tasks/session.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "runtime/tasks/tensor_pool.hpp"
#include "tests/gradcheck/harness.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni::gradcheck {
namespace {

// A SlicedBatch is a mini-batch in slices, with all values in double precision.
struct SlicedBatch {
  SlicedBatch(std::vector<int> slice_rows, int channel_count)
      : slices(std::move(slice_rows)),
        c(channel_count),
        rows(std::accumulate(slices.begin(), slices.end(), 0)) {}

  std::vector<int> slices;
  int c, rows;
  Activation activation = Activation::linear;
  std::vector<double> src = random_values(size(rows), 1), diff_dst = random_values(size(rows), 2);
  std::vector<double> scale = random_values(size(1), 3), shift = random_values(size(1), 4);
  std::vector<double> dst = std::vector<double>(size(rows)), diff_src = dst;
  std::vector<double> mean = std::vector<double>(size(1)), inv_std = mean, rolling_mean = mean;
  std::vector<double> rolling_variance = std::vector<double>(size(1), 1.0);
  std::vector<double> diff_scale = std::vector<double>(size(1)), diff_shift = diff_scale;

  std::size_t size(int count) const { return static_cast<std::size_t>(count * c); }

  template <class Use>
  void for_each_slice(Use use) const {
    int before = 0;
    for (const int each : slices) {
      use(before, each, before * c);
      before += each;
    }
  }
  void forward() {
    std::vector<double> partial(size(2)), total(size(2), NAN);
    for_each_slice([&](int before, int count, int at) {
      reference::batchnorm_partial({count, c}, src.data() + at, partial.data());
      reference::batchnorm_merge({c, before, count}, partial.data(), total.data());
    });
    reference::batchnorm_finish({.c = c, .rows = rows}, total.data(), mean.data(), inv_std.data(),
                                rolling_mean.data(), rolling_variance.data(),
                                static_cast<double*>(nullptr));
    for_each_slice([&](int, int count, int at) {
      reference::batchnorm_apply({.rows = count, .c = c, .activation = activation}, src.data() + at,
                                 mean.data(), inv_std.data(), scale.data(), shift.data(),
                                 dst.data() + at, static_cast<const double*>(nullptr));
    });
  }
  void backward() {
    std::vector<double> sums(size(2)), total(size(2), NAN);
    for_each_slice([&](int before, int count, int at) {
      reference::batchnorm_backward_reduce({count, c, activation}, src.data() + at,
                                           diff_dst.data() + at, mean.data(), inv_std.data(),
                                           scale.data(), shift.data(), sums.data());
      reference::batchnorm_merge_sums({c, before, count}, sums.data(), total.data());
    });
    reference::batchnorm_parameter_gradient({c}, total.data(), diff_scale.data(),
                                            diff_shift.data());
    for_each_slice([&](int, int count, int at) {
      reference::batchnorm_backward_data(
          {count, c, rows, activation}, src.data() + at, diff_dst.data() + at, mean.data(),
          inv_std.data(), scale.data(), shift.data(), total.data(), diff_src.data() + at);
    });
  }
};

TEST(BatchnormBackward, gradients_over_all_slices) {
  for (const auto& slices : {std::vector<int>{6}, {2, 2, 2}, {5, 1, 3}, {1, 1}})
    for (const auto& [c, activation] : {std::pair{1, Activation::linear},
                                        {4, Activation::linear},
                                        {4, Activation::tanh},
                                        {3, Activation::swish}}) {
      SlicedBatch batch(slices, c);
      batch.activation = activation;
      batch.forward();
      batch.backward();
      const auto loss = [&] {
        batch.forward();
        return dot(batch.dst, batch.diff_dst);
      };
      check_gradient("src", batch.src, batch.diff_src, loss);
      check_gradient("scale", batch.scale, batch.diff_scale, loss);
      check_gradient("shift", batch.shift, batch.diff_shift, loss);
    }
}

TEST(BatchnormForward, the_cut_into_slices_does_not_matter) {
  SlicedBatch whole({12}, 3), cut({4, 1, 7}, 3);
  for (SlicedBatch* batch : {&whole, &cut}) {
    batch->forward();
    batch->backward();
  }
  const auto same = [](const std::vector<double>& a, const std::vector<double>& b) {
    return relative_error(std::span(a), std::span(b)) < 1e-13;
  };
  EXPECT_TRUE(same(cut.dst, whole.dst));
  EXPECT_TRUE(same(cut.rolling_mean, whole.rolling_mean));
  EXPECT_TRUE(same(cut.rolling_variance, whole.rolling_variance));
  EXPECT_TRUE(same(cut.diff_src, whole.diff_src));
  EXPECT_TRUE(same(cut.diff_scale, whole.diff_scale));
}

TEST(BatchnormForward, hand_computed) {
  SlicedBatch batch({3, 1}, 1);
  batch.src = {1, 2, 3, 4};
  batch.scale = {2};
  batch.shift = {5};
  batch.forward();
  EXPECT_NEAR(batch.mean[0], 2.5, 1e-12);
  EXPECT_NEAR(batch.inv_std[0], 1 / std::sqrt(1.25 + 1e-5), 1e-12);  // biased
  EXPECT_NEAR(batch.dst[3], 2 * 1.5 / std::sqrt(1.25 + 1e-5) + 5, 1e-12);
  EXPECT_NEAR(batch.rolling_mean[0], 0.01 * 2.5, 1e-7);
  EXPECT_NEAR(batch.rolling_variance[0], 0.99 + 0.01 * 5 / 3, 1e-7);  // unbiased
}

TEST(BatchnormForward, a_single_value_normalises_to_the_shift) {
  SlicedBatch batch({1}, 2);
  batch.forward();
  batch.backward();
  EXPECT_EQ(batch.dst, batch.shift);
  EXPECT_NEAR(batch.rolling_variance[0], 0.99, 1e-7);
  for (const double each : batch.diff_src) EXPECT_NEAR(each, 0, 1e-12);
}

// The test checks the submit functions: StarPU must run the chain with the right buffers and access
// modes.
TEST(Batchnorm, tasks_over_unequal_slices) {
  SlicedBatch expected({20, 5, 31}, 7);
  expected.forward();
  expected.backward();

  const test::TemporaryDirectory models;
  SessionOptions options;
  options.cpu_workers = 2;
  options.scheduler = "random";
  options.models = models.path();
  const Result<Session> session = Session::start(options);
  ASSERT_TRUE(session) << session.error().message();
  TensorPool pool;
  const auto declare = [&](const char* name, std::size_t count) -> Tensor& {
    return pool.declare(name, count);
  };
  const int c = expected.c;
  const std::size_t width = expected.size(1);
  Tensor &mean = declare("mean", width), &inv_std = declare("inv_std", width);
  Tensor &rolling_mean = declare("rolling_mean", width), &variance = declare("variance", width);
  Tensor &scale = declare("scale", width), &shift = declare("shift", width);
  Tensor &diff_scale = declare("diff_scale", width), &diff_shift = declare("diff_shift", width);
  Tensor &total = declare("total", 2 * width), &total_diff = declare("total_diff", 2 * width);
  std::vector<Tensor*> src, dst, diff_dst, diff_src, partial, sums;
  for (const int rows : expected.slices) {
    for (auto* list : {&src, &dst, &diff_dst, &diff_src})
      list->push_back(&declare("slice", expected.size(rows)));
    for (auto* list : {&partial, &sums}) list->push_back(&declare("partial", 2 * width));
  }
  ASSERT_TRUE(pool.allocate());
  const auto put = [](const Tensor& tensor, const std::vector<double>& from, std::size_t at) {
    const HostAccess access(tensor, HostAccess::Mode::write);
    for (std::size_t i = 0; i < tensor.count(); ++i)
      access.f32()[i] = static_cast<float>(from[at + i]);
  };
  const auto expect = [](const Tensor& tensor, const std::vector<double>& values_, std::size_t at) {
    const HostAccess access(tensor, HostAccess::Mode::read);
    EXPECT_LE(relative_error(std::span<const float>(access.f32()),
                             std::span(values_).subspan(at, tensor.count())),
              1e-5)
        << tensor.name();
  };
  put(scale, expected.scale, 0);
  put(shift, expected.shift, 0);
  put(variance, std::vector<double>(width, 1.0), 0);

  std::size_t slice = 0;
  expected.for_each_slice([&](int before, int rows, int at) {
    put(*src[slice], expected.src, static_cast<std::size_t>(at));
    put(*diff_dst[slice], expected.diff_dst, static_cast<std::size_t>(at));
    batchnorm_partial.submit({rows, c}, {read(*src[slice]), write(*partial[slice])});
    submit_batchnorm_merge(batchnorm_merge, {c, before, rows}, *partial[slice], total);
    ++slice;
  });
  submit_batchnorm_finish({.c = c, .rows = expected.rows}, total, mean, inv_std, rolling_mean,
                          variance);
  slice = 0;
  expected.for_each_slice([&](int before, int rows, int) {
    submit_batchnorm_apply({.rows = rows, .c = c}, *src[slice], mean, inv_std, scale, shift,
                           nullptr, *dst[slice]);
    batchnorm_backward_reduce.submit(
        {rows, c}, {read(*src[slice]), read(*diff_dst[slice]), read(mean), read(inv_std),
                    read(scale), read(shift), write(*sums[slice])});
    submit_batchnorm_merge(batchnorm_merge_sums, {c, before, rows}, *sums[slice], total_diff);
    ++slice;
  });
  batchnorm_parameter_gradient.submit(
      {c}, {read(total_diff), accumulate(diff_scale), accumulate(diff_shift)});
  slice = 0;
  expected.for_each_slice([&](int, int rows, int) {
    // The first slice overwrites diff_dst by its result.
    const Tensor& into = slice == 0 ? *diff_dst[slice] : *diff_src[slice];
    submit_batchnorm_backward_data({rows, c, expected.rows}, *src[slice], *diff_dst[slice], mean,
                                   inv_std, scale, shift, total_diff, into);
    ++slice;
  });
  slice = 0;
  expected.for_each_slice([&](int, int, int at) {
    expect(*dst[slice], expected.dst, static_cast<std::size_t>(at));
    expect(slice == 0 ? *diff_dst[slice] : *diff_src[slice], expected.diff_src,
           static_cast<std::size_t>(at));
    ++slice;
  });
  expect(rolling_mean, expected.rolling_mean, 0);
  expect(variance, expected.rolling_variance, 0);
  expect(diff_scale, expected.diff_scale, 0);
  expect(diff_shift, expected.diff_shift, 0);
  EXPECT_TRUE(task_status());
}

}  // namespace
}  // namespace omni::gradcheck
