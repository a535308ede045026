// This file finds, reads and builds the net of --net, loads its first parameters, and describes it
// in a table.
#include "apps/omni-run/setup.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string_view>
#include <vector>

#include "apps/command_line.hpp"
#include "apps/omni-run/class_names.hpp"
#include "layers/formats/caffe/caffe.hpp"
#include "layers/formats/darknet/darknet.hpp"
#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "runtime/nearest.hpp"
#include "runtime/shown_name.hpp"
#include "runtime/tasks/host_access.hpp"
#include "scheduling/checkpoint/training_checkpoint.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> folders_of(const ShippedKind& kind) {
  std::vector<fs::path> folders;
  if (const char* folder = std::getenv(kind.variable)) folders.emplace_back(folder);
  folders.push_back(shipped_folder() / kind.folder);
  return folders;
}

bool is_caffe(const fs::path& net) { return net.extension() == ".prototxt"; }

// Beside a solver a net is Caffe's, unless --net names a .cfg.
bool is_read_as_caffe(const fs::path& net, const NetArguments& arguments) {
  if (arguments.solver.empty()) return is_caffe(net);
  return arguments.net.empty() || net.extension() != ".cfg";
}

// Loads parameters, and sets `names` to the class names that are in or beside the file.
Status load(Net& net, const std::vector<fs::path>& files, const std::string& held_out_of,
            AbsentLayers absent, std::vector<std::string>& names) {
  std::error_code ignored;
  const fs::path& file = files.front();
  if (!std::filesystem::is_directory(file, ignored) && file.extension() != ".safetensors" &&
      file.extension() != ".json") {
    names = names_beside(file);
    return with_classes(load_parameter_files(net, files, absent), names, net);
  }
  OMNI_TRY(const Checkpoint checkpoint, load_checkpoint(file));
  const auto trained = checkpoint.fields.text("data");
  if (trained && !held_out_of.empty() && one_line(*trained) != one_line(held_out_of))
    log::warn(
        "{}: was trained on the data {}, this run has {}: samples that it learned may be among the "
        "test samples (give the same --data, --hold-out and --seed)",
        file.string(), shown_name(*trained), shown_name(held_out_of));
  names = saved_class_names(checkpoint);
  return restore_parameters(net, checkpoint);
}

std::string shape(const Extent& extent) {
  return fmt::format("{}x{}x{}", extent.w, extent.h, extent.c);
}

std::string short_number(double value) {
  return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

std::size_t trainable(const Layer& layer) {
  std::size_t count = 0;
  for (const Param* param : layer.params())
    if (param->trainable) count += param->master->count();
  return count;
}

double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / 0x1p20; }

}  // namespace

std::map<std::string, fs::path> shipped_files(const ShippedKind& kind) {
  std::map<std::string, fs::path> files;
  std::error_code ignored;
  for (const fs::path& folder : folders_of(kind))
    for (const auto& entry : fs::directory_iterator(folder, ignored))
      if (entry.path().extension() == kind.ending) files.emplace(entry.path().stem(), entry);
  return files;
}

std::string shipped_hint(const ShippedKind& kind, const std::string& name) {
  const std::string_view ending = kind.ending;
  const auto shipped = shipped_files(kind);
  std::vector<std::string_view> names;
  for (const auto& [each, file] : shipped) names.push_back(each);
  if (names.empty()) return fmt::format("a {} file: none lies beside this program", ending);
  std::string_view stem = name;
  if (stem.ends_with(ending)) stem.remove_suffix(ending.size());
  const std::string_view near = nearest(stem, names);
  if (near.empty()) return fmt::format("a {} file, or one of: {}", ending, fmt::join(names, " "));
  return fmt::format("did you mean {}{}?", near, ending);
}

Result<fs::path> find_shipped(const ShippedKind& kind, const std::string& name) {
  std::error_code ignored;
  if (fs::is_regular_file(name, ignored)) return fs::path(name);
  if (name.find('/') == std::string::npos)
    for (const fs::path& folder : folders_of(kind))
      for (const std::string& file : {name, name + kind.ending})
        if (fs::is_regular_file(folder / file, ignored)) return folder / file;
  const std::string option = kind.option;
  return Error{
      ErrorKind::usage, name.empty() ? option : option + " " + name,
      name.empty() ? fmt::format("no {} given", kind.noun) : fmt::format("no such {}", kind.noun),
      shipped_hint(kind, name)};
}

Result<Machine> read_machine(const std::string& file_or_name) {
  OMNI_TRY(const fs::path path, find_shipped(kShippedMachines, file_or_name));
  return read_machine_file(path);
}

Result<fs::path> find_net(const NetArguments& arguments) {
  if (arguments.net.empty() && !arguments.solver.empty()) {
    OMNI_TRY(const fs::path solver, find_shipped(kShippedSolvers, arguments.solver));
    return net_of_caffe_solver(solver);
  }
  return find_shipped(is_caffe(arguments.net) ? kShippedCaffeNets : kShippedNets, arguments.net);
}

