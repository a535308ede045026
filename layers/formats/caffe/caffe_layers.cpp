#include "layers/formats/caffe/caffe_layers.hpp"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "layers/formats/caffe/caffe.hpp"
#include "layers/formats/caffe/caffe.pb.h"
#include "runtime/nearest.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

// These types of Caffe's layers are not supported, for these reasons.
struct MissingType {
  std::string_view name, old_name, why;
};
constexpr std::string_view kNoSuchLayer = "docs/caffe.md lists what is read";
constexpr std::string_view kOneLabel =
    "labels are read by SoftmaxWithLoss and HingeLoss, targets by EuclideanLoss and "
    "SigmoidCrossEntropyLoss";
constexpr std::array kMissing{
    MissingType{"BatchReindex", "", kNoSuchLayer},
    MissingType{"Clip", "", kNoSuchLayer},
    MissingType{"ContrastiveLoss", "CONTRASTIVE_LOSS", kOneLabel},
    MissingType{"Crop", "", kNoSuchLayer},
    MissingType{"Embed", "", kNoSuchLayer},
    MissingType{"Exp", "EXP", kNoSuchLayer},
    MissingType{"Filter", "", kNoSuchLayer},
    MissingType{"HDF5Output", "HDF5_OUTPUT", kNoSuchLayer},
    MissingType{"Im2col", "IM2COL", kNoSuchLayer},
    MissingType{"InfogainLoss", "INFOGAIN_LOSS", kOneLabel},
    MissingType{"Log", "", kNoSuchLayer},
    MissingType{"LSTM", "", "it is recurrent"},
    MissingType{"MultinomialLogisticLoss", "MULTINOMIAL_LOGISTIC_LOSS", kOneLabel},
    MissingType{"MVN", "MVN", kNoSuchLayer},
    MissingType{"Parameter", "", kNoSuchLayer},
    MissingType{"Python", "", "no code of users is run"},
    MissingType{"Recurrent", "", "it is recurrent"},
    MissingType{"Reduction", "", kNoSuchLayer},
    MissingType{"RNN", "", "it is recurrent"},
    MissingType{"SPP", "", kNoSuchLayer},
    MissingType{"Swish", "", kNoSuchLayer},
    MissingType{"Threshold", "THRESHOLD", kNoSuchLayer},
    MissingType{"Tile", "", kNoSuchLayer},
    MissingType{"WindowData", "WINDOW_DATA", kNoSuchLayer},
};

// Returns the default value of a field, written as in a text file.
std::string default_text(const google::protobuf::FieldDescriptor& field) {
  auto* factory = google::protobuf::MessageFactory::generated_factory();
  std::string text;
  google::protobuf::TextFormat::PrintFieldValueToString(
      *factory->GetPrototype(field.containing_type()), &field, -1, &text);
  return text;
}

}  // namespace

bool CaffeLayer::is_old() const { return fields.is_old_layer(); }

void CaffeLayer::name(std::string_view option, std::string_view field) {
  if (own.has(field))
    description.places[std::string(option)] = {own.where(field, 0), std::string(field)};
}

void CaffeLayer::read_labels(int number) {
  const auto labels = to.labels.find(bottom(number));
  if (labels == to.labels.end())
    return fields.refuse("bottom",
                         fmt::format("{} is no blob of labels", shown_name(bottom(number))),
                         "the second bottom is the second top of the data", number);
  if (to.labels_of.value_or(labels->second) != labels->second)
    fields.refuse("bottom",
                  fmt::format("{} are labels of another input than those read above",
                              shown_name(bottom(number))),
                  "a sample has one label", number);
  to.labels_of = labels->second;
}

void CaffeLayer::emit(std::string_view type, LayerOptions options) {
  description.type = type;
  description.options = std::move(options);
  to.net.layers.push_back(std::move(description));
}

const std::vector<CaffeType>& caffe_types() {
  static const std::vector<CaffeType> types = [] {
    std::vector<CaffeType> all = caffe_weighted_types();
    std::ranges::move(caffe_channel_types(), std::back_inserter(all));
    std::ranges::move(caffe_other_types(), std::back_inserter(all));
    std::ranges::move(caffe_loss_types(), std::back_inserter(all));
    return all;
  }();
  return types;
}

Result<const CaffeType*> find_caffe_type(const CaffeFields& layer) {
  const bool old = layer.is_old_layer();
  const auto refusal = [&](std::string what, std::string hint) {
    return Error{ErrorKind::usage, layer.where("type"), std::move(what), std::move(hint)};
  };
  if (!layer.has("type")) return refusal("has no type", R"(as in type: "Convolution")");
  const std::string type = layer.text_of_type();
  std::vector<std::string_view> names;
  for (const CaffeType& each : caffe_types()) {
    if ((old ? each.old_name : each.name) == type) return &each;
    names.push_back(each.name);
  }
  for (const MissingType& each : kMissing)
    if ((old ? each.old_name : each.name) == type)
      return refusal(fmt::format("{} layers are not supported", type), std::string(each.why));
  const std::string_view near = nearest(type, names);
  return refusal(
      fmt::format("unknown type {}", shown_name(type)),
      near.empty() ? std::string(kNoSuchLayer) : fmt::format("did you mean '{}'?", near));
}

std::vector<CaffeTypeRow> caffe_type_matrix() {
  std::vector<CaffeTypeRow> rows;
  for (const CaffeType& type : caffe_types()) {
    CaffeTypeRow row{std::string(type.name), std::string(type.old_name), std::string(type.param)};
    const auto* param =
        caffe::LayerParameter::descriptor()->FindFieldByName(std::string(type.param));
    for (int i = 0; param != nullptr && i < param->message_type()->field_count(); ++i) {
      const google::protobuf::FieldDescriptor& field = *param->message_type()->field(i);
      row.fields.push_back({field.name(), field.has_default_value() ? default_text(field) : "",
                            field.options().GetExtension(caffe::refused),
                            field.options().GetExtension(caffe::in_vain)});
    }
    rows.push_back(std::move(row));
  }
  for (const MissingType& each : kMissing)
    rows.push_back({std::string(each.name), std::string(each.old_name), "", std::string(each.why)});
  std::ranges::sort(rows, {}, &CaffeTypeRow::name);
  return rows;
}

Sides read_sides(CaffeFields& fields, const SideNames& names, int fallback, int low, int high,
                 int other) {
  const bool has_h = fields.has(names.h), has_w = fields.has(names.w), by_side = has_h || has_w;
  const int given = fields.count(names.both);
  if (by_side && given > 0)
    fields.refuse(names.both, fmt::format("{} beside {} or {}", names.both, names.h, names.w),
                  "give either", 0);
  if (has_h != has_w && other < 0)
    fields.refuse(has_h ? names.h : names.w,
                  fmt::format("{} and {} come together", names.h, names.w), "give both");
  if (given > 2)
    fields.refuse(names.both, fmt::format("{} of {} dimensions", names.both, given),
                  "images have height and width", 2);
  if (!by_side && given == 0 && fallback < 0)
    fields.refuse("", fmt::format("has no {}", names.both), "add it to the layer's parameters");
  if (fields.failed()) return {low, low};
  if (by_side)
    return {has_h ? fields.whole(names.h, low, high) : other,
            has_w ? fields.whole(names.w, low, high) : other};
  if (given == 0) return Sides::square(fallback);
  return {fields.whole(names.both, low, high, 0), fields.whole(names.both, low, high, given - 1)};
}

}  // namespace omni
