// In a connected layer every output depends on every input. The layer has a bias or batch
// normalisation, and an activation.
#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

#include "codelets/dense/column_parts.hpp"
#include "codelets/dense/connected.hpp"
#include "codelets/dense/connected_update.hpp"
#include "layers/layer_builder.hpp"
#include "layers/types/blocks/divided_neurons.hpp"
#include "layers/types/blocks/output_blocks.hpp"
#include "layers/types/weighted_layer.hpp"

namespace omni {
namespace {

// Describes the weights of a connected layer, whether it is split by neurons or not.
Param connected_weights(LayerBuilder& builder) {
  const Extent& src = builder.extent();
  const auto& options = builder.options<ConnectedOptions>();
  return {.role = ParamRole::weights,
          .name = "weights",
          .shape = {options.outputs, src.h, src.w, src.c},
          .filler = {.kind = Filler::Kind::uniform,
                     .scale = std::sqrt(2.0f / static_cast<float>(src.count()))},
          .decay = 1,
          .divisible = !options.normalise};
}

// The weights of a SplitConnectedLayer are larger than all caches. A task computes a block of
// neurons for all images of the mini-batch. Weights, their gradients and their velocities are cut
// into the same blocks. So one worker reads, adds to and updates each block.
class SplitConnectedLayer final : public Layer {
 public:
  explicit SplitConnectedLayer(LayerBuilder& builder) : Layer(builder) {
    const Input& from = builder.input();
    const auto& options = builder.options<ConnectedOptions>();
    inputs_count_ = static_cast<int>(from.extent().count());
    outputs_ = options.outputs;
    const ConnectedBlocks cut_into = builder.connected_blocks(inputs_count_, outputs_);
    width_ = cut_into.width;
    output_ = builder.blob("output", {1, 1, outputs_});
    activation_ = {builder, options.activation, output_.extent};
    Param weights = connected_weights(builder),
          bias = {.role = ParamRole::bias, .name = "bias", .shape = {outputs_}, .filler = {}};
    weights.parts_per_rank = bias.parts_per_rank = cut_into.per_rank;
    weights_ = &builder.param(std::move(weights), true);
    bias_ = &builder.param(std::move(bias), true);
    cut(*weights_, static_cast<std::size_t>(width_) * static_cast<std::size_t>(inputs_count_));
    cut(*bias_, static_cast<std::size_t>(width_));
    params_ = {bias_, weights_};

    const bool divides = cut_into.per_rank > 0;
    all_blocks_.images = slices().images();
    if (slices().count() > 1)
      gathered_ = &builder.matrix("gathered", all_blocks_.images, inputs_count_);
    declare(builder, all_blocks_, columns(0).parts(), builder.training() && !divides,
            from.wants_gradient());
    if (!divides) return;
    divided_.emplace(builder, inputs_count_, outputs_, cut_into, from.wants_gradient());
    own_blocks_ = {.images = divided_->images(), .first = divided_->first_block()};
    declare(builder, own_blocks_, divided_->blocks(), true, from.wants_gradient());
  }

  bool joins_slices() const override { return true; }
  bool computes_in_blocks() const override { return true; }
  bool allows_dropout_in_place() const override { return activation_.allows_dropout_in_place(); }
  double forward_flops_per_image() const override { return 2.0 * inputs_count_ * outputs_; }
  std::string detail() const override {
    return divided_ ? fmt::format("{}, {} of {} blocks", outputs_, own_blocks_.dst.size(),
                                  all_blocks_.dst.size())
                    : fmt::format("{}, {} blocks", outputs_, all_blocks_.dst.size());
  }
  std::string in_one_task() const override {
    return "bias" + fused_name(activation_.fused()) +
           (weights_->updated_in_backward ? " update" : "");
  }

