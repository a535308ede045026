// omni-run data lists the problems of a data set that would disturb a training.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/progress.hpp"
#include "apps/omni-run/setup.hpp"
#include "runtime/data/data_check.hpp"
#include "runtime/data/open.hpp"
#include "runtime/json_text.hpp"
#include "runtime/log.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

using Json = nlohmann::ordered_json;

// At most this many samples or classes are named in the text and in the JSON object. All are
// counted.
constexpr std::size_t kMostInText = 20, kMostInJson = 10'000;

// Checked is a data set, with the results of its check.
struct Checked {
  DatasetPair data;
  DataCheck check;
  ClassGaps gaps;
  std::optional<Error> no_test;  // why there is no test set

  const CheckedSet* test() const { return check.test ? &*check.test : nullptr; }
  std::size_t unreadable() const {
    return check.train.unreadable.size() + (test() ? test()->unreadable.size() : 0);
  }
  std::size_t samples() const { return check.train.samples + (test() ? test()->samples : 0); }
};

// Reads a sample again and returns the error. The file may have changed since the check.
std::string why_unreadable(const Dataset& data, std::size_t index) {
  Image image;
  const Status read = data.read(index, {}, image);
  return read ? data.name_of(index) + ": could be read the second time" : read.error().message();
}

std::set<int> labels_of(const CheckedSet* set) {
  std::set<int> labels;
  if (set != nullptr)
    for (const auto& [label, count] : set->classes) labels.insert(label);
  return labels;
}

std::size_t count_of(const CheckedSet* set, int label) {
  if (set == nullptr) return 0;
  const auto found = set->classes.find(label);
  return found == set->classes.end() ? 0 : found->second;
}

std::string class_name(const Dataset& data, int label) { return class_list({label}, data, 1); }

// The following functions write the report as text.

std::string range(const Distribution& sizes) {
  if (sizes.empty()) return "-";
  return fmt::format("{} / {} / {}", sizes.begin()->first, median(sizes), sizes.rbegin()->first);
}

std::string channels_text(const Distribution& channels) {
  std::string text;
  for (const auto& [count, samples] : channels)
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", count, samples);
  return text.empty() ? "-" : text;
}

void print_sets(const Checked& all, Extent net_input) {
  const auto row = [](const std::string& what, const std::string& train, const std::string& test) {
    log::result("{:<28} {:>24} {:>24}\n", what, train, test);
  };
  const auto of_both = [&](const std::string& what, const auto& value) {
    row(what, value(all.check.train), all.test() != nullptr ? value(*all.test()) : "-");
  };
  const auto number = [&](const std::string& what, const auto& count) {
    of_both(what, [&](const CheckedSet& set) { return std::to_string(count(set)); });
  };
  row("", "train", "test");
  number("samples", [](const CheckedSet& set) { return set.samples; });
  number("unreadable", [](const CheckedSet& set) { return set.unreadable.size(); });
  number("classes", [](const CheckedSet& set) { return set.classes.size(); });
  const auto by_count = [](const auto& a, const auto& b) { return a.second < b.second; };
  number("least samples of a class", [&](const CheckedSet& set) {
    return std::ranges::min_element(set.classes, by_count)->second;
  });
  number("most samples of a class", [&](const CheckedSet& set) {
    return std::ranges::max_element(set.classes, by_count)->second;
  });
  if (all.data.train->holds_vectors()) {
    row("features", std::to_string(all.data.train->extent().c), "");
    return;
  }
  of_both("height: least/median/most", [](const CheckedSet& set) { return range(set.heights); });
  of_both("width: least/median/most", [](const CheckedSet& set) { return range(set.widths); });
  of_both("images by channels", [](const CheckedSet& set) { return channels_text(set.channels); });
  if (net_input.h > 0)
    number(fmt::format("smaller than the net's {}x{}", net_input.h, net_input.w),
           [](const CheckedSet& set) { return set.smaller; });
}

void print_classes(const Checked& all) {
  log::result("\n{:>10} {:>10}  class\n", "train", "test");
  std::set<int> labels = labels_of(&all.check.train);
  labels.merge(labels_of(all.test()));
  std::size_t left = kMostInText;
  for (const int label : labels) {
    if (left-- == 0) {
      log::result("{:>10} {:>10}  and {} more classes, see --json\n", "", "",
                  labels.size() - kMostInText);
      break;
    }
    log::result("{:>10} {:>10}  {}\n", count_of(&all.check.train, label),
                count_of(all.test(), label), class_name(*all.data.train, label));
  }
}

