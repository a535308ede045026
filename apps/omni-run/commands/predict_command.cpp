// omni-run predict: the likeliest classes of images.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/load_parameters.hpp"
#include "apps/omni-run/memory/demand.hpp"
#include "apps/omni-run/open_net.hpp"
#include "apps/omni-run/setup.hpp"
#include "runtime/as_written.hpp"
#include "runtime/data/augment.hpp"
#include "runtime/data/images/image_file.hpp"
#include "runtime/log.hpp"
#include "runtime/shown_name.hpp"
#include "runtime/tasks/task_errors.hpp"

namespace omni {
namespace {

// One image at a time through a net of batch 1.
class Predictor {
 public:
  explicit Predictor(Net& net)
      : net_(net),
        images_(pool_.declare("predict.image", net.options().input.count(), net.values())),
        labels_(pool_.declare("predict.label", 1, DataType::i32)),
        metrics_(pool_.declare("predict.metrics", kMetrics)),
        slot_{{&images_}, {&labels_}, {&metrics_}} {}

  Status allocate() {
    OMNI_CHECK(pool_.allocate());
    HostAccess(labels_, HostAccess::Mode::write).i32()[0] = kNoLabel;
    return {};
  }

  // `read(least size, image)` delivers the image, of a data set of all sizes or not.
  template <class Read>
  Result<std::vector<float>> operator()(bool all_sizes, Read read) {
    AugmentOptions options = net_.options().augment;
    options.all_sizes = all_sizes;
    const Extent input = net_.options().input;
    Image image;
    OMNI_CHECK(read(least_size(options, 0, 0, false, input), image));
    if (!can_convert_channels(image.extent.c, input.c))
      return Error{ErrorKind::usage, net_.name(), "the image has the wrong number of channels", ""};
    std::vector<float> prepared(input.count());
    prepare_image(image.pixels, image.extent, options, 0, 0, false, input, prepared.data());
    HostAccess(images_, HostAccess::Mode::write).assign(prepared);
    net_.forward({.training = false, .seed = 0, .first_sample = 0, .slot = &slot_});
    OMNI_CHECK(wait_for_tasks());
    const HostAccess output(net_.output(0), HostAccess::Mode::read);
    return output.values();
  }

 private:
  Net& net_;
  TensorPool pool_;
  Tensor &images_, &labels_, &metrics_;
  BatchSlot slot_;
};

void print(const std::string& name, const std::vector<float>& probabilities,
           const std::vector<std::string>& names, const PredictArguments& arguments) {
  std::vector<std::size_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto top = std::min(order.size(), static_cast<std::size_t>(arguments.top));
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(top), order.end(),
                    [&](auto a, auto b) { return probabilities[a] > probabilities[b]; });
  const auto label = [&](std::size_t index) {
    return index < names.size() ? names[index] : fmt::format("class {}", index);
  };
  nlohmann::ordered_json object{{"image", name}, {"classes", nlohmann::json::array()}};
  if (!arguments.common.json) log::result("{}\n", one_line(name));
  for (std::size_t i = 0; i < top; ++i) {
    const float share = probabilities[order[i]];
    if (arguments.common.json)
      object["classes"].push_back(
          {{"index", order[i]}, {"name", label(order[i])}, {"probability", as_written(share)}});
    else
      log::result("{:.2f}%: {}\n", 100 * share, one_line(label(order[i])));
  }
  if (arguments.common.json) log::result("{}\n", json_text(object));
}

}  // namespace

Status predict_command(const PredictArguments& arguments) {
  NetArguments one = arguments.net;
  one.settings.insert(one.settings.end(), {"batch=1", "subdivisions=1"});
  OMNI_TRY(const auto net, open_net(one, false));
  if (arguments.images.empty() && arguments.samples.empty())
    return Error{ErrorKind::usage, "predict", "no image given",
                 "name .jpg, .ppm or .pgm files, or a test sample with --data NAME --index N"};
  DatasetPair data;
  std::vector<std::string> names;
  if (!arguments.data.source.empty() || !arguments.samples.empty()) {
    OMNI_TRY(data, open_data(arguments.data, *net));
    names = data.test->class_names();
  }
  OMNI_TRY(const Session session, start_session(arguments.machine));
  OMNI_CHECK(MemoryForecast(*net, evaluation_demand(*net, nullptr, working_on_gpus(*net)),
                            arguments.machine)
                 .require());
  OMNI_CHECK(net->allocate());
  OMNI_CHECK(load_parameters(*net, arguments.weights));
  Predictor predict(*net);
  OMNI_CHECK(predict.allocate());

  for (const std::string& path : arguments.images) {
    const auto read = [&](LeastSize least, Image& image) -> Status {
      OMNI_TRY(image, read_image(path, least));
      return {};
    };
    OMNI_TRY(const std::vector<float> probabilities, predict(true, read));
    print(path, probabilities, names, arguments);
  }
  for (const std::uint64_t sample : arguments.samples) {
    if (sample >= data.test->size())
      return Error{ErrorKind::usage, fmt::format("--index {}", sample),
                   fmt::format("the test set has {} images", data.test->size()), ""};
    const auto read = [&](LeastSize least, Image& image) {
      return data.test->read(sample, least, image);
    };
    OMNI_TRY(const std::vector<float> probabilities, predict(data.test->has_all_sizes(), read));
    const auto label = static_cast<std::size_t>(data.test->label(sample));
    print(fmt::format("test image {} ({})", sample,
                      label < names.size() ? names[label] : fmt::format("class {}", label)),
          probabilities, names, arguments);
  }
  return {};
}

}  // namespace omni
