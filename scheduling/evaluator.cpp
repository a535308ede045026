#include "scheduling/evaluator.hpp"

#include <algorithm>

#include "runtime/signals.hpp"
#include "runtime/tasks/task_errors.hpp"

namespace omni {
namespace {

Error stopped() { return {ErrorKind::interrupted, "", "stopped while evaluating", ""}; }

}  // namespace

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
      return stopped();
    }
  }
  return tally;
}

Status evaluate_each(Net& net, DataFeed& test, std::uint64_t seed, const UseOutputs& use,
                     Tally* tally) {
  const auto outputs = static_cast<std::size_t>(net.classes());
  const std::uint64_t batches = test.batches_per_pass();
  std::size_t index = 0;
  const auto use_slice = [&](int slice) -> Status {
    const std::vector<float> values =
        HostAccess(net.output(slice), HostAccess::Mode::read).values();
    OMNI_CHECK(task_status());
    for (std::size_t at = 0; at < values.size() && index < test.dataset().size(); at += outputs)
      OMNI_CHECK(use(index++, std::span(values).subspan(at, outputs)));
    return {};
  };
  for (std::uint64_t number = 0, read = 0; number < batches; ++number) {
    for (; read < batches && read - number < static_cast<std::uint64_t>(test.slots()); ++read)
      test.submit(read);
    net.forward({.training = false, .seed = seed, .first_sample = 0, .slot = &test.slot(number)});
    Status status = stop_requested() ? stopped() : task_status();
    for (int slice = 0; status && slice < net.slices().count(); ++slice) status = use_slice(slice);
    if (!status) {
      (void)wait_for_tasks();
      return status;
    }
    if (tally != nullptr) tally->add(test.slot(number));
    test.release(number);
  }
  return {};
}

}  // namespace omni
