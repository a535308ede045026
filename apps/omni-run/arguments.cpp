#include "apps/omni-run/arguments.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <string_view>
#include <type_traits>

#include "apps/command_line.hpp"
#include "layers/formats/darknet/darknet.hpp"
#include "runtime/number_in.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

// One of a few words, each with a meaning.
template <class Target>
void add_choice(CLI::App& app, const std::string& name, Target& target,
                const std::map<std::string, std::type_identity_t<Target>>& choices) {
  std::vector<std::string> words;
  for (const auto& [word, meaning] : choices) words.push_back(word);
  app.add_option_function<std::string>(
         name, [&target, choices](const std::string& word) { target = choices.at(word); })
      ->check(CLI::IsMember(words));
}

constexpr std::string_view kAuto = "auto";

CLI::Validator group_count() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        if (text == kAuto || count_in(text, kMostGroups)) return "";
        return fmt::format("{} is neither {} nor a number from 1 to {}", shown_name(text), kAuto,
                           kMostGroups);
      },
      "");
}

// From 0 to 1, or as so many per cent; `between`: 0 and 1 are left out. CLI11's own ranges take
// NaN.
CLI::Validator share(bool between) {
  return CLI::Validator(
      [between](std::string& text) -> std::string {
        const bool percent = text.ends_with('%');
        const std::string_view digits = std::string_view(text).substr(0, text.size() - percent);
        const double value = number_in<double>(digits).value_or(-1) / (percent ? 100 : 1);
        if (!(value >= 0 && value <= 1) || (between && (value == 0 || value == 1)))
          return fmt::format("{} is no share {} (0.1, or 10%)", shown_name(text),
                             between ? "between 0 and 1" : "from 0 to 1");
        text = fmt::format("{}", value);
        return "";
      },
      "");
}

}  // namespace

std::optional<int> count_in(std::string_view text, int most) {
  const auto count = number_in<int>(text);
  return count && *count >= 1 && *count <= most ? count : std::nullopt;
}

CLI::Validator not_empty() {
  return CLI::Validator([](std::string& text) { return text.empty() ? "is empty" : ""; }, "");
}

CLI::Validator whole_number() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const auto value = number_in<std::uint64_t>(text);
        if (!value) return "'" + text + "' is not a whole number from 0 to 18446744073709551615";
        text = std::to_string(*value);
        return "";
      },
      "");
}

CLI::Validator class_count() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        constexpr int kMost = 1 << 20;
        const auto count = count_in(text, kMost);
        if (!count) return fmt::format("{} is no number from 1 to {}", shown_name(text), kMost);
        text = std::to_string(*count);
        return "";
      },
      "");
}

void add_common(CLI::App& app, CommonArguments& arguments) {
  app.add_flag("-q,--quiet", arguments.quiet);
  app.add_flag("--json", arguments.json);
}

void add_net(CLI::App& app, NetArguments& arguments) {
  app.add_option("--net", arguments.net);
  app.add_flag("--strict", arguments.strict);
  app.add_option("--slice", arguments.slice)->check(CLI::Range(0, 1 << 30));
  app.add_option("--classes", arguments.classes)->transform(class_count());
  app.add_option("--set", arguments.settings)->take_all()->expected(1);
  // The usual ones have names of their own.
  for (const char* key : {"batch", "subdivisions", "learning-rate", "momentum", "decay", "policy",
                          "max-batches", "burn-in"}) {
    std::string option = key;
    std::replace(option.begin(), option.end(), '-', '_');
    const auto declared = std::ranges::find(net_keys(), option, &Key::name);
    app.add_option_function<std::string>(
        std::string("--") + key,
        [&arguments, option](const std::string& value) {
          if (arguments.refused) arguments.refused = set_named(arguments.named, option, value);
        },
        fmt::format("Override {} of [net]: {}", option, declared->help));
  }
}

