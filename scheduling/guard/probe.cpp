#include "scheduling/guard/probe.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/tasks/task_errors.hpp"
#include "scheduling/evaluator.hpp"
#include "scheduling/kept_statistics.hpp"

namespace omni {

Result<Probe> probe(Net& net, DataFeed& train, std::uint64_t seed, std::uint64_t first_sample,
                    std::uint64_t count) {
  const std::uint64_t batch = net.options().batch;
  const std::size_t classes = net.classes();
  const auto sample = [&](std::uint64_t number) { return first_sample + number * batch; };
  Probe probe;
  std::vector<float> least(classes, INFINITY), most(classes, -INFINITY);
  const KeptStatistics kept(net);
  net.read_masters(true);
  train.submit(sample(0));
  for (std::uint64_t number = 0; number < count; ++number) {
    if (number + 1 < count) train.submit(sample(number + 1));
    const BatchSlot& slot = train.slot(sample(number));
    net.forward({.training = true,
                 .seed = seed,
                 .first_sample = sample(number),
                 .slot = &train.slot(sample(number))});
    Tally tally;
    tally.add(slot);
    probe.losses.push_back(tally.mean_loss());
    for (int slice = 0; slice < net.slices().count(); ++slice) {
      const std::vector<float> outputs =
          HostAccess(net.output(slice), HostAccess::Mode::read).values();
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        least[i % classes] = std::min(least[i % classes], outputs[i]);
        most[i % classes] = std::max(most[i % classes], outputs[i]);
      }
    }
    train.release(sample(number));
  }
  net.read_masters(false);
  OMNI_CHECK(wait_for_tasks());
  for (std::size_t i = 0; i < classes; ++i)
    probe.spread = std::max(probe.spread, static_cast<double>(most[i] - least[i]));
  return probe;
}

}  // namespace omni
