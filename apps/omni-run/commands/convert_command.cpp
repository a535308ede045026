// omni-run convert writes parameters in another format, or for the same net in another form. It
// also writes a net in another form. Nothing is written if something would be lost.
#include <fmt/format.h>

#include "apps/omni-run/class_names.hpp"
#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/output_file.hpp"
#include "layers/formats/caffe/caffe.hpp"
#include "layers/formats/darknet/darknet.hpp"
#include "layers/formats/parameters.hpp"
#include "layers/formats/safetensors.hpp"
#include "layers/formats/same_net.hpp"
#include "runtime/json_text.hpp"
#include "runtime/log.hpp"
#include "runtime/shown_name.hpp"
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
               "known: .weights .caffemodel .safetensors .cfg .prototxt"};
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

bool is_net(const std::filesystem::path& path) {
  return path.extension() == ".cfg" || path.extension() == ".prototxt";
}

// Writes the net of FROM in the form that the ending of TO names. The text is read again, and has
// to be the same net.
Status convert_net(const ConvertArguments& arguments, MayLose may_lose) {
  const std::filesystem::path to = arguments.to;
  const std::filesystem::path source = arguments.from;
  if (!source.extension().empty() && !is_net(source))
    return Error{ErrorKind::usage, arguments.to,
                 fmt::format("is a net, but {} is none", shown_name(arguments.from)),
                 "convert a .cfg or .prototxt; --as names the net of parameters"};
  for (const auto& [option, value] : {std::pair("--net", arguments.net.net),
                                      {"--solver", arguments.net.solver},
                                      {"--as", arguments.as}})
    if (!value.empty())
      return Error{ErrorKind::usage, fmt::format("{} {}", option, value),
                   "is for the conversion of parameters", "FROM is the net: leave it out"};
  NetArguments of = arguments.net;
  of.net = arguments.from;
  OMNI_TRY(TrainableNet described, read_net(of));
  OMNI_TRY(const auto net, build_net(described, of, false));
  const bool caffe = to.extension() == ".prototxt";
  OMNI_TRY(const std::string text,
           caffe ? write_caffe_net(described, *net) : write_darknet_cfg(described, *net));
  OMNI_TRY(const TrainableNet again,
           caffe ? parse_caffe_net({text, arguments.to}) : parse_darknet_cfg(text, arguments.to));
  OMNI_TRY(const auto net_again, build_net(again, of, false));
  OMNI_CHECK(check_same_net({*net, described, arguments.from}, {*net_again, again, arguments.to},
                            may_lose));
  OMNI_CHECK(check_output({.option = "TO",
                           .path = to,
                           .read = {arguments.from},
                           .replaceable = [](const std::filesystem::path&) { return false; },
                           .foreign = "nets are not replaced"},
                          text.size()));
  OMNI_TRY(AtomicFile file, AtomicFile::create(to));
  OMNI_CHECK(file.write(text));
  OMNI_CHECK(file.commit());
  if (arguments.common.json)
    log::result("{}\n", json_text(nlohmann::ordered_json{{"file", arguments.to},
                                                         {"layers", again.layers.size()}}));
  log::info("wrote {}: {} layers, without a solver", arguments.to, again.layers.size());
  return {};
}

}  // namespace

Status convert_command(const ConvertArguments& arguments) {
  const std::filesystem::path to = arguments.to;
  const MayLose may_lose = arguments.for_tests ? MayLose::training : MayLose::nothing;
  if (is_net(to)) return convert_net(arguments, may_lose);
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
    OMNI_CHECK(copy_parameters({*from.net, from.described, arguments.net.net},
                               {*other.net, other.described, arguments.as}, may_lose));
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
