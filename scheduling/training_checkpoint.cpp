#include "scheduling/training_checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "runtime/log.hpp"
#include "runtime/shown_name.hpp"
#include "scheduling/checksum.hpp"

namespace omni {
namespace {

// Every array of a training net, by its name in the file.
template <class Visit>
void for_each_array(Net& net, Visit visit) {
  for (const Param* param : net.params()) {
    visit("param/" + param->name, *param, *param->value);
    if (param->velocity != nullptr) visit("velocity/" + param->name, *param, *param->velocity);
  }
}

}  // namespace

std::string layers_hash(const NetSpec& spec) {
  std::string text;
  for (const Section& layer : spec.layers) {
    text += "[" + layer.type + "]";
    for (const Option& option : layer.options) text += option.key + "=" + option.value + ";";
  }
  return checksum_of(text);
}

Result<std::filesystem::path> save_training(CheckpointStore& store, Net& net,
                                            const TrainingState& state,
                                            const RunIdentity& identity) {
  Snapshot snapshot{
      .step = state.iteration, .cfg_hash = identity.layers, .arrays = {}, .fields = {}};
  std::deque<HostAccess> open;  // the values are looked at in place
  for_each_array(net, [&](std::string name, const Param& param, const Tensor& tensor) {
    open.emplace_back(tensor, HostAccess::Mode::read);
    snapshot.arrays.push_back({std::move(name), param.shape, open.back().f32()});
  });
  snapshot.fields.set("data", identity.data);
  snapshot.fields.set("iteration", state.iteration);
  snapshot.fields.set("seed", state.seed);
  snapshot.fields.set("average_loss", state.average_loss);
  snapshot.fields.set("batch", net.options().batch);
  snapshot.fields.set("slice", net.slices().sizes.front());
  return store.save(snapshot);
}

Status require_same_data(const Checkpoint& checkpoint, const std::string& data) {
  const std::string where = checkpoint.path.string();
  const auto saved = checkpoint.fields.text("data");
  if (!saved)
    log::warn("{}: does not say on which data it was trained; is it {}?", where, shown_name(data));
  else if (*saved != data)
    return Error{ErrorKind::usage, where,
                 fmt::format("was trained on the data {}, this run has {}", shown_name(*saved),
                             shown_name(data)),
                 "give the same --data, or train on with --other-data"};
  return {};
}

Status restore_parameters(Net& net, const Checkpoint& checkpoint) {
  const std::string where = checkpoint.path.string();
  Status status;
  for_each_array(net, [&](const std::string& name, const Param& param, const Tensor& tensor) {
    if (!status) return;
    const NamedArray* saved = checkpoint.arrays.find(name);
    if (saved == nullptr || saved->shape != param.shape) {
      status = Error{ErrorKind::data, where,
                     saved == nullptr ? fmt::format("has no array '{}'", name)
                                      : fmt::format("'{}' has another shape", name),
                     "it belongs to another net"};
      return;
    }
    const HostAccess access(tensor, HostAccess::Mode::write);
    std::copy(saved->values.begin(), saved->values.end(), access.f32().begin());
  });
  return status;
}

Result<TrainingState> restore_training(Net& net, const Checkpoint& checkpoint,
                                       const std::string& hash) {
  const std::string where = checkpoint.path.string();
  if (checkpoint.cfg_hash != hash && !checkpoint.cfg_hash.empty())
    log::warn("{}: was saved by a net whose layers are described differently", where);
  OMNI_CHECK(restore_parameters(net, checkpoint));

  TrainingState state;
  OMNI_TRY(state.iteration, checkpoint.fields.number<std::uint64_t>("iteration"));
  OMNI_TRY(state.seed, checkpoint.fields.number<std::uint64_t>("seed"));
  OMNI_TRY(state.average_loss, checkpoint.fields.number<double>("average_loss"));
  OMNI_TRY(const int batch, checkpoint.fields.number<int>("batch"));
  OMNI_TRY(const int slice, checkpoint.fields.number<int>("slice"));
  if (batch != net.options().batch)
    return Error{
        ErrorKind::usage, where,
        fmt::format("was trained with batch {}, this run has {}", batch, net.options().batch),
        fmt::format("resume with --batch {}", batch)};
  if (slice != net.slices().sizes.front())
    log::warn("{}: was trained with slices of {} images, now {}: sums may round differently", where,
              slice, net.slices().sizes.front());
  return state;
}

}  // namespace omni
