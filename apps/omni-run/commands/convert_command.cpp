// omni-run convert writes parameters in another format, or for the same net in another form.
// Nothing is written if something would be lost.
#include <fmt/format.h>

#include "apps/omni-run/class_names.hpp"
#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/output_file.hpp"
#include "layers/formats/safetensors.hpp"
#include "runtime/json_text.hpp"
#include "runtime/log.hpp"
#include "scheduling/checkpoint/training_checkpoint.hpp"

namespace omni {
namespace {

bool is_safetensors(const std::filesystem::path& path) {
  return path.extension() == ".safetensors";
}

// Only the ending of the file names the format to write.
Status check_ending(const std::filesystem::path& to) {
  for (const char* known : {".weights", ".caffemodel", ".safetensors", ".h5"})
    if (to.extension() == known) return {};
  return Error{ErrorKind::usage, to.string(), "its ending names no format",
               "known: .weights .caffemodel .safetensors"};
}

struct Opened {
  TrainableNet described;
  std::unique_ptr<Net> net;
};

Result<Opened> open_described(const NetArguments& arguments) {
  Opened opened;
  OMNI_TRY(opened.described, read_net(arguments));
  opened.described.options.batch = opened.described.options.subdivisions = 1;
  OMNI_TRY(opened.net, build_net(opened.described, arguments, false));
  return opened;
}

}  // namespace

Status convert_command(const ConvertArguments& arguments) {
  const std::filesystem::path to = arguments.to;
  OMNI_CHECK(check_ending(to));
  OMNI_TRY(Opened from, open_described(arguments.net));
  Opened other;
  if (!arguments.as.empty()) {
    NetArguments as = arguments.net;
    as.net = arguments.as;
    as.solver.clear();
    OMNI_TRY(other, open_described(as));
  }
  Net& target = other.net != nullptr ? *other.net : *from.net;
  if (!is_safetensors(to)) OMNI_CHECK(check_nothing_lost(target, to));
  std::vector<std::filesystem::path> inputs{arguments.net.net, arguments.as};
  for (const auto& file : parameter_files(arguments.from)) inputs.push_back(file);
  OMNI_CHECK(check_output({.option = "TO",
                           .path = to,
                           .read = inputs,
                           .replaceable =
                               [](const std::filesystem::path& path) {
                                 return is_safetensors(path) ? bool(read_safetensors(path))
                                                             : is_parameter_file(path);
                               },
                           .foreign = "holds no parameters of this format"},
                          target.parameter_count() * sizeof(float)));
  OMNI_CHECK(check_names_beside(to));
  OMNI_TRY(const Session session, start_session(arguments.machine));
  OMNI_CHECK(from.net->allocate());
  from.net->initialise(1);
  const AbsentLayers absent =
      other.net == nullptr ? AbsentLayers::refused_with_values : AbsentLayers::refused;
  OMNI_TRY(const auto names, load_parameters(*from.net, arguments.from, "", absent));
  if (other.net != nullptr) {
    OMNI_CHECK(other.net->allocate());
    other.net->initialise(1);
    OMNI_CHECK(
        copy_parameters(*from.net, from.described, *other.net, other.described, arguments.as));
  }
  OMNI_CHECK(is_safetensors(to) ? save_parameters(target, to) : save_parameter_file(target, to, 0));
  OMNI_CHECK(write_names_beside(to, names));
  if (arguments.common.json)
    log::result("{}\n", json_text(nlohmann::ordered_json{
                            {"file", arguments.to}, {"parameters", target.parameter_count()}}));
  log::info("wrote {}: {} parameters", arguments.to, target.parameter_count());
  return {};
}

}  // namespace omni