void add_machine(CLI::App& app, MachineArguments& arguments) {
  app.add_option("--workers", arguments.session.cpu_workers)->check(CLI::Range(1, 4096));
  app.add_option("--gpus", arguments.gpus);
  add_choice(app, "--precision", arguments.session.precision,
             {{"fp32", Precision::fp32}, {"tf32", Precision::tf32}, {"bf16", Precision::bf16}});
  app.add_option("--sched", arguments.session.scheduler);
  app.add_flag("--deterministic", arguments.session.deterministic);
  app.add_option("--impl", arguments.session.implementation)
      ->check(CLI::IsMember({"onednn", "lowering_onednn", "lowering", "winograd", "winograd_8x8",
                             "gemm", "vector", "cuda", "reference"}));
  app.add_option("--models", arguments.models);
}

void add_fully_connected(CLI::App& app, FullyConnected& fully_connected) {
  add_choice(app, "--fc", fully_connected,
             {{"merged", FullyConnected::merged}, {"replicated", FullyConnected::replicated}});
}

void add_groups(CLI::App& app, GroupArguments& arguments) {
  app.add_flag("--auto", arguments.automatic);
  app.add_option_function<std::string>(
         "--groups",
         [&arguments](const std::string& text) {
           arguments.planned = text == kAuto;
           arguments.count = arguments.planned ? std::nullopt : std::optional(std::stoi(text));
         })
      ->check(group_count());
  app.add_option("--cold-start", arguments.cold_start)
      ->transform(whole_number())
      ->capture_default_str();
  add_choice(app, "--guard", arguments.guard, {{"on", true}, {"off", false}});
  app.add_option("--group-layout", arguments.layout)->check(not_empty());
  add_fully_connected(app, arguments.fully_connected);
  add_choice(app, "--async", arguments.how.asynchrony,
             {{"free", Asynchrony::free}, {"reproducible", Asynchrony::reproducible}});
  add_choice(app, "--momentum-compensation", arguments.how.compensation,
             {{"theory", Compensation::theory}, {"off", Compensation::off}});
}

void add_strategies(CLI::App& app, GroupArguments& arguments, ArrivalArguments& arrivals) {
  std::string names, summaries;
  for (const StrategyType& type : strategy_types()) {
    names += fmt::format(" {}", type.name);
    summaries += fmt::format("; {}: {}", type.name, type.summary);
  }
  app.add_option("--strategy", arguments.strategy, "One of:" + names + summaries)
      ->check(not_empty());
  StrategyOptions& how = arguments.how;
  app.add_option("--sync-every", how.sync_every)->check(CLI::Range(1, 1 << 20));
  app.add_option("--alpha", how.alpha)->check(within(1e-6, 1.0));
  app.add_option("--central-momentum", how.central_momentum)->check(within(0.0, 0.999999));
  app.add_option("--outer-rate", how.outer_rate)->check(within(1e-6, 100.0));
  app.add_option("--outer-momentum", how.outer_momentum)->check(within(0.0, 0.999999));
  app.add_option("--group-batches", arguments.batches)->check(not_empty());
  app.add_option("--batch-rate", how.batch_rate)->check(within(0.0, 1.0));
  app.add_option("--adapt-factor", how.adapt_factor)->check(within(1.0, 1024.0));
  app.add_option("--adapt-weight", how.adapt_weight)->check(within(1e-6, 1.0));
  add_choice(app, "--arrivals", arrivals.simulated, {{"real", false}, {"virtual", true}});
  app.add_option("--machine", arrivals.machine)->check(not_empty());
}

void add_data(CLI::App& app, DataArguments& arguments) {
  app.add_option("--data", arguments.source);
  app.add_flag("--scale-features", arguments.scale_features);
  app.add_option("--hold-out", arguments.hold_out)->transform(share(true));
  app.add_option("--seed", arguments.seed)->transform(whole_number())->capture_default_str();
}

void add_damaged_images(CLI::App& app, double& damaged) {
  app.add_option("--damaged-images", damaged)->transform(share(false));
}

void add_trace(CLI::App& app, std::string& folder) { app.add_option("--trace", folder); }

}  // namespace omni
