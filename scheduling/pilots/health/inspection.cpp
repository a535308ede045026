#include "scheduling/pilots/health/inspection.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "runtime/communicator/ranks.hpp"
#include "runtime/tasks/host_access.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "scheduling/training/evaluator.hpp"

namespace omni {
namespace {

constexpr std::size_t kLookedAt = 32;  // samples of a mini-batch whose outputs are compared
// A problem that this many samples show is certain, so no more mini-batches are inspected then.
constexpr std::uint64_t kSurely = 256;

// KeptStatistics saves a net's running statistics and restores them in its destructor. Forward
// passes that are not part of the training change them.
class KeptStatistics {
 public:
  explicit KeptStatistics(Net& net) {
    for (const Param* param : net.params())
      if (param->velocity == nullptr)
        kept_.emplace_back(param->value,
                           HostAccess(*param->value, HostAccess::Mode::read).values());
  }
  ~KeptStatistics() {
    for (const auto& [tensor, values] : kept_)
      std::ranges::copy(values, HostAccess(*tensor, HostAccess::Mode::write).f32().begin());
  }
  KeptStatistics(const KeptStatistics&) = delete;
  KeptStatistics& operator=(const KeptStatistics&) = delete;

 private:
  std::vector<std::pair<const Tensor*, std::vector<float>>> kept_;
};

template <class T>
void compare(InspectedLayer& with, std::span<const T> outputs, std::size_t per_sample) {
  if (with.first.empty())
    with.first.assign(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(per_sample));
  float largest = 0, difference = 0;
  bool finite = true;
  for (std::size_t first = 0; first + per_sample <= outputs.size(); first += per_sample)
    for (std::size_t i = 0; i < per_sample; ++i) {
      const auto value = static_cast<float>(outputs[first + i]);
      finite = finite && std::isfinite(value);
      largest = std::max(largest, std::abs(value));
      difference = std::max(difference, std::abs(value - with.first[i]));
    }
  with.largest = std::max(with.largest, static_cast<double>(largest));
  with.difference = finite ? std::max(with.difference, static_cast<double>(difference))
                           : std::numeric_limits<double>::infinity();
}

double squares(const Tensor& tensor) {
  const HostAccess access(tensor, HostAccess::Mode::read);
  double sum = 0;
  const auto add = [&](auto values) {
    for (const auto value : values) {
      const auto number = static_cast<double>(static_cast<float>(value));
      sum += number * number;
    }
  };
  tensor.type() == DataType::bf16 ? add(access.bf16()) : add(access.f32());
  return sum;
}

double squares(const std::vector<Tensor*>& by_slice) {
  double sum = 0;
  for (const Tensor* slice : by_slice) sum += squares(*slice);
  return sum;
}

class Inspector {
 public:
  explicit Inspector(Net& net) : net_(net), statistics_(net), inputs_(net.layers().size()) {
    for (const auto& layer : net.layers()) {
      InspectedLayer& found = found_.layers.emplace_back();
      found.layer = layer.get();
      double sum = 0;
      for (const Param* param : layer->params()) {
        if (!param->trainable || param->rate == 0) continue;
        found.learns = true;
        found.values += static_cast<double>(param->value->count());
        sum += squares(*param->value);
      }
      found.parameters = std::sqrt(sum);
    }
  }

  void pass(const Step& step) {
    look_at(found_.data, step.slot->images, net_.options().input.count());
    net_.forward_by_layer(step, [this](const Layer& layer) {
      const Blob& blob = net_.layers()[layer.index()]->read_by_others();
      look_at(found_.layers[layer.index()], blob.value, blob.extent.count());
      if (is_updated_in_backward(layer))
        inputs_[layer.index()] = squares(layer.inputs().front()->blob->value);
    });
    net_.backward_by_layer(step, [this](const Layer& layer) { take_gradient(layer); });
    found_.samples += std::min<std::uint64_t>(net_.slices().images(), kLookedAt);
  }

  const Inspection& found() const { return found_; }

 private:
  static bool is_updated_in_backward(const Layer& layer) {
    return std::ranges::any_of(layer.params(), &Param::updated_in_backward);
  }

  void look_at(InspectedLayer& into, const std::vector<Tensor*>& by_slice,
               std::size_t per_sample) const {
    std::size_t seen = 0;
    for (std::size_t slice = 0; slice < by_slice.size() && seen < kLookedAt; ++slice) {
      const std::size_t images = net_.slices().sizes[slice],
                        count = std::min(images, kLookedAt - seen);
      const HostAccess access(*by_slice[slice], HostAccess::Mode::read);
      if (by_slice[slice]->type() == DataType::bf16)
        compare(into, std::span<const Bf16>(access.bf16()).first(count * per_sample), per_sample);
      else
        compare(into, std::span<const float>(access.f32()).first(count * per_sample), per_sample);
      seen += count;
    }
  }

  // Returns the sum of a gradient's squares. With `clears`, sets the gradient to 0, as an update
  // does.
  static double take(const Tensor& diff, bool clears) {
    const double sum = squares(diff);
    if (clears && sum != 0)
      std::ranges::fill(HostAccess(diff, HostAccess::Mode::write).f32(), 0.0f);
    return sum;
  }

