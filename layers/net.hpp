// A network: layers over shared slices of one mini-batch, their parameters, and the walks that
// submit forward, backward and update. Built without StarPU; allocate() needs a running Session.
#pragma once

#include <memory>
#include <vector>

#include "layers/layer_builder.hpp"
#include "layers/net_options.hpp"

namespace omni {

struct BuildOptions {
  bool training = true;
  bool strict = false;
  int slice = 0;  // images per task; 0: chosen from the net (see choose_slice)
};

class Net {
 public:
  static Result<std::unique_ptr<Net>> build(const NetSpec& spec, const BuildOptions& options);

  Status allocate();
  void initialise(std::uint64_t seed);

  void forward(const Step& step);   // step.slot holds decoded images
  void backward(const Step& step);  // after forward, in training

  const std::string& name() const { return name_; }
  const NetOptions& options() const { return options_; }
  const Slices& slices() const { return parts_.slices; }
  int classes() const;
  const std::vector<std::unique_ptr<Layer>>& layers() const { return parts_.layers; }
  std::vector<Param*> params();
  std::size_t tensor_bytes() const { return parts_.tensors.bytes(); }
  std::size_t parameter_count() const;  // trainable values
  double forward_flops_per_image() const;
  const Tensor& output(int slice) const;  // of the last layer

 private:
  Net() = default;
  Status add_layer(const Section& section);
  void cut_segments();
  void freeze_unreached_layers();
  void fuse_relu_gradients();
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
  std::vector<bool> learns_;  // by layer: the loss's gradient reaches it
};

}  // namespace omni
