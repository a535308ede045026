#include "scheduling/training/evaluator.hpp"

#include <algorithm>
#include <array>

#include "runtime/communicator/ranks.hpp"
#include "runtime/signals.hpp"
#include "runtime/tasks/host_access.hpp"
#include "runtime/tasks/task_errors.hpp"

namespace omni {

void Tally::add(const BatchSlot& slot) {
  for (const Tensor* metrics : slot.metrics) {
    const HostAccess access(*metrics, HostAccess::Mode::read);
    const std::span<const float> sums = access.f32();
    const auto others = sums.subspan(kMetrics);
    add(Tally{sums[0], sums[1], sums[2], sums[3], {others.begin(), others.end()}});
  }
}

void Tally::add(const Tally& other) {
  loss += other.loss;
  top1 += other.top1;
  top5 += other.top5;
  images += other.images;
  auxiliary.resize(std::max(auxiliary.size(), other.auxiliary.size()));
  for (std::size_t i = 0; i < other.auxiliary.size(); ++i) auxiliary[i] += other.auxiliary[i];
}

std::vector<double> Tally::auxiliary_losses() const {
  std::vector<double> means = auxiliary;
  for (double& each : means) each /= std::max(images, 1.0);
  return means;
}

Turns::Turns(int batch, const Slices& slices) {
  const auto alike = [](int own) {
    return ranks::least(own) == -ranks::least(-static_cast<double>(own));
  };
  const bool turns = alike(batch) && alike(slices.ranks);
  if (turns) {
    takers = ranks::size() / slices.ranks;
    taker = ranks::rank() / slices.ranks;
  }
  takes = turns || ranks::rank() == slices.rank;
}

namespace {

// Runs one pass over a test set. `begin(slot, first)` submits the tasks of the mini-batch that
// begins with sample `first`. `end(slot)` reads
// their results after `ahead` more mini-batches were begun. Mini-batches beyond the end of the test
// set have no images.
Status pass_over(DataFeed& test, const Slices& slices, std::uint64_t ahead, const auto& begin,
                 const auto& end) {
  const Turns turns(test.batch(), slices);
  const std::uint64_t batches = turns.count(test.batches_per_pass());
  const auto first = [&](std::uint64_t number) { return turns.batch_at(number) * test.batch(); };
  const std::uint64_t slots = test.slots();
  const auto rounds =
      static_cast<std::uint64_t>(-ranks::least(-static_cast<double>(batches + ahead)));
  for (std::uint64_t number = 0, read = 0; number < rounds; ++number) {
    for (; read < batches && read + ahead < number + slots; ++read) test.submit(first(read));
    Status status =
        number < batches ? begin(test.slot(first(number)), first(number)) : task_status();
    if (status && number >= ahead && number < batches + ahead) {
      end(test.slot(first(number - ahead)));
      test.release(first(number - ahead));
      status = task_status();
    }
    if (status && ranks::any(stop_requested()))
      status = Error{ErrorKind::interrupted, "", "stopped while evaluating", ""};
    if (!status) {
      if (status.error().kind != ErrorKind::interrupted) ranks::leave_for(status.error());
      (void)wait_for_tasks();
      return status;
    }
  }
  return {};
}

}  // namespace

Result<Tally> evaluate(Net& net, DataFeed& test, std::uint64_t seed, const UseOutputs& use) {
  Tally tally;
  const auto use_slice = [&](const Tensor& output, std::size_t index) -> Status {
    const std::vector<float> all = HostAccess(output, HostAccess::Mode::read).values();
    OMNI_CHECK(task_status());
    const std::size_t each = net.outputs();
    for (std::size_t at = 0; at < all.size() && index < test.dataset().size(); at += each)
      OMNI_CHECK(use(index++, std::span(all).subspan(at, each)));
    return {};
  };
  const auto begin = [&](BatchSlot& slot, std::uint64_t first) -> Status {
    net.forward({.training = false, .seed = seed, .first_sample = 0, .slot = &slot});
    OMNI_CHECK(task_status());
    for (int slice = 0; use && slice < net.slices().count(); ++slice)
      OMNI_CHECK(
          use_slice(net.output(slice), first + net.slices().before + net.slices().offsets[slice]));
    return {};
  };
  const auto end = [&](const BatchSlot& slot) {
    if (net.layers().back()->is_loss()) tally.add(slot);
  };
  OMNI_CHECK(pass_over(test, net.slices(), use ? 0 : test.slots() - 1, begin, end));
  std::array values{tally.loss, tally.top1, tally.top5, tally.images};
  ranks::sum(values);
  return Tally{values[0], values[1], values[2], values[3]};
}

Status read_all(DataFeed& test, const Slices& slices, const std::function<void()>& on_batch) {
  const auto begin = [](BatchSlot&, std::uint64_t) { return task_status(); };
  const auto end = [&](const BatchSlot& slot) {
    for (const Tensor* labels : slot.labels) HostAccess(*labels, HostAccess::Mode::read);
    on_batch();
  };
  OMNI_CHECK(pass_over(test, slices, test.slots() - 1, begin, end));
  return wait_for_tasks();
}

}  // namespace omni