  void take_gradient(const Layer& layer) {
    double sum = 0;
    for (const Param* param : layer.params()) {
      if (param->diff == nullptr) continue;
      double length = std::sqrt(take(*param->diff, !param->overwrites_diff));
      for (const Tensor* part : param->partial_diffs) length += std::sqrt(take(*part, true));
      if (param->trainable && param->rate != 0) sum += length * length;
    }
    const auto samples = static_cast<double>(net_.slices().images());
    // A gradient of a layer that is updated in backward is not stored. It is a sum over samples of
    // products of the output's gradient and the input. So its norm is bounded by theirs.
    if (is_updated_in_backward(layer))
      sum += squares(layer.output().diff) * (inputs_[layer.index()] + samples);
    InspectedLayer& found = found_.layers[layer.index()];
    found.gradient = std::max(found.gradient, std::sqrt(sum) / samples);
  }

  Net& net_;
  const KeptStatistics statistics_;
  std::vector<double> inputs_;  // by layer updated in backward: sum of the squares of its input
  Inspection found_;
};

}  // namespace

bool Inspection::finds_something() const {
  return std::ranges::any_of(layers, [](const InspectedLayer& layer) {
    return layer.is_same() || (layer.learns && layer.gradient == 0);
  });
}

Result<Inspection> inspect(Net& net, DataFeed& feed, std::uint64_t seed,
                           std::uint64_t first_sample) {
  Inspector inspector(net);
  const std::uint64_t images = feed.batch();
  for (std::uint64_t first = first_sample; inspector.found().samples < kSurely; first += images) {
    const bool held = feed.holds(first);
    if (!held) feed.submit(first);
    inspector.pass(
        {.training = true, .seed = seed, .first_sample = first, .slot = &feed.slot(first)});
    if (!held) feed.release(first);
    OMNI_CHECK(task_status());
    if (!inspector.found().finds_something()) break;
  }
  return inspector.found();
}

namespace {

// Takes the least and the largest values of all ranks.
void take_extremes(std::vector<float>& least, std::vector<float>& most) {
  std::string own;
  for (const auto* values : {&least, &most})
    own.append(reinterpret_cast<const char*>(values->data()), values->size() * sizeof(float));
  for (const std::string& each : ranks::gather(own)) {
    std::vector<float> theirs(each.size() / sizeof(float));
    std::memcpy(theirs.data(), each.data(), each.size());
    for (std::size_t i = 0; i < least.size(); ++i) {
      least[i] = std::min(least[i], theirs[i]);
      most[i] = std::max(most[i], theirs[least.size() + i]);
    }
  }
}

}  // namespace

Result<Probe> probe(Net& net, DataFeed& train, std::uint64_t seed, std::uint64_t first_sample,
                    std::uint64_t count) {
  const std::uint64_t batch = net.options().batch;
  const std::size_t classes = net.outputs();
  const Turns turns(train.batch(), net.slices());
  const std::uint64_t own = turns.count(count);
  const auto sample = [&](std::uint64_t turn) {
    return first_sample + turns.batch_at(turn) * batch;
  };
  std::vector<double> sums(2 * count);  // by mini-batch: the losses and the number of its images
  std::vector<float> least(classes, INFINITY), most(classes, -INFINITY);
  const KeptStatistics kept(net);
  net.read_masters(true);
  if (own > 0) train.submit(sample(0));
  for (std::uint64_t turn = 0; turn < own; ++turn) {
    if (turn + 1 < own) train.submit(sample(turn + 1));
    BatchSlot& slot = train.slot(sample(turn));
    net.forward({.training = true, .seed = seed, .first_sample = sample(turn), .slot = &slot});
    Tally tally;
    tally.add(slot);
    const std::uint64_t number = turns.batch_at(turn);
    const bool counts = number < count;  // otherwise the turn only has others to keep company
    if (counts) sums[2 * number] = tally.loss, sums[2 * number + 1] = tally.images;
    for (int slice = 0; counts && slice < net.slices().count(); ++slice) {
      const std::vector<float> outputs =
          HostAccess(net.output(slice), HostAccess::Mode::read).values();
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        least[i % classes] = std::min(least[i % classes], outputs[i]);
        most[i % classes] = std::max(most[i % classes], outputs[i]);
      }
    }
    train.release(sample(turn));
  }
  net.read_masters(false);
  if (Status done = wait_for_tasks(); !done) {
    ranks::leave_for(done.error());
    return std::move(done.error());
  }
  ranks::sum(sums);
  take_extremes(least, most);
  Probe probe;
  for (std::uint64_t number = 0; number < count; ++number)
    probe.losses.push_back(sums[2 * number] / sums[2 * number + 1]);
  for (std::size_t i = 0; i < classes; ++i)
    probe.spread = std::max(probe.spread, static_cast<double>(most[i] - least[i]));
  return probe;
}

}  // namespace omni
