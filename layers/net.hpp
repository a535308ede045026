// A Net has layers, their parameters, and the slices of one mini-batch. It submits the tasks of
// forward and backward; strategies submit updates. A Net is built without StarPU, but allocate()
// needs a running Session.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "layers/layer_builder.hpp"
#include "layers/net_description.hpp"
#include "layers/slice_choice.hpp"
#include "runtime/data/open.hpp"
#include "runtime/tasks/task_capture.hpp"
#include "runtime/tasks/tensor_pool.hpp"

namespace omni {

class Net;

// Layers of a compute group's net that come before the merged phase read replicas of the
// parameters. The net has its own activations and gradients. All other parameters, the running
// statistics and the optimizer state belong to the net of the first group.
enum class FullyConnected { merged, replicated };
struct Sharing {
  bool replicas = false;  // false: the only group, which reads the master copies
  // True: each group trains its replica with its own optimizer state, and the models are averaged
  // into the master copies at meetings.
  bool own_models = false;
  FullyConnected fully_connected = FullyConnected::merged;
  const Net* master = nullptr;  // null: this net holds the master copies
  // True: the net stands for a group on other ranks. Only its merged phase has memory, for the
  // slices of all those ranks.
  bool guest = false;
};

struct BuildOptions {
  bool training = true;
  bool adam = false;                // parameters have the state of Adam, see Param::mean_square
  StepRule rule = StepRule::usual;  // what the velocities are
  int images = 0;  // per pass through the net; 0: batch / subdivisions. If given, an update may
                   // take several passes.
  int slice = 0;   // images per task; 0: chosen from the net (see choose_slice)
  int gpus = 0;    // that compute; each gets one slice if `slice` is 0
  int cores = 0;  // that compute; 0: slices and gradient sums depend on the net and the batch only,
                  // not on the machine
  RankShares shares{};  // of the ranks that share every mini-batch
  // The cores of each of these ranks that compute; empty: all have `cores`, which are the fewest.
  std::vector<int> cores_by_rank{};
  int most_ranks = 1;               // of a group; the nets of all groups get the same blocks
  bool fixed_sums = false;          // gradients have the same bits on any number of ranks
  DataType values = DataType::f32;  // of activations and their gradients: f32 or bf16
  Sharing sharing{};
  // True: layers may update parameters in the tasks that compute the gradients. This works for one
  // mini-batch per update, and without GPUs. Param::diff is then null (see Step::update_of).
  bool update_in_backward = false;
  // True: Net::clip_gradients() is called. Then no layer updates parameters in backward.
  bool clips = false;
};

class Net {
 public:
  static Result<std::unique_ptr<Net>> build(const NetDescription& described,
                                            const BuildOptions& options);

  Status allocate();
  void initialise(std::uint64_t seed);

  // The merged phase starts with the first layer whose parameters all groups share. Without
  // replicas it is empty. The replicated phase consists of all layers before the merged phase.
  enum class Phase { replicated, merged };
  void forward(const Step& step, Phase phase);   // step.slot holds decoded images
  void backward(const Step& step, Phase phase);  // after forward, in training
  void forward(const Step& step);                // both phases
  void backward(const Step& step);
  // These functions submit both phases, layer by layer. `look` is called before the tasks of the
  // next layer are submitted, as these may reuse the memory of this layer's tensors.
  using LookAt = std::function<void(const Layer&)>;
  void forward_by_layer(const Step& step, const LookAt& look);
  void backward_by_layer(const Step& step, const LookAt& look);
  bool has(Phase phase) const;
  // Returns the output of the last layer of the replicated phase.
  const Blob& replicated_output() const { return layers()[merged_from_ - 1]->output(); }
  bool is_merged(const Param& param) const;  // of the merged phase
  // True: other groups have nets with the same parameters.
  bool has_replicas() const { return has_replicas_; }