  void forward(const Step& step, int slice) override {
    const bool divides =
        divided_ && step.training;  // otherwise this rank has the weights of all blocks
    const Blocks& blocks = divides ? own_blocks_ : all_blocks_;
    if (divides) {
      divided_->bring_inputs(input().value(slice), slice, forward_tag(slice));
    } else if (gathered_ != nullptr) {
      submit_split_columns({images(slice), first_row(slice), inputs_count_, inputs_count_},
                           input().value(slice), {&gathered_, 1}, forward_tag(slice));
    }
    if (!is_last(slice)) return;
    for (std::size_t at = 0; at < blocks.dst.size(); ++at)
      submit_connected_forward({.shape = shape(blocks, at), .activation = activation_.fused()},
                               src(divides), {*weights_->value, blocks.first + at},
                               TensorPart{*bias_->value, blocks.first + at}, *blocks.dst[at],
                               forward_tag(-1));
    if (divides) divided_->bring_outputs(blocks.dst, forward_tag(-1));
    for (int each = 0; each < slices().count(); ++each) {
      const Tensor& target = activation_.target(output_, each);
      if (divided_ && !divides) divided_->gather_outputs(each, blocks.dst, forward_tag(each));
      if (divided_)
        divided_->join_outputs(each, target, forward_tag(each));
      else
        submit_join_columns(columns(each), blocks.dst, target, forward_tag(each));
      activation_.forward(values(each), output_, each, forward_tag(each));
    }
  }

  void backward(const Step& step, int slice) override {
    const Blocks& blocks = divided_ ? own_blocks_ : all_blocks_;
    activation_.backward(values(slice), output_, slice, data_gradient_tag(slice));
    if (divided_)
      divided_->bring_gradients(diff(slice), slice, blocks.diff_dst, data_gradient_tag(slice));
    else
      submit_split_columns(columns(slice), diff(slice), blocks.diff_dst, data_gradient_tag(slice));
    if (!is_last(slice)) return;
    if (input().wants_gradient()) propagate(blocks);
    if (weights_->updated_in_backward) {
      if (step.update_of != nullptr) update(blocks, *step.update_of);
      return;
    }
    for (std::size_t at = 0; at < blocks.diff_dst.size(); ++at)
      submit_connected_backward_weights({.shape = shape(blocks, at)}, src(divided_.has_value()),
                                        *blocks.diff_dst[at], {*weights_->diff, blocks.first + at},
                                        TensorPart{*bias_->diff, blocks.first + at},
                                        weight_gradient_tag(-1));
  }

 private:
  // Blocks are the tensors of the blocks of neurons, each with `images` images.
  struct Blocks {
    int images = 0;
    std::size_t first = 0;
    std::vector<Tensor*> dst{}, diff_dst{};
    std::vector<Tensor*> diff_src{};  // by block: its share of the input's gradient
  };
  void declare(LayerBuilder& builder, Blocks& blocks, int count, bool learns, bool wants_gradient) {
    for (int at = 0; at < count; ++at) {
      const int number = static_cast<int>(blocks.first) + at, width = columns(0).width_of(number);
      const auto add = [&](std::vector<Tensor*>& to, const char* name, int columns) {
        to.push_back(&builder.matrix(fmt::format("{}{}", name, number), blocks.images, columns));
      };
      add(blocks.dst, "block", width);
      if (learns) add(blocks.diff_dst, "block.diff", width);
      if (learns && wants_gradient) add(blocks.diff_src, "share.diff", inputs_count_);
    }
  }
  void update(const Blocks& blocks, const UpdateOf& update_of) {
    ExchangeArgs weights = update_of(*weights_), bias = update_of(*bias_);
    for (std::size_t at = 0; at < blocks.diff_dst.size(); ++at) {
      submit_connected_backward_update({shape(blocks, at), weights, bias},
                                       src(divided_.has_value()), *blocks.diff_dst[at],
                                       part(*weights_, blocks.first + at),
                                       part(*bias_, blocks.first + at), weight_gradient_tag(-1));
      weights.leave_uncounted();
      bias.leave_uncounted();
    }
  }
  static UpdatedPart part(const Param& param, std::size_t block) {
    UpdatedPart part{{*param.master, block}, {*param.velocity, block}};
    if (param.mean_square != nullptr) part.mean_square.emplace(*param.mean_square, block);
    return part;
  }
  void propagate(const Blocks& blocks) {
    for (std::size_t at = 0; at < blocks.diff_src.size(); ++at)
      connected_backward_data.submit(
          {.shape = shape(blocks, at)},
          {read(*blocks.diff_dst[at]), read({*weights_->value, blocks.first + at}),
           write(*blocks.diff_src[at])},
          data_gradient_tag(-1));
    if (divided_) divided_->bring_shares(blocks.diff_src, data_gradient_tag(-1));
    for (int each = 0; each < slices().count(); ++each)
      if (divided_)
        divided_->sum_shares(each, input().gradient(each), data_gradient_tag(each));
      else
        submit_sum_parts(
            {.rows = images(each), .first_row = first_row(each), .columns = inputs_count_},
            blocks.diff_src, input().gradient(each), data_gradient_tag(each));
  }
  static void cut(const Param& param, std::size_t block_count) {
    for (Tensor* tensor : {param.master, param.replica, param.diff, param.velocity,
                           param.mean_square, param.change, param.centre_velocity})
      if (tensor != nullptr) tensor->cut(block_count);
  }
  bool is_last(int slice) const { return slice + 1 == slices().count(); }
  int first_row(int slice) const { return slices().offsets[static_cast<std::size_t>(slice)]; }
  const Tensor& src(bool divides) const {
    return divides ? divided_->src() : gathered_ != nullptr ? *gathered_ : input().value(0);
  }
  // Returns where the rows of a slice of images are in the blocks of neurons.
  ColumnPartsArgs columns(int slice) const {
    return {
        .rows = images(slice), .first_row = first_row(slice), .columns = outputs_, .width = width_};
  }
  ConnectedShape shape(const Blocks& blocks, std::size_t at) const {
    return {.n = blocks.images,
            .inputs = inputs_count_,
            .outputs = columns(0).width_of(static_cast<int>(blocks.first + at))};
  }