Result<TrainableNet> read_net(const NetArguments& arguments) {
  OMNI_TRY(const fs::path path, find_net(arguments));
  OMNI_CHECK(arguments.refused);
  fs::path solver;
  if (!arguments.solver.empty()) {
    OMNI_TRY(solver, find_shipped(kShippedSolvers, arguments.solver));
  }
  if (is_read_as_caffe(path, arguments)) return read_caffe_net(path, solver, arguments);
  if (!arguments.stages.empty() || arguments.level)
    return Error{ErrorKind::usage, arguments.level ? "--net-level" : "--net-stage",
                 fmt::format("{} is no net of Caffe", shown_name(path.string())),
                 "only a .prototxt has rules for them"};
  if (!solver.empty())
    return Error{ErrorKind::usage, "--solver " + arguments.solver,
                 fmt::format("{} is no net of Caffe", shown_name(path.string())),
                 "the solver of a .cfg is in its [net]"};
  return read_darknet_cfg(path, arguments);
}

Result<std::unique_ptr<Net>> build_net(const TrainableNet& net, const NetArguments& arguments,
                                       bool training) {
  return Net::build(net, {.training = training,
                          .adam = keeps_two_states(net.solver.rule, net.solver.adam),
                          .rule = net.solver.rule,
                          .slice = arguments.slice,
                          .gpus = arguments.gpus,
                          .cores = arguments.cores,
                          .values = arguments.values,
                          .update_in_backward = training});
}

Result<std::vector<std::string>> load_parameters(Net& net, const std::string& path,
                                                 const std::string& held_out_of,
                                                 AbsentLayers absent) {
  const std::vector<fs::path> files = parameter_files(path);
  for (const fs::path& file : files) OMNI_CHECK(require_there(file));
  std::vector<std::string> names;
  OMNI_CHECK(load(net, files, held_out_of, absent, names));
  for (const Param* param : net.params()) {
    const HostAccess values(*param->master, HostAccess::Mode::read);
    if (!std::ranges::all_of(values.f32(), [](float value) { return std::isfinite(value); }))
      return Error{ErrorKind::data, path, param->name + " holds values that are not finite",
                   "it is damaged, or of a training that diverged"};
  }
  return names;
}

std::string layer_table(const Net& net) {
  std::string text;
  const auto add = [&text](auto&&... cells) {
    const std::string row =
        fmt::format("{:>3} {:<28} {:>12} {:>12} {:>9} {:>6} {:>6}  {}", cells...);
    text.append(row, 0, row.find_last_not_of(' ') + 1) += '\n';
  };
  add("#", "layer", "input", "output", "params", "MFLOP", "MiB", "fused");
  for (const auto& layer : net.layers()) {
    std::vector<std::string> name = wrapped(layer->type() + " " + layer->detail(), 28);
    for (std::size_t i = 0; i + 1 < name.size(); ++i)  // a layer may have many inputs
      add(i == 0 ? std::to_string(layer->index()) : "", name[i], "", "", "", "", "", "");
    add(name.size() == 1 ? std::to_string(layer->index()) : "", name.back(),
        shape(layer->inputs()[0]->extent()), shape(layer->output().extent), trainable(*layer),
        short_number(layer->forward_flops_per_image() / 1e6),
        short_number(mebibytes(layer->tensor_bytes())), layer->in_one_task());
  }
  const int subdivisions = net.options().subdivisions;
  text +=
      fmt::format("{}: {} parameters, {:.1f} MFLOP per image and forward pass\n",
                  one_line(net.name()), net.parameter_count(), net.forward_flops_per_image() / 1e6);
  if (subdivisions > 1)
    text += fmt::format("batch: {} images in {} mini-batches\n", net.options().batch, subdivisions);
  text += fmt::format("mini-batch: {} images in {} slice{}, {:.0f} MiB", net.slices().images(),
                      net.slices().count(), net.slices().count() == 1 ? "" : "s",
                      mebibytes(net.tensor_bytes()));
  if (net.tensor_bytes() != net.declared_bytes())
    text +=
        fmt::format(" ({:.0f} MiB if layers shared no memory)", mebibytes(net.declared_bytes()));
  return text;
}

nlohmann::json layer_table_json(const Net& net) {
  const auto extent = [](const Extent& e) { return nlohmann::json{e.h, e.w, e.c}; };
  nlohmann::json layers = nlohmann::json::array();
  for (const auto& layer : net.layers())
    layers.push_back({{"index", layer->index()},
                      {"type", layer->type()},
                      {"detail", layer->detail()},
                      {"in_one_task", layer->in_one_task()},
                      {"input", extent(layer->inputs()[0]->extent())},
                      {"output", extent(layer->output().extent)},
                      {"parameters", trainable(*layer)},
                      {"forward_flops_per_image", layer->forward_flops_per_image()},
                      {"bytes", layer->tensor_bytes()}});
  return {{"net", net.name()},
          {"batch", net.options().batch},
          {"subdivisions", net.options().subdivisions},
          {"slices", net.slices().sizes},
          {"parameters", net.parameter_count()},
          {"forward_flops_per_image", net.forward_flops_per_image()},
          {"bytes", net.tensor_bytes()},
          {"layers", layers}};
}

}  // namespace omni
