// A network: layers over shared slices of one mini-batch, their parameters, and the walks that
// submit forward, backward and update. Built without StarPU; allocate() needs a running Session.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "layers/layer_builder.hpp"
#include "layers/net_options.hpp"
#include "runtime/tasks/task_capture.hpp"

namespace omni {

class Net;

// A net of a compute group has activations and gradients of its own. It reads replicas of the
// parameters in its first layers, up to the merged phase; the other parameters, the running
// statistics and what updates remember are those of the first group's net.
enum class FullyConnected { merged, replicated };
struct Sharing {
  bool replicas = false;  // false: the only group, which reads the master copies
  // Each group trains its replica by itself, with what its own updates remember; the groups then
  // meet at the master copies.
  bool own_models = false;
  FullyConnected fully_connected = FullyConnected::merged;
  const Net* master = nullptr;  // null: this net holds the master copies
};

struct BuildOptions {
  bool training = true;
  bool strict = false;
  int images = 0;  // of a pass through the net; 0: batch / subdivisions. Where it is given, an
                   // update may take several passes.
  int slice = 0;   // images per task; 0: chosen from the net (see choose_slice)
  int gpus = 0;    // that compute: then each gets one slice, the larger the better
  int cores = 0;   // likewise; 0: how the batch is cut and gradients are added up is a property of
                   // the net and the batch only, the same on every machine
  int rank = 0, ranks = 1;          // that share every mini-batch
  bool fixed_sums = false;          // of gradients: the same bits on 1, 2 and 4 ranks
  DataType values = DataType::f32;  // what layers hand on, and its gradients: f32 or bf16
  Sharing sharing{};
  // Layers may update parameters by the tasks that compute their gradients, where a mini-batch is
  // an update and no GPU computes. Param::diff is then null, see Step::update_of.
  bool update_in_backward = false;
};

class Net {
 public:
  static Result<std::unique_ptr<Net>> build(const NetSpec& spec, const BuildOptions& options);

  Status allocate();
  void initialise(std::uint64_t seed);

  // The merged phase starts with the first layer that reads parameters which all groups share;
  // without replicas it is empty. The replicated phase is everything before it.
  enum class Phase { replicated, merged };
  void forward(const Step& step, Phase phase);   // step.slot holds decoded images
  void backward(const Step& step, Phase phase);  // after forward, in training
  void forward(const Step& step);                // both phases
  void backward(const Step& step);
  // The same, one layer after another. `look` is called when the layer's tasks are submitted and
  // those of the next are not: later ones may use the memory of its tensors.
  using LookAt = std::function<void(const Layer&)>;
  void forward_by_layer(const Step& step, const LookAt& look);
  void backward_by_layer(const Step& step, const LookAt& look);
  bool has(Phase phase) const;
  // What the last layer of the replicated phase makes.
  std::span<Tensor* const> replicated_output() const;
  bool is_merged(const Param& param) const;  // of the merged phase
  // Whether other groups have nets with the same parameters.
  bool has_replicas() const { return has_replicas_; }

  // Layers read the master copies (evaluation) or the replicas (training), where there are any.
  void read_masters(bool masters);
  void refresh_replicas();  // = master; no task may be under way

  const std::string& name() const { return name_; }
  const NetOptions& options() const { return options_; }
  const Slices& slices() const { return parts_.slices; }
  DataType values() const { return parts_.values; }  // of what layers hand on, and of images
  int classes() const;
  const std::vector<std::unique_ptr<Layer>>& layers() const { return parts_.layers; }
  std::vector<Param*> params();
  std::size_t tensor_bytes() const { return parts_.tensors.bytes(); }  // that allocate() takes
  // One by one: what is transient a GPU holds for its own slices only, and where only GPUs compute
  // main memory does not.
  std::vector<TensorSize> tensor_sizes() const { return parts_.tensors.sizes(); }
  // That each worker keeps beside them to compute with, at most; a GPU's also libraries' workspace.
  // Captures the tasks of an iteration, so before training only; needs a Session, which decides
  // what may compute.
  struct WorkingBytes {
    std::size_t of_core = 0, copies_on_gpu = 0, sum_on_gpu = 0;
  };
  WorkingBytes working_bytes();
  std::size_t declared_bytes() const;   // by the layers, of which some share memory
  std::size_t parameter_count() const;  // trainable values
  double forward_flops_per_image() const;
  const Tensor& output(int slice) const;  // of the last layer

 private:
  Net() = default;
  Status add_layer(const Section& section);
  void find_phases(const NetSpec& spec, const Sharing& sharing);
  void cut_segments();
  void freeze_unreached_layers();
  void fuse_layers();
  std::vector<CapturedTask> capture_tasks(task_capture::Working working);
  void place_tensors_in_memory();
  void use_slot(const BatchSlot& slot);
  void share_gradients(const Layer& layer, int slice);

  std::string name_;
  NetOptions options_;
  NetParts parts_;
  // Ranges of layers [first, end) through which one slice runs alone; each but the last ends with a
  // layer that joins the slices.
  struct Segment {
    std::size_t first, end;
  };
  std::vector<Segment> segments_;
  Segment layers_of(Phase phase) const;
  bool has_replicas_ = false;
  // Forward, groups take turns at running statistics: for as short as possible.
  bool forward_takes_turns_ = false;
  std::size_t merged_from_ = 0;  // layer; their number when no phase is merged
  std::vector<bool> learns_;     // by layer: the loss's gradient reaches it
  std::size_t frozen_ = 0;       // the first layers, by stopbackward
};

}  // namespace omni
