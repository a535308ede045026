#include "layers/types/split_connected_layer.hpp"

#include <fmt/format.h>

#include <cmath>

#include "codelets/dense/column_parts.hpp"
#include "codelets/dense/connected.hpp"
#include "codelets/dense/connected_update.hpp"
#include "layers/types/blocks/activation_block.hpp"

namespace omni {
namespace {

constexpr int kLanes = 16;  // matrix products like widths that fill a vector register

int block_width(int outputs, int blocks) {
  const int even = (outputs + blocks - 1) / blocks;
  return (even + kLanes - 1) / kLanes * kLanes;
}

class SplitConnectedLayer final : public Layer {
 public:
  explicit SplitConnectedLayer(LayerBuilder& builder) : Layer(builder) {
    const Input& from = builder.input();
    const Extent src = from.extent();
    inputs_count_ = static_cast<int>(src.count());
    outputs_ = connected_outputs(builder);
    width_ =
        block_width(outputs_, builder.connected_blocks(std::int64_t{inputs_count_} * outputs_));
    output_ = builder.blob("output", {1, 1, outputs_});
    activation_ = {builder, "logistic", output_.extent};
    weights_ = &builder.param(connected_weights(builder, src, outputs_), true);
    bias_ = &builder.param({.name = "bias", .shape = {outputs_}, .filler = {}}, true);
    cut(*weights_, static_cast<std::size_t>(width_) * static_cast<std::size_t>(inputs_count_));
    cut(*bias_, static_cast<std::size_t>(width_));
    params_ = {bias_, weights_};

    if (slices().count() > 1) gathered_ = &whole_batch(builder, "gathered", inputs_count_);
    for (int block = 0; block < columns(0).parts(); ++block) {
      const int width = columns(0).width_of(block);
      dst_.push_back(&whole_batch(builder, fmt::format("block{}", block), width));
      if (!builder.training()) continue;
      diff_dst_.push_back(&whole_batch(builder, fmt::format("block{}.diff", block), width));
      if (from.wants_gradient())
        diff_src_.push_back(
            &whole_batch(builder, fmt::format("share{}.diff", block), inputs_count_));
    }
  }

  bool joins_slices() const override { return true; }
  bool allows_dropout_in_place() const override { return activation_.allows_dropout_in_place(); }
  double forward_flops_per_image() const override { return 2.0 * inputs_count_ * outputs_; }
  std::string detail() const override {
    return fmt::format("{}, {} blocks", outputs_, dst_.size());
  }
  std::string in_one_task() const override {
    return "bias" + fused_name(activation_.fused()) +
           (weights_->updated_in_backward ? " update" : "");
  }

  void forward(const Step&, int slice) override {
    if (gathered_ != nullptr) {
      const ColumnPartsArgs rows{.rows = images(slice),
                                 .first_row = first_row(slice),
                                 .columns = inputs_count_,
                                 .width = inputs_count_};
      submit_split_columns(rows, input().value(slice), {&gathered_, 1}, forward_tag(slice));
    }
    if (!is_last(slice)) return;
    for (std::size_t block = 0; block < dst_.size(); ++block)
      submit_connected_forward({.shape = shape(block), .activation = activation_.fused()}, src(),
                               {*weights_->value, block}, TensorPart{*bias_->value, block},
                               *dst_[block], forward_tag(-1));
    for (int each = 0; each < slices().count(); ++each) {
      submit_join_columns(columns(each), dst_, activation_.target(output_, each),
                          forward_tag(each));
      activation_.forward(values(each), output_, each, forward_tag(each));
    }
  }

  void backward(const Step& step, int slice) override {
    activation_.backward(values(slice), output_, slice, data_gradient_tag(slice));
    submit_split_columns(columns(slice), diff(slice), diff_dst_, data_gradient_tag(slice));
    if (!is_last(slice)) return;
    if (input().wants_gradient()) propagate();
    if (weights_->updated_in_backward) {
      if (step.update_of != nullptr) update(*step.update_of);
      return;
    }
    for (std::size_t block = 0; block < diff_dst_.size(); ++block)
      submit_connected_backward_weights({.shape = shape(block)}, src(), *diff_dst_[block],
                                        {*weights_->diff, block}, TensorPart{*bias_->diff, block},
                                        weight_gradient_tag(-1));
  }