  // Submits tasks that scale all gradients so that their common norm is at most `limit`. Needs
  // BuildOptions::clips.
  void clip_gradients(float limit, TaskTag tag) const;

  // Makes layers read the master copies (evaluation), or replicas where there are any (training).
  void read_masters(bool masters);
  void refresh_replicas();  // = master; no task may be under way

  const std::string& name() const { return name_; }
  const NetOptions& options() const { return options_; }
  bool adam() const { return parts_.adam; }
  StepRule rule() const { return rule_; }
  const Blob& image() const { return parts_.data; }  // the input
  const Slices& slices() const { return parts_.slices; }
  DataType values() const { return parts_.values; }  // of images and activations
  int outputs() const;                               // values of an image
  int classes() const;                               // 0: the loss of the net has none
  std::size_t metrics() const { return kMetrics + parts_.auxiliary_metrics.size(); }
  // Returns which labels each loss takes, the net's own last.
  std::vector<LabelLimit> label_limits() const;
  const std::vector<std::unique_ptr<Layer>>& layers() const { return parts_.layers; }
  std::vector<Param*> params();
  std::size_t tensor_bytes() const { return parts_.tensors.bytes(); }  // that allocate() takes
  // Returns the bytes of each tensor in each memory. A GPU holds only those transient tensors that
  // belong to its slices. Main memory holds no transient tensors if only GPUs compute.
  std::vector<TensorSize> tensor_sizes() const { return parts_.tensors.sizes(); }
  // WorkingBytes is the most memory that a worker needs besides tensors, without the workspace of
  // libraries on a GPU. working_bytes() captures the tasks of an iteration, so it may only be
  // called before training. It needs a Session, which decides which implementations may run.
  struct WorkingBytes {
    std::size_t of_core = 0, copies_on_gpu = 0, factors_on_gpu = 0, sum_on_gpu = 0;
  };
  WorkingBytes working_bytes();
  // Returns the tasks that the net submits for a mini-batch, except updates. None of the tasks is
  // run.
  std::vector<CapturedTask> capture_tasks(task_capture::Working working, bool evaluates = true);
  std::size_t declared_bytes() const;   // of all tensors, if none shared memory
  std::size_t parameter_count() const;  // trainable values
  double forward_flops_per_image(std::optional<Phase> only = {}) const;
  const Tensor& output(int slice) const;  // of the last layer

 private:
  Net() = default;
  Status add_layer(const LayerDescription& layer, std::map<std::string, int, std::less<>>& makers);
  void find_phases(const NetDescription& described, const Sharing& sharing);
  void cut_segments();
  void freeze_unreached_layers();
  void find_training_layers();
  void fuse_layers();
  void place_tensors_in_memory();
  void use_slot(const BatchSlot& slot);
  std::vector<TensorPart> gradients() const;  // of what learns, by parameter and part
  void share_gradients(const Layer& layer, int slice);

  std::string name_;
  StepRule rule_ = StepRule::usual;
  NetOptions options_;
  NetParts parts_;
  std::vector<Tensor*> sums_of_squares_;  // for clip_gradients()
  // A Segment is a range of layers [first, end) that a slice passes without waiting for other
  // slices. It ends with a layer that joins the slices, or where a phase ends.
  struct Segment {
    std::size_t first, end;
  };
  std::vector<Segment> segments_;
  Segment layers_of(Phase phase) const;
  bool has_replicas_ = false, guest_ = false, last_is_auxiliary_ = false;
  // True: in forward, groups take turns to update running statistics, so each turn is kept short.
  bool forward_takes_turns_ = false;
  std::size_t merged_from_ = 0;    // layer; their number when no phase is merged
  std::vector<bool> learns_;       // by layer: the gradient of the loss reaches it
  std::vector<bool> only_trains_;  // by layer: only auxiliary losses need it
  std::size_t frozen_ = 0;         // number of layers up to the last one that stops_backward
};

}  // namespace omni