void print_unreadable(const Checked& all) {
  std::size_t left = kMostInText;
  const auto print = [&](const Dataset& data, const CheckedSet& set) {
    for (const std::size_t index : set.unreadable)
      if (left > 0 && left-- > 0) log::result("{}\n", one_line(why_unreadable(data, index)));
  };
  if (all.unreadable() == 0) return;
  log::result("\nUnreadable: {} of {} samples\n", all.unreadable(), all.samples());
  print(*all.data.train, all.check.train);
  if (all.test() != nullptr) print(*all.data.test, *all.test());
  if (all.unreadable() > kMostInText)
    log::result("and {} more, see --json\n", all.unreadable() - kMostInText);
}

void print_twins(const Checked& all) {
  const auto& twins = all.check.in_both;
  if (twins.empty()) return;
  log::result("\nIn both sets: {} of {} test samples\n", twins.size(), all.test()->samples);
  for (std::size_t i = 0; i < std::min(twins.size(), kMostInText); ++i) {
    const auto [test, train] = twins[i];
    const bool same = all.data.train->label(train) == all.data.test->label(test);
    log::result("{} is {}{}\n", one_line(all.data.test->name_of(test)),
                one_line(all.data.train->name_of(train)), same ? "" : ", of another class there");
  }
  if (twins.size() > kMostInText)
    log::result("and {} more, see --json\n", twins.size() - kMostInText);
}

void print_contradictions(const Checked& all) {
  const Dataset& data = *all.data.train;
  const auto& found = all.check.contradictions;
  if (found.empty()) return;
  log::result("\nIn several classes: {} of {} training samples\n", found.size(), data.size());
  for (std::size_t i = 0; i < std::min(found.size(), kMostInText); ++i) {
    const auto [sample, first] = found[i];
    log::result("{} of {} is {} of {}\n", one_line(data.name_of(sample)),
                class_name(data, data.label(sample)), one_line(data.name_of(first)),
                class_name(data, data.label(first)));
  }
  if (found.size() > kMostInText)
    log::result("and {} more, see --json\n", found.size() - kMostInText);
}

void print_text(const Checked& all, Extent net_input) {
  print_sets(all, net_input);
  print_classes(all);
  const auto gap = [&](const char* what, const std::vector<int>& classes, std::size_t count) {
    if (count > 0)
      log::result("\n{}: {} of {} classes\n{}\n", what, count, all.data.train->classes(),
                  class_list(classes, *all.data.train, count));
  };
  if (all.test() != nullptr) {
    gap("Without test samples", all.gaps.not_tested, all.gaps.not_tested.size());
    gap("Without training samples", all.gaps.not_trained, all.gaps.not_trained.size());
  }
  gap("Without samples", all.gaps.unused, all.gaps.all_unused);
  print_unreadable(all);
  print_twins(all);
  print_contradictions(all);
  if (all.no_test) log::result("\nNo test set: {}\n", one_line(all.no_test->message()));
}

// The following functions write the report as JSON.

Json range_json(const Distribution& sizes) {
  if (sizes.empty()) return nullptr;
  return {
      {"least", sizes.begin()->first}, {"median", median(sizes)}, {"most", sizes.rbegin()->first}};
}

Json set_json(const Dataset& data, const CheckedSet& set) {
  Json files = Json::array(), channels = Json::object();
  for (std::size_t i = 0; i < std::min(set.unreadable.size(), kMostInJson); ++i)
    files.push_back({{"name", data.name_of(set.unreadable[i])},
                     {"error", why_unreadable(data, set.unreadable[i])}});
  for (const auto& [count, samples] : set.channels) channels[std::to_string(count)] = samples;
  return {{"samples", set.samples},
          {"unreadable", set.unreadable.size()},
          {"unreadable_samples", std::move(files)},
          {"height", range_json(set.heights)},
          {"width", range_json(set.widths)},
          {"samples_by_channels", std::move(channels)},
          {"smaller_than_net", set.smaller}};
}

Json classes_json(const Checked& all, const std::vector<int>& labels) {
  Json list = Json::array();
  const std::vector<std::string> names = all.data.train->class_names();
  for (const int label : labels) {
    const auto at = static_cast<std::size_t>(label);
    list.push_back({{"index", label},
                    {"name", at < names.size() ? names[at] : fmt::format("class {}", label)},
                    {"train", count_of(&all.check.train, label)},
                    {"test", count_of(all.test(), label)}});
  }
  return list;
}

