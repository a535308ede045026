// omni-run net lists the nets that come with the program, or prints the text of one.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/setup.hpp"
#include "layers/formats/darknet/darknet.hpp"
#include "runtime/files.hpp"
#include "runtime/json_text.hpp"
#include "runtime/log.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

using Json = nlohmann::ordered_json;

Result<Json> row(const std::filesystem::path& file) {
  OMNI_TRY(const TrainableNet spec, read_darknet_cfg(file));
  OMNI_TRY(const auto net, Net::build(spec, {.training = false, .images = 1, .slice = 1}));
  const Extent& input = net->options().input;
  return Json{{"net", net->name()},
              {"input", {input.w, input.h, input.c}},
              {"layers", net->layers().size()},
              {"parameters", net->parameter_count()},
              {"outputs", net->outputs()},
              {"file", file.string()}};
}

Status list(const CommonArguments& common) {
  const auto files = shipped_files(kShippedNets);
  if (files.empty()) return find_shipped(kShippedNets, "").error();
  Json rows = Json::array();
  std::set<std::string> folders;
  for (const auto& [name, file] : files) {
    auto found = row(file);
    if (!found) {
      log::warn("{}", found.error().message());
      continue;
    }
    rows.push_back(std::move(*found));
    folders.insert(file.parent_path());
  }
  if (common.json) return log::result("{}\n", json_text(rows, 2)), Status();
  log::result("{:<16} {:>12} {:>7} {:>11} {:>8}\n", "net", "input", "layers", "parameters",
              "outputs");
  for (const Json& each : rows)
    log::result("{:<16} {:>12} {:>7} {:>11} {:>8}\n",
                one_line(each["net"].get_ref<const std::string&>()),
                fmt::format("{}x{}x{}", each["input"][0].get<int>(), each["input"][1].get<int>(),
                            each["input"][2].get<int>()),
                each["layers"].get<std::size_t>(), each["parameters"].get<std::size_t>(),
                each["outputs"].get<int>());
  for (const std::string& folder : folders) log::info("they are in {}", folder);
  return {};
}

}  // namespace

Status shipped_net_command(const ShippedNetArguments& arguments) {
  if (arguments.name.empty()) return list(arguments.common);
  // A file of this name in the current folder is ignored: the shell has just made an empty one for
  // `omni-run net lenet.cfg > lenet.cfg`.
  const std::string_view name = arguments.name, ending = kShippedNets.ending;
  const auto files = shipped_files(kShippedNets);
  const auto found = files.find(
      std::string(name.ends_with(ending) ? name.substr(0, name.size() - ending.size()) : name));
  if (found == files.end())
    return Error{ErrorKind::usage, "net " + arguments.name, "no such shipped net",
                 shipped_hint(kShippedNets, arguments.name)};
  const std::filesystem::path& file = found->second;
  if (const auto known = read_darknet_cfg(file); !known) return known.error();
  OMNI_TRY(const std::string text, read_file(file, UINT64_MAX));
  if (arguments.common.json)
    log::result("{}\n", json_text(Json{{"file", file.string()}, {"text", text}}));
  else
    log::result_text(text);
  log::info("this is {}", file.string());
  return {};
}

}  // namespace omni
