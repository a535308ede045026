#include "layers/net.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "codelets/elementwise/exchange.hpp"
#include "codelets/normalise/gradient_clip.hpp"
#include "layers/memory_plan.hpp"
#include "layers/slice_choice.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/communicator/transfers.hpp"
#include "runtime/shown_name.hpp"
#include "runtime/tasks/host_access.hpp"

namespace omni {
Result<std::unique_ptr<Net>> Net::build(const NetDescription& described,
                                        const BuildOptions& options) {
  const NetOptions& net_options = described.options;
  if (described.inputs.size() != 1)
    return Error{ErrorKind::usage, described.where,
                 fmt::format("the net has {} inputs", described.inputs.size()),
                 "join them to one, and take each out of it by a layer of type part"};
  const int batch = options.images > 0 ? options.images : net_options.micro_batch();
  const RankShares& sharers = options.shares;
  const bool one_pass = net_options.subdivisions == 1 && options.images == 0;
  // `complete` means that the gradients which this net computes need no sum over ranks, except
  // those of parameters with replicas.
  const bool complete = sharers.ranks == 1 || options.sharing.replicas;
  const auto assemble = [&](Slices slices) -> Result<std::unique_ptr<Net>> {
    if (net_options.input.count() > kMaxElements / static_cast<std::size_t>(slices.sizes.front()))
      return Error{ErrorKind::usage, described.where,
                   fmt::format("a slice of images would need more than {} elements", kMaxElements),
                   "use a smaller batch, slice or image"};
    std::unique_ptr<Net> net(new Net);
    net->name_ = described.name;
    net->options_ = net_options;
    net->parts_.training = options.training;
    net->parts_.complete_gradients = complete;
    net->parts_.adam = options.adam;
    net->rule_ = options.rule;
    // A task that moves weights and velocities between devices is not for cores beside a GPU.
    net->parts_.update_in_backward =
        options.update_in_backward && !options.clips && one_pass && options.gpus == 0;
    // A core adds to gradients that are still in its caches. A GPU would read old values for
    // nothing, so there the first task overwrites them. With several workers, tasks that add go to
    // the worker that has the gradient, the weights and their velocity.
    net->parts_.overwrite_diffs = one_pass && complete && options.gpus == 1 && slices.count() == 1;
    net->parts_.values = options.values;
    // A rounded copy of the weights is only used if one net writes them. Other ranks and groups
    // write parameters as well, but do not update the copy.
    net->parts_.round_weights = options.values == DataType::bf16 && options.gpus > 0 &&
                                sharers.ranks == 1 && !options.sharing.replicas;
    net->parts_.gradient_sums =
        options.fixed_sums ? fixed_gradient_sums(slices)
                           : choose_gradient_sums(slices.count(), options.cores, options.gpus);
    // A guest, the net for a group on other ranks, needs the same blocks as the nets of those
    // ranks. So only the slices of the first of those ranks count.
    const bool one_of_many = options.sharing.guest && !slices.owners.empty();
    const auto own = one_of_many ? std::ranges::count(slices.owners, 0) : slices.count();
    ConnectedShares shares{.images = slices.images_of_all() * net_options.subdivisions,
                           .cores = options.cores,
                           .gpus = options.gpus,
                           .ranks = options.fixed_sums ? 1 : options.most_ranks};
    const bool divides = options.training && !complete && !options.fixed_sums && slices.ranks > 1;
    net->parts_.connected_blocks = [=](int inputs, int outputs) mutable {
      shares.inputs = inputs;
      shares.outputs = outputs;
      return divides ? divide_neurons(shares)
                     : choose_connected_blocks(shares, static_cast<int>(own));
    };
    net->parts_.slices = std::move(slices);
    net->parts_.data.extent = net_options.input;
    net->find_phases(described, options.sharing);
    net->parts_.data.value.resize(net->parts_.slices.sizes.size());  // use_slot() sets them
    std::map<std::string, int, std::less<>> makers{{described.inputs.front(), -1}};
    for (const LayerDescription& layer : described.layers)
      OMNI_CHECK(net->add_layer(layer, makers));
    net->cut_segments();
    net->find_training_layers();
    if (options.training) net->freeze_unreached_layers();
    if (options.training && net->frozen_ > 0 && net->parameter_count() == 0)
      return Error{ErrorKind::usage, described.layers[net->frozen_ - 1].place_of("stops_backward"),
                   "no layer is left that learns", "set it in an earlier layer"};
    net->fuse_layers();
    net->forward_takes_turns_ =
        net->has_replicas_ && std::ranges::any_of(net->parts_.params, [](const Param& param) {
          return param.replica == nullptr && !param.trainable;
        });
    return net;
  };
  // With fixed sums, results must have the same bits for any number of ranks. Bits depend on the
  // slices, so these must not depend on the ranks. If ranks are alike, all cut slices of one size.
  std::vector<int> most_images{batch};
  const bool alike = sharers.weights.empty() && options.cores_by_rank.empty();
  if (!options.fixed_sums) most_images.front() = (batch + sharers.ranks - 1) / sharers.ranks;
  for (int rank = 0; !options.fixed_sums && !alike && rank < sharers.ranks; ++rank) {
    most_images.resize(static_cast<std::size_t>(sharers.ranks));
    most_images[rank] = std::max(sharers.images_of(rank, batch), 1);
  }
  std::vector<int> sizes;
  std::unique_ptr<Net> shapes;
  for (std::size_t rank = 0; rank < most_images.size(); ++rank) {
    const int images = most_images[rank];
    int slice = options.slice;
    if (slice == 0 && options.gpus > 0) slice = (images + options.gpus - 1) / options.gpus;
    if (slice == 0) {
      // The net is first built with one image to get the shapes: the size of slices depends on the
      // layers' flops.
      if (!shapes) {
        OMNI_TRY(shapes, assemble(Slices::cut(1, 1)));
      }
      const int cores = options.cores_by_rank.empty() ? options.cores : options.cores_by_rank[rank];
      slice = std::min(images, choose_slice(shapes->parts_, images, cores, images < batch));
    }
    sizes.push_back(slice);
  }
  OMNI_TRY(Slices slices, share_slices(batch, sizes, sharers, options.fixed_sums));
  if (options.sharing.guest) slices = slices.whole();
  OMNI_TRY(auto net, assemble(std::move(slices)));
  if (options.training && !net->layers().back()->is_loss())
    return Error{ErrorKind::usage, described.layers.back().where, "the last layer computes no loss",
                 "end the net with a softmax layer"};
  net->place_tensors_in_memory();
  if (options.clips)
    for (std::size_t i = sums_of_squares(net->gradients().size()); i > 0; --i)
      net->sums_of_squares_.push_back(&net->parts_.tensors.declare("sum of squares", 1));
  return net;
}

// Adds a layer to the net. `makers` has, by a blob's name, the number of the layer that makes the
// blob.
Status Net::add_layer(const LayerDescription& layer,
                      std::map<std::string, int, std::less<>>& makers) {
  OMNI_TRY(const LayerType* type, find_layer_type(layer));
  if (!layers().empty() && layers().back()->is_loss() && !last_is_auxiliary_)
    return Error{ErrorKind::usage, layer.where, "there is already a loss layer above",
                 "softmax, logistic, cost or target is the last layer"};
  last_is_auxiliary_ = layer.auxiliary;
  std::vector<int> inputs;
  for (const std::string& name : layer.inputs) {
    const auto maker = makers.find(name);
    if (maker == makers.end())
      return Error{ErrorKind::usage, layer.where,
                   fmt::format("no layer above makes its input {}", shown_name(name)), ""};
    if (maker->second >= 0 && layers()[static_cast<std::size_t>(maker->second)]->is_loss())
      return Error{ErrorKind::usage, layer.where, "reads a loss", "read what the loss reads"};
    inputs.push_back(maker->second);
  }
  if (inputs.empty() || layer.outputs.size() != 1)
    return Error{
        ErrorKind::usage, layer.where,
        fmt::format("the layer has {} inputs and {} outputs", inputs.size(), layer.outputs.size()),
        "it needs an input, and makes one output"};
  makers[layer.outputs.front()] = static_cast<int>(layers().size());
  LayerBuilder builder(parts_, layer, std::move(inputs));
  std::unique_ptr<Layer> made = type->make(builder);
  OMNI_CHECK(builder.status());
  builder.finish(std::move(made));
  if (layer.stops_backward) frozen_ = layers().size();
  return {};
}

namespace {

// Returns whether a layer from `first` on reads another layer before them than the last one, whose
// output is all that groups send to a merged phase on another rank.
bool reads_across(const NetDescription& described, std::size_t first) {
  std::map<std::string, std::size_t> makers;
  for (std::size_t i = 0; i < described.layers.size(); ++i) {
    for (const std::string& input : described.layers[i].inputs) {
      const auto maker = makers.find(input);
      if (i >= first && first > 0 && (maker == makers.end() || maker->second + 1 < first))
        return true;
    }
    makers[described.layers[i].outputs.front()] = i;
  }
  return false;
}

}  // namespace

// Finds where the merged phase begins: at the first fully connected layer behind all other layers
// with weights. The layers from it on have few flops and most of the parameters. So it costs less
// to bring every group's data to one copy than to keep a copy per group.
void Net::find_phases(const NetDescription& described, const Sharing& sharing) {
  merged_from_ = described.layers.size();
  const bool has_auxiliary = std::ranges::any_of(described.layers, &LayerDescription::auxiliary);
  has_replicas_ = sharing.replicas;
  guest_ = sharing.guest;
  if (!has_replicas_) return;
  parts_.own_models = sharing.own_models;
  if (sharing.master != nullptr) {
    parts_.master_params = &sharing.master->parts_.params;
    parts_.own_gradients = sharing.master->slices().ranks > 1;
  }
  // An auxiliary loss lies before all layers of a merged phase, and its sum is the last layer's.
  if (sharing.fully_connected == FullyConnected::merged && !has_auxiliary)
    for (std::size_t i = described.layers.size(); i-- > 0;) {
      const auto type = find_layer_type(described.layers[i]);
      if (!type || (*type)->in_groups == InGroups::copies) break;
      if ((*type)->in_groups == InGroups::one) merged_from_ = i;
    }
  // A route to one layer has no tensors of its own, and an input no gradient.
  const auto computes_nothing = [](const LayerDescription& layer) {
    return layer.type == "part" || (layer.type == "route" && layer.inputs.size() == 1);
  };
  while (merged_from_ > 0 && merged_from_ < described.layers.size() &&
         computes_nothing(described.layers[merged_from_ - 1]))
    --merged_from_;
  if (ranks::several() && reads_across(described, merged_from_))
    merged_from_ = described.layers.size();
  parts_.replicated_layers = merged_from_;
}

void Net::cut_segments() {
  std::size_t first = 0;
  for (std::size_t i = 0; i < layers().size(); ++i)
    if (layers()[i]->joins_slices() || i + 1 == layers().size() || i + 1 == merged_from_) {
      segments_.push_back({first, i + 1});
      first = i + 1;
    }
}

// Layers of which only auxiliary losses need the output are left out of evaluations.
void Net::find_training_layers() {
  only_trains_.assign(layers().size(), !parts_.auxiliary_metrics.empty());
  std::unordered_set<const Blob*> read;
  for (std::size_t i = layers().size(); i-- > 0;) {
    if (i + 1 == layers().size() || read.contains(&layers()[i]->output())) only_trains_[i] = false;
    if (only_trains_[i]) continue;
    for (const Input* input : layers()[i]->inputs()) read.insert(input->blob);
  }
}

// A layer with stops_backward and all layers before it do not change, whichever layer reads them.
// Neither do layers whose output leads to no loss. Such layers have no backward tasks and no
// update, not even decay.
void Net::freeze_unreached_layers() {
  std::unordered_map<const Blob*, std::size_t> maker;
  for (std::size_t i = 0; i < layers().size(); ++i) maker[&layers()[i]->output()] = i;
  std::unordered_set<const Blob*> written;  // by the consumer whose turn comes first in backward
  learns_.assign(layers().size(), false);
  for (std::size_t i = frozen_; i < layers().size(); ++i)
    learns_[i] = i + 1 == layers().size() || layers()[i]->is_loss();
  for (std::size_t i = layers().size(); i-- > 0;) {
    if (!learns_[i])
      for (Param* param : layers()[i]->params()) param->trainable = false;
    const std::vector<Input*>& inputs = layers()[i]->inputs();
    for (auto input = inputs.rbegin(); input != inputs.rend(); ++input) {
      const auto made_by = maker.find((*input)->blob);
      if (!learns_[i] || made_by == maker.end() || made_by->second < frozen_)
        (*input)->diff.clear();
      if (!(*input)->wants_gradient()) continue;
      if (written.insert((*input)->blob).second) (*input)->diff = (*input)->blob->diff;
      learns_[made_by->second] = true;
    }
  }
}

// Fuses work of a layer into the layer after it, if no other layer reads its output. Where several
// layers read one output, lets them add their gradients in place.
void Net::fuse_layers() {
  std::unordered_map<const Blob*, int> readers;
  for (const auto& layer : layers())
    for (const Input* input : layer->inputs()) ++readers[input->blob];
  for (std::size_t i = 1; i < layers().size(); ++i) {
    Layer &before = *layers()[i - 1], &layer = *layers()[i];
    if (readers[&before.output()] != 1 || layer.inputs().front()->blob != &before.output())
      continue;
    if (parts_.training && layer.can_take_relu_gradient() && before.leave_relu_gradient())
      layer.take_relu_gradient();
    if (layer.fuse_sum_into(before) || layer.work_in_place(before))
      layer.share_output(before, parts_.tensors);
  }
  for (const auto& layer : layers()) layer->add_gradients_in_place(parts_.tensors);
}

// Captures the tasks of training and of evaluations between iterations, or only those of
// evaluation.
std::vector<CapturedTask> Net::capture_tasks(task_capture::Working working, bool evaluates) {
  Tensor rest("captured run", 1);  // stands for labels and metrics
  const std::vector<Tensor*> each_slice(parts_.slices.sizes.size(), &rest);
  BatchSlot slot{{}, each_slice, each_slice};
  std::deque<Tensor> images;
  for (const int count : parts_.slices.sizes)
    slot.images.push_back(&images.emplace_back(
        "captured run", static_cast<std::size_t>(count) * parts_.data.extent.count(),
        parts_.values));
  const UpdateOf update_of = [](const Param&) { return ExchangeArgs(); };
  const Step training{.training = true, .slot = &slot, .update_of = &update_of};
  std::vector<CapturedTask> tasks = task_capture::capture_tasks(
      [&] {
        if (guest_) {
          forward(training, Phase::merged);
          return backward(training, Phase::merged);
        }
        if (parts_.training) {
          forward(training);
          backward(training);
        }
        if (evaluates) forward({.training = false, .slot = &slot});
      },
      working);
  parts_.data.value.assign(each_slice.size(), nullptr);
  return tasks;
}

Net::WorkingBytes Net::working_bytes() {
  WorkingFloats most;
  for (const CapturedTask& task : capture_tasks(task_capture::Working::wanted))
    most.grow(task.working);
  return {.of_core = (most.scratch + most.kept_beside + most.copies) * sizeof(float),
          .copies_on_gpu = most.copies_on_gpu * sizeof(float),
          .factors_on_gpu = most.factors_on_gpu * sizeof(float),
          .sum_on_gpu = most.sum_on_gpu * sizeof(float)};
}

// Tensors of a net that is only evaluated share no memory. Otherwise mini-batches that are under
// way at the same time would wait for each other.
void Net::place_tensors_in_memory() {
  std::vector<const Tensor*> kept;  // tensors that other code than the net's tasks reads, too
  const auto keep = [&](const Layer& layer) {
    kept.insert(kept.end(), layer.output().value.begin(), layer.output().value.end());
  };
  keep(*layers().back());
  for (const Param& param : parts_.params)
    if (param.overwrites_diff) kept.push_back(param.diff);  // updates read it
  if (has(Phase::replicated)) keep(*layers()[merged_from_ - 1]);
  const std::vector<CapturedTask> tasks = capture_tasks(task_capture::Working::unknown);
  // Received tensors have memory of their own. Otherwise another rank's message would have to wait
  // until the memory is free.
  for (const CapturedTask& task : tasks)
    if (task.codelet == kTransferName && task.uses.front().mode == AccessMode::write)
      kept.push_back(task.uses.front().part.tensor);
  if (guest_) {
    const std::vector<Tensor*>& sent = replicated_output().diff;
    kept.insert(kept.end(), sent.begin(), sent.end());
    std::unordered_set<const Tensor*> used;
    for (const CapturedTask& task : tasks)
      for (const CapturedTask::Use& use : task.uses) used.insert(use.part.tensor);
    for (const Tensor& each : parts_.tensors.all())
      if (!used.contains(&each)) parts_.tensors.leave_out(each);
  }
  place_tensors(parts_.tensors, tasks, kept, parts_.training);
}

Status Net::allocate() { return parts_.tensors.allocate(); }

bool Net::has(Phase phase) const {
  const Segment range = layers_of(phase);
  return range.first < range.end;
}

bool Net::is_merged(const Param& param) const {
  return has(Phase::merged) && param.replica == nullptr && param.trainable;
}

void Net::read_masters(bool masters) {
  for (Param& param : parts_.params)
    if (param.replica != nullptr) param.value = masters ? param.master : param.replica;
}

void Net::refresh_replicas() {
  for (const Param& param : parts_.params) {
    if (param.replica == nullptr) continue;
    const HostAccess from(*param.master, HostAccess::Mode::read);
    const HostAccess to(*param.replica, HostAccess::Mode::write);
    std::ranges::copy(from.f32(), to.f32().begin());
  }
}

const Tensor& Net::output(int slice) const {
  return *layers().back()->output().value[static_cast<std::size_t>(slice)];
}

}  // namespace omni