  ActivationBlock activation_;
  int inputs_count_, outputs_, width_;
  Param *weights_, *bias_;
  Tensor* gathered_ = nullptr;             // inputs of all slices; null: there is one slice
  Blocks all_blocks_;                      // all blocks, for the images of this rank
  std::optional<DividedNeurons> divided_;  // in training, if ranks compute some blocks each
  Blocks own_blocks_;                      // the blocks of this rank, for the images of all ranks
};

// Returns whether the layer that is being built should become a SplitConnectedLayer.
bool splits_by_neurons(LayerBuilder& builder) {
  const auto& options = builder.options<ConnectedOptions>();
  return !options.normalise &&
         builder.connected_blocks(static_cast<int>(builder.extent().count()), options.outputs)
                 .width < options.outputs;
}

class ConnectedLayer final : public WeightedLayer {
 public:
  explicit ConnectedLayer(LayerBuilder& builder) : WeightedLayer(builder) {
    const auto& options = builder.options<ConnectedOptions>();
    shape_.inputs = static_cast<int>(builder.input().extent().count());
    shape_.outputs = options.outputs;
    declare(builder, {1, 1, shape_.outputs}, options.normalise, options.activation,
            connected_weights(builder));
  }

  double forward_flops_per_image() const override { return 2.0 * shape_.inputs * shape_.outputs; }
  std::string detail() const override { return fmt::format("{}", shape_.outputs); }

 private:
  void multiply(int slice, const Tensor* bias, Activation activation, const Tensor& dst) override {
    submit_connected_forward({.shape = shape(slice), .activation = activation},
                             input().value(slice), weights().value->for_products(),
                             optional_part(bias), dst, forward_tag(slice));
  }
  void propagate(int slice, const Tensor& diff_dst, const Tensor* diff_bias) override {
    if (input().wants_gradient())
      connected_backward_data.submit(
          {.shape = shape(slice)},
          {read(diff_dst), read(weights().value->for_products()), write(input().gradient(slice))},
          data_gradient_tag(slice));
    submit_connected_backward_weights({.shape = shape(slice), .adds = !weights().overwrites_diff},
                                      input().value(slice), diff_dst, weights().gradient(slice),
                                      optional_part(diff_bias), weight_gradient_tag(slice));
  }
  ConnectedShape shape(int slice) const { return with_images(shape_, images(slice)); }
  ConnectedShape shape_;
};

const LayerRegistration connected_registration(
    {.name = "connected",
     .make = [](LayerBuilder& builder) -> std::unique_ptr<Layer> {
       if (splits_by_neurons(builder)) return std::make_unique<SplitConnectedLayer>(builder);
       return std::make_unique<ConnectedLayer>(builder);
     },
     .in_groups = InGroups::one});

}  // namespace
}  // namespace omni