 private:
  void update(const UpdateOf& update_of) {
    ExchangeArgs weights = update_of(*weights_), bias = update_of(*bias_);
    for (std::size_t block = 0; block < diff_dst_.size(); ++block) {
      submit_connected_backward_update({shape(block), weights, bias}, src(), *diff_dst_[block],
                                       part(*weights_, block), part(*bias_, block),
                                       weight_gradient_tag(-1));
      weights.leave_uncounted();
      bias.leave_uncounted();
    }
  }
  static UpdatedPart part(const Param& param, std::size_t block) {
    UpdatedPart part{{*param.master, block}, {*param.velocity, block}};
    if (param.mean_square != nullptr) part.mean_square.emplace(*param.mean_square, block);
    return part;
  }
  void propagate() {
    for (std::size_t block = 0; block < diff_src_.size(); ++block)
      connected_backward_data.submit(
          {.shape = shape(block)},
          {read(*diff_dst_[block]), read({*weights_->value, block}), write(*diff_src_[block])},
          data_gradient_tag(-1));
    for (int each = 0; each < slices().count(); ++each)
      submit_sum_parts(
          {.rows = images(each), .first_row = first_row(each), .columns = inputs_count_}, diff_src_,
          input().gradient(each), data_gradient_tag(each));
  }
  static void cut(const Param& param, std::size_t block_count) {
    for (Tensor* tensor : {param.master, param.replica, param.diff, param.velocity,
                           param.mean_square, param.change, param.centre_velocity})
      if (tensor != nullptr) tensor->cut(block_count);
  }
  Tensor& whole_batch(LayerBuilder& builder, const std::string& name, int width) const {
    return builder.tensor(
        name, static_cast<std::size_t>(slices().images()) * static_cast<std::size_t>(width));
  }

  bool is_last(int slice) const { return slice + 1 == slices().count(); }
  int first_row(int slice) const { return slices().offsets[static_cast<std::size_t>(slice)]; }
  const Tensor& src() const { return gathered_ != nullptr ? *gathered_ : input().value(0); }
  // How a slice of images lies in the blocks of neurons.
  ColumnPartsArgs columns(int slice) const {
    return {
        .rows = images(slice), .first_row = first_row(slice), .columns = outputs_, .width = width_};
  }
  ConnectedShape shape(std::size_t block) const {
    return {.n = slices().images(),
            .inputs = inputs_count_,
            .outputs = columns(0).width_of(static_cast<int>(block))};
  }

  ActivationBlock activation_;
  int inputs_count_, outputs_, width_;
  Param *weights_, *bias_;
  Tensor* gathered_ = nullptr;  // the inputs of all slices; with one slice they are there already
  std::vector<Tensor*> dst_, diff_dst_;  // by block: all images
  std::vector<Tensor*> diff_src_;        // by block: its share of the input's gradient
};

}  // namespace

int connected_outputs(LayerBuilder& builder) {
  return builder.options().integer("output", 1, 1, 1 << 24);
}

Param connected_weights(LayerBuilder& builder, const Extent& src, int outputs) {
  const float deviation = builder.options().real("weights_std", 0, 0, 1e6f);
  Filler filler{.kind = Filler::Kind::normal, .scale = deviation};
  if (deviation == 0)  // Darknet's
    filler = {.kind = Filler::Kind::uniform,
              .scale = std::sqrt(2.0f / static_cast<float>(src.count()))};
  return {.name = "weights",
          .shape = {outputs, src.h, src.w, src.c},
          .filler = filler,
          .decays = true,
          .rows = outputs,
          .spatial = std::int64_t{src.h} * src.w,
          .channels = src.c,
          .connected = true,
          .divisible = !builder.options().flag("batch_normalize", false)};
}

bool splits_by_neurons(LayerBuilder& builder) {
  if (builder.options().flag("batch_normalize", false)) return false;
  const auto inputs = static_cast<std::int64_t>(builder.extent_of(builder.index() - 1).count());
  const int outputs = connected_outputs(builder);
  return block_width(outputs, builder.connected_blocks(inputs * outputs)) < outputs;
}

std::unique_ptr<Layer> make_split_connected_layer(LayerBuilder& builder) {
  return std::make_unique<SplitConnectedLayer>(builder);
}

}  // namespace omni
