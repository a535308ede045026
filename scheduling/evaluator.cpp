#include "scheduling/evaluator.hpp"

#include <algorithm>

#include "runtime/signals.hpp"
#include "runtime/tasks/task_errors.hpp"

namespace omni {

void Tally::add(const BatchSlot& slot) {
  for (const Tensor* metrics : slot.metrics) {
    const HostAccess access(*metrics, HostAccess::Mode::read);
    loss += static_cast<double>(access.f32()[0]);
    top1 += static_cast<double>(access.f32()[1]);
    top5 += static_cast<double>(access.f32()[2]);
    images += static_cast<double>(access.f32()[3]);
  }
}

Result<Tally> evaluate(Net& net, DataFeed& test, std::uint64_t seed) {
  Tally tally;
  const std::uint64_t batches = test.batches_per_pass();
  const auto ahead = static_cast<std::uint64_t>(test.slots()) - 1;
  for (std::uint64_t number = 0; number < batches + ahead; ++number) {
    if (number < batches) {
      test.submit(number);
      net.forward({.training = false, .seed = seed, .first_sample = 0, .slot = &test.slot(number)});
    }
    if (number >= ahead) {
      tally.add(test.slot(number - ahead));
      test.release(number - ahead);
    }
    OMNI_CHECK(task_status());
    if (stop_requested()) {
      OMNI_CHECK(wait_for_tasks());
      return Error{ErrorKind::interrupted, "", "stopped while evaluating", ""};
    }
  }
  return tally;
}

}  // namespace omni
