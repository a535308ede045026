// These tests compare submit functions with their codelets. StarPU must give the buffers to the
// kernels in the right order. With a single memory node a wrong access mode has no effect.
// batchnorm_slices_test.cpp tests batch normalisation, and net/net_test.cpp and tests/e2e run the
// other submit functions.
#include "codelets/loss/cost_loss.hpp"
#include "codelets/loss/label_metrics.hpp"
#include "codelets/loss/softmax.hpp"
#include "runtime/tasks/host_access.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "runtime/tasks/tensor_pool.hpp"
#include "tests/gradcheck/harness.hpp"
#include "tests/support/with_session.hpp"

namespace omni::gradcheck {
namespace {

constexpr std::uint64_t kSeed = 5;

class Submission : public test::WithSession {
 protected:
  // The session is deterministic, so that the first implementation runs.
  Submission() : WithSession(test::with_workers(1, true)) {}

  // Submits the codelet on tensors with the operands' start values, and compares the results with a
  // direct call of the kernel.
  template <class Args, class Submit>
  void check(const Codelet<Args>& codelet, const Args& args, const std::vector<Operand>& operands,
             Submit submit) {
    SCOPED_TRACE(codelet.name());
    const auto expected = run_on<float>(operands, kSeed, [&](const Buffers& buffers) {
      codelet.implementations()[0].kernel(args, buffers, DeviceContext::current());
    });
    TensorPool pool;
    std::vector<Tensor*> tensors;
    for (const Operand& operand : operands)
      tensors.push_back(&pool.declare("operand", operand.count, operand.type));
    ASSERT_TRUE(pool.allocate());
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const HostAccess access(*tensors[i], HostAccess::Mode::write);
      std::memcpy(bytes(*tensors[i], access), make_block<float>(operands[i], kSeed, i).data(),
                  tensors[i]->bytes());
    }
    submit(tensors);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const HostAccess access(*tensors[i], HostAccess::Mode::read);
      EXPECT_EQ(std::memcmp(bytes(*tensors[i], access), expected[i].data(), tensors[i]->bytes()), 0)
          << "operand " << i;
    }
    EXPECT_TRUE(task_status());
  }

 private:
  static void* bytes(const Tensor& tensor, const HostAccess& access) {
    return tensor.type() == DataType::i32 ? static_cast<void*>(access.i32().data())
                                          : static_cast<void*>(access.f32().data());
  }
};

using Tensors = const std::vector<Tensor*>&;

TEST_F(Submission, losses) {
  const Operand predictions = input(15, uniform(0.1f, 1));
  const Operand labels = input(3, below(5), DataType::i32);
  CrossEntropyArgs entropy{.n = 3, .inputs = 5};
  check(cross_entropy, entropy, {input(15), predictions, labels, output(4)},
        [&](Tensors t) { submit_cross_entropy(entropy, *t[0], *t[1], *t[2], *t[3], nullptr); });
  entropy.gradient = true;
  check(cross_entropy, entropy, {input(15), predictions, labels, output(4), output(15)},
        [&](Tensors t) { submit_cross_entropy(entropy, *t[0], *t[1], *t[2], *t[3], t[4]); });

  CostLossArgs squares{.n = 3, .inputs = 5};
  check(cost_loss, squares, {predictions, labels, output(4)},
        [&](Tensors t) { submit_loss(cost_loss, squares, *t[0], *t[1], *t[2], nullptr); });
  squares.gradient = true;
  check(cost_loss, squares, {predictions, labels, output(4), output(15)},
        [&](Tensors t) { submit_loss(cost_loss, squares, *t[0], *t[1], *t[2], t[3]); });
}

TEST_F(Submission, a_bad_label_becomes_an_error) {
  Tensor predictions("predictions", 3), labels("labels", 1, DataType::i32), metrics("metrics", 4);
  for (Tensor* tensor : {&predictions, &labels, &metrics}) ASSERT_TRUE(tensor->allocate());
  HostAccess(labels, HostAccess::Mode::write).i32()[0] = 3;
  submit_loss(cost_loss, {.n = 1, .inputs = 3}, predictions, labels, metrics, nullptr);
  { const HostAccess wait(metrics, HostAccess::Mode::read); }
  const Status status = task_status();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().what,
            "label 3 of image 0 of the slice is out of range: the net has 3 outputs");
  clear_task_errors();
}

}  // namespace
}  // namespace omni::gradcheck
