// These tests check that the harness fails for every kind of wrong kernel.
#include "tests/gradcheck/harness.hpp"

#include <gtest/gtest-spi.h>

namespace omni::gradcheck {
namespace {

struct AddArgs {
  int count = 0;
};

// The kernel accesses src (read), sum (added to) and copy (written).
template <class T>
void add(const AddArgs& args, const Buffers& buffers) {
  for (int i = 0; i < args.count; ++i) {
    buffers.get<T>(1)[i] += buffers.get<T>(0)[i];
    buffers.get<T>(2)[i] = buffers.get<T>(0)[i];
  }
}

void correct(const AddArgs& args, const Buffers& buffers, DeviceContext&) {
  add<float>(args, buffers);
}
void forgets_an_output(const AddArgs& args, const Buffers& buffers, DeviceContext&) {
  add<float>({args.count - 1}, buffers);
}
void writes_past_the_end(const AddArgs& args, const Buffers& buffers, DeviceContext&) {
  add<float>(args, buffers);
  buffers.get(2)[args.count] = 0;
}
void writes_before_the_start(const AddArgs& args, const Buffers& buffers, DeviceContext&) {
  add<float>(args, buffers);
  buffers.get(2)[-1] = 0;
}
void reads_past_the_end(const AddArgs& args, const Buffers& buffers, DeviceContext&) {
  add<float>(args, buffers);
  buffers.get(2)[0] += 0 * buffers.get(0)[args.count];
}
void overwrites_the_sum(const AddArgs& args, const Buffers& buffers, DeviceContext&) {
  add<float>(args, buffers);
  std::copy_n(buffers.get(0), args.count, buffers.get(1));
}
void writes_its_input(const AddArgs& args, const Buffers& buffers, DeviceContext&) {
  add<float>(args, buffers);
  buffers.get(0)[0] = 7;
}
void is_wrong_in_the_fifth_digit(const AddArgs& args, const Buffers& buffers, DeviceContext&) {
  add<float>(args, buffers);
  buffers.get(2)[0] *= 1.0001f;
}
void remembers_the_last_run(const AddArgs& args, const Buffers& buffers, DeviceContext& context) {
  add<float>(args, buffers);
  buffers.get(2)[0] *= 1 + 1e-7f * static_cast<float>(context.local<int>()++);
}

std::uint64_t footprint(const AddArgs& args) { return footprint_of(args.count); }
Cost cost(const AddArgs&) { return {}; }

int failures_of(Kernel<AddArgs> kernel, bool (*supports)(const AddArgs&) = nullptr) {
  Codelet<AddArgs> codelet({.name = "harness_test",
                            .implementations = {{"kernel", kernel, supports}},
                            .cost = cost,
                            .footprint = footprint});
  testing::TestPartResultArray failures;
  const testing::ScopedFakeTestPartResultReporter reporter(
      testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
  check_implementations<AddArgs>(
      codelet, {{"nine", {9}}},
      {.operands =
           [](const AddArgs& args) {
             const auto count = static_cast<std::size_t>(args.count);
             return std::vector<Operand>{input(count), accumulated(count), output(count)};
           },
       .reference = add<double>});
  return failures.size();
}

TEST(Harness, AcceptsWhatIsCorrect) { EXPECT_EQ(failures_of(correct), 0); }

TEST(Harness, RefusesEveryKindOfBrokenKernel) {
  EXPECT_GT(failures_of(forgets_an_output), 0);
  EXPECT_GT(failures_of(writes_past_the_end), 0);
  EXPECT_GT(failures_of(writes_before_the_start), 0);
  EXPECT_GT(failures_of(reads_past_the_end), 0);
  EXPECT_GT(failures_of(overwrites_the_sum), 0);
  EXPECT_GT(failures_of(writes_its_input), 0);
  EXPECT_GT(failures_of(is_wrong_in_the_fifth_digit), 0);
  EXPECT_GT(failures_of(remembers_the_last_run), 0);
}

TEST(Harness, RefusesAnImplementationThatNoCaseReaches) {
  EXPECT_EQ(failures_of(correct, [](const AddArgs&) { return false; }), 1);
}

TEST(Harness, RefusesAWrongGradient) {
  std::vector<double> x = random_values(5, 1);
  const auto loss = [&] { return dot(x, x); };
  std::vector<double> gradient(x);
  for (double& value : gradient) value *= 2;
  check_gradient("right", x, gradient, loss);
  gradient[3] *= 1.001;
  testing::TestPartResultArray failures;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    check_gradient("wrong", x, gradient, loss);
  }
  EXPECT_EQ(failures.size(), 1);
}

}  // namespace
}  // namespace omni::gradcheck