void print_checked_json(const Checked& all, const std::string& source) {
  std::set<int> labels = labels_of(&all.check.train);
  labels.merge(labels_of(all.test()));
  Json both = Json::array();
  const auto& twins = all.check.in_both;
  for (std::size_t i = 0; i < std::min(twins.size(), kMostInJson); ++i) {
    const auto [test, train] = twins[i];
    both.push_back({{"test", all.data.test->name_of(test)},
                    {"train", all.data.train->name_of(train)},
                    {"same_class", all.data.train->label(train) == all.data.test->label(test)}});
  }
  Json several = Json::array();
  const auto& contradictions = all.check.contradictions;
  for (std::size_t i = 0; i < std::min(contradictions.size(), kMostInJson); ++i)
    several.push_back({{"sample", all.data.train->name_of(contradictions[i].sample)},
                       {"first", all.data.train->name_of(contradictions[i].first)}});
  const bool tested = all.test() != nullptr;
  const Json object{
      {"source", source},
      {"train", set_json(*all.data.train, all.check.train)},
      {"test", tested ? set_json(*all.data.test, *all.test()) : Json(nullptr)},
      {"no_test", all.no_test ? Json(all.no_test->message()) : Json(nullptr)},
      {"classes", classes_json(all, {labels.begin(), labels.end()})},
      {"without_test", tested ? classes_json(all, all.gaps.not_tested) : Json::array()},
      {"without_training", tested ? classes_json(all, all.gaps.not_trained) : Json::array()},
      {"without_samples", classes_json(all, all.gaps.unused)},
      {"in_both", twins.size()},
      {"in_both_samples", std::move(both)},
      {"in_several_classes", contradictions.size()},
      {"in_several_classes_samples", std::move(several)}};
  log::result("{}\n", json_text(object, 2));
}

}  // namespace

Status data_command(const DataCheckArguments& arguments) {
  const DataArguments& given = arguments.data;
  if (given.source.empty())
    return Error{ErrorKind::usage, "data", "no data given", "omni-run data photos, say"};
  DatasetRequest request{.source = given.source,
                         .net_input = {},
                         .seed = given.seed_of_net(),
                         .scale_features = given.scale_features,
                         .hold_out = given.hold_out,
                         .for_check = true};
  if (!arguments.net.empty()) {
    NetArguments named;
    named.net = arguments.net;
    named.classes = arguments.classes;
    OMNI_TRY(const TrainableNet spec, read_net(named));
    OMNI_TRY(const auto net, build_net(spec, named, false));
    if (!spec.augment.parts.empty())
      return Error{ErrorKind::usage, "--net " + arguments.net, "the net has several inputs",
                   "check the data of each input without --net"};
    request.net_input = net->options().input;
    request.flat = spec.augment.flat;
    request.classes = net->classes();
    request.losses = net->label_limits();
  }
  Checked all;
  auto opened = open_dataset(request);
  if (!opened) {  // training samples can be checked without a test set
    all.no_test = std::move(opened.error());
    request.test = false;
    opened = open_dataset(request);
    if (!opened) return *all.no_test;
  }
  all.data = std::move(*opened);
  log::info("data: {}", all.data.train->description());

  const Extent net_input = request.flat ? Extent() : request.net_input;
  Progress progress(arguments.common.quiet);
  const std::size_t samples = all.data.train->size() + (all.data.test ? all.data.test->size() : 0);
  OMNI_TRY(
      all.check,
      check_data(all.data,
                 {.net_input = net_input,
                  .threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency())),
                  .progress = [&](std::size_t done, std::size_t unreadable) {
                    progress.checked(done, samples, unreadable);
                  }}));
  progress.finish_line();
  all.gaps =
      class_gaps(labels_of(&all.check.train), labels_of(all.test()), all.data.train->classes());
  if (arguments.common.json)
    print_checked_json(all, given.source);
  else
    print_text(all, net_input);
  if (std::ferror(stdout) != 0)
    return Error{ErrorKind::failed, "data", "cannot write the results to stdout", ""};
  if (all.unreadable() > 0)
    return Error{ErrorKind::data, given.source,
                 fmt::format("{} of {} samples cannot be read", all.unreadable(), all.samples()),
                 "fetch them again, or take them out"};
  // A training may refuse the data for other reasons, which opening them again without `for_check`
  // finds.
  if (all.no_test) return *all.no_test;
  request.for_check = false;
  all.data = {};
  if (auto strict = open_dataset(request); !strict) return std::move(strict.error());
  return {};
}

}  // namespace omni
