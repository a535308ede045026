#include "apps/omni-run/ensemble/member_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <utility>

#include "apps/command_line.hpp"
#include "apps/omni-run/ensemble/ensemble_folder.hpp"
#include "apps/omni-run/ensemble/sweep/waves.hpp"
#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "runtime/number_in.hpp"
#include "runtime/own_command.hpp"
#include "runtime/slurm_job.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr int kMostOfANet = 1000;

// A Wanted is a member before its words are read. Errors name `where`.
struct Wanted {
  std::string where, name;
  Words words;
};

std::optional<int> refuse_members(const Error& error) {
  log::error("{}", error.message());
  return exit_code(error.kind);
}

// These options belong to the whole ensemble, since its members share one process and one folder.
constexpr std::array kOfAll{"--workers", "--gpus",    "--precision", "--sched", "--deterministic",
                            "--impl",    "--models",  "--json",      "--quiet", "--resume",
                            "--keep",    "--dry-run", "--trace"};
constexpr std::array kOfNobody{"--metrics", "--save-weights", "--out",
                               "--log",     "--survive",      "--rank-shares"};

Result<std::vector<Wanted>> members_of_nets(const Words& nets, std::uint64_t first_seed) {
  std::vector<Wanted> all;
  for (const std::string& given : nets) {
    std::string net = given;
    int count = 0;  // 0: not given
    if (const std::size_t colon = given.rfind(':'); colon != given.npos) {
      const auto number = count_in(given.substr(colon + 1), kMostOfANet);
      if (!number && !fs::exists(given))
        return Error{ErrorKind::usage, "--net " + given,
                     fmt::format("'{}' is no number of members from 1 to {}",
                                 given.substr(colon + 1), kMostOfANet),
                     "--net lenet:4, say"};
      if (number) {
        net = given.substr(0, colon);
        count = *number;
      }
    }
    const std::string stem = fs::path(net).stem().string();
    for (int i = 0; i < std::max(count, 1); ++i)
      all.push_back({"--net " + given,
                     count == 0 ? stem : fmt::format("{}-{}", stem, i + 1),
                     {"--net", net, "--seed", std::to_string(first_seed + i)}});
  }
  return all;
}

Status add_members_of_file(const std::string& path, std::vector<Wanted>& all) {
  constexpr std::size_t kMostBytes = 1 << 20;
  OMNI_CHECK(require_there(path));
  OMNI_TRY(const std::string text, read_file(path, kMostBytes));
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = end + 1;
    line.erase(std::min(line.find('#'), line.size()));
    Words words = from_shell(line);
    if (words.empty()) continue;
    const std::string where = fmt::format("{}:{}", path, number + 1);
    const auto name = value_of("--name", words);
    auto net = value_of("--net", words);
    if (!net) net = value_of("--solver", words);
    words = words_without({"--name"}, words);
    std::string stem = net ? fs::path(*net).stem().string() : "member";
    all.push_back({where, name.value_or(std::move(stem)), std::move(words)});
  }
  return {};
}

fs::path folder_of(const EnsembleArguments& ensemble) {
  return ensemble.out.empty() ? "omni-runs/ensemble" : ensemble.out;
}

// Refuses options that cannot be combined with members that begin in waves.
Status check_waves(const EnsembleArguments& ensemble, std::size_t nets) {
  const auto refuse = [](std::string what, const char* hint) {
    return Error{ErrorKind::usage, "--sweep tpe", std::move(what), hint};
  };
  if (nets != 1) return refuse("draws settings of one net", "give one --net, without a count");
  OMNI_TRY(const MembersPart part, read_part(ensemble.part));
  if (part.count > 1)
    return refuse("results decide which members begin, so one process must have all",
                  "leave out --part and Slurm arrays");
  if (ensemble.exploit)
    return refuse("members of later waves cannot join a tournament", "leave out --exploit");
  if (ensemble.plan) return refuse("its members are not known before", "leave out --plan");
  return {};
}

// Replaces each member by one for each setting of the sweep, or of its next wave.
Status sweep(EnsembleArguments& ensemble, const TrainArguments& common, std::vector<Wanted>& all) {
  ensemble.is_last_wave = true;
  if (ensemble.sweep.empty()) return {};
  TrainArguments any;
  OMNI_TRY(const SweepSpec spec, parse_sweep(ensemble.sweep, table_of(any)));
  const std::uint64_t seed = common.data.seed_of_net();
  std::vector<SweepMember> settings;
  if (spec.wave > 0) {
    OMNI_CHECK(check_waves(ensemble, all.size()));
    const fs::path folder = folder_of(ensemble);
    const bool goes_on = ensemble.before || (common.resume == "auto" && !common.dry_run &&
                                             fs::exists(folder / kEnsembleFile));
    std::vector<EnsembleMember> begun;
    if (goes_on) {
      OMNI_TRY(begun, read_ensemble(folder));
    }
    OMNI_TRY(SweepWave wave, next_wave(spec, all.front().name, begun, seed));
    begun.resize(wave.first);
    ensemble.before = std::move(begun);
    ensemble.is_last_wave = wave.is_last;
    settings = std::move(wave.members);
    log::info("sweep: members {} to {} of {}", wave.first + 1, wave.first + settings.size(),
              *spec.draws);
  } else {
    OMNI_TRY(settings, sweep_members(spec, seed));
  }
  std::vector<Wanted> swept;
  for (const Wanted& each : all)
    for (const SweepMember& setting : settings) {
      Wanted member = each;
      member.name += "," + setting.name;
      std::ranges::replace(member.name, ' ', ',');
      member.words.insert(member.words.end(), setting.words.begin(), setting.words.end());
      swept.push_back(std::move(member));
    }
  all = std::move(swept);
  return {};
}

// Makes names unique by a number behind each name that several members have.
void number_names(std::vector<Wanted>& all) {
  std::map<std::string, int> members, given;
  for (const Wanted& each : all) ++members[each.name];
  for (Wanted& each : all)
    if (members[each.name] > 1) each.name += fmt::format("-{}", ++given[each.name]);
}

bool gives(const GivenOptions& given, const std::string& option) {
  return std::ranges::find(given.all, option) != given.all.end();
}

}  // namespace

Result<MembersPart> read_part(const std::string& text) {
  constexpr int kMostParts = 100'000;
  std::string number = text, count;
  std::string where = "--part " + text;
  if (!text.empty()) {
    const std::size_t slash = std::min(text.find('/'), text.size());
    number = text.substr(0, slash);
    count = text.substr(std::min(slash + 1, text.size()));
  } else if (!slurm::array_task().empty() && !slurm::variable("SLURM_ARRAY_TASK_COUNT").empty()) {
    const auto value = [](const char* name) { return number_in<int>(slurm::variable(name)); };
    const auto task = value("SLURM_ARRAY_TASK_ID"), first = value("SLURM_ARRAY_TASK_MIN");
    const int step = value("SLURM_ARRAY_TASK_STEP").value_or(1);
    if (task && first && step > 0) number = std::to_string((*task - *first) / step + 1);
    count = slurm::variable("SLURM_ARRAY_TASK_COUNT");
    where = "SLURM_ARRAY_TASK_ID " + slurm::array_task();
  } else {
    return MembersPart{};
  }
  const auto parts = count_in(count, kMostParts);
  const auto part = count_in(number, parts.value_or(kMostParts));
  if (!parts || !part)
    return Error{ErrorKind::usage, where, "names no part of the members", "--part 1/4, say"};
  return MembersPart{static_cast<std::size_t>(*part) - 1, static_cast<std::size_t>(*parts)};
}

std::optional<int> read_members(EnsembleArguments& ensemble, std::vector<Member>& members) {
  TrainArguments common;
  GivenOptions of_all;
  if (const auto code = read_options(table_of(common), ensemble.words, of_all)) return code;
  for (const char* option : kOfNobody)
    if (gives(of_all, option))
      return refuse_members({ErrorKind::usage, option, "is not for the members of an ensemble",
                             "each has its own folder in --out, with its metrics and weights"});
  if (common.resume != "none" && common.resume != "auto")
    return refuse_members({ErrorKind::usage, "--resume " + common.resume,
                           "each member has checkpoints of its own", "--resume auto"});
  if (ensemble.prepare_only && common.resume != "none")
    return refuse_members({ErrorKind::usage, "--resume", "--prepare-only begins with sample 0",
                           "leave one of them out"});
  auto wanted = members_of_nets(ensemble.nets, common.data.seed_of_net());
  if (!wanted) return refuse_members(wanted.error());
  if (!ensemble.members.empty())
    if (const Status added = add_members_of_file(ensemble.members, *wanted); !added)
      return refuse_members(added.error());
  if (const std::string& solver = common.net.solver; wanted->empty() && !solver.empty())
    wanted->push_back({"--solver " + solver, fs::path(solver).stem().string(), {}});
  if (wanted->empty())
    return refuse_members({ErrorKind::usage, "omni-run ensemble", "has no members",
                           "--net lenet:4, or --members FILE"});
  if (const Status swept = sweep(ensemble, common, *wanted); !swept)
    return refuse_members(swept.error());
  number_names(*wanted);

  const fs::path folder = folder_of(ensemble);
  for (Wanted& each : *wanted) {
    TrainArguments own;
    GivenOptions given;
    {
      const log::Name name(each.where);
      if (const auto code = read_options(table_of(own), each.words, given)) return code;
    }
    if (!gives(given, "--net") && own.net.solver.empty() && common.net.solver.empty())
      return refuse_members({ErrorKind::usage, each.where, "names no net", "--net lenet, say"});
    for (const auto* options : {kOfAll.data(), kOfNobody.data()})
      for (std::size_t i = 0; i < (options == kOfAll.data() ? kOfAll.size() : kOfNobody.size());
           ++i)
        if (gives(given, options[i]))
          return refuse_members({ErrorKind::usage, each.where,
                                 fmt::format("{} is no option of one member", options[i]),
                                 options == kOfAll.data() ? "give it to omni-run ensemble"
                                                          : "the run folder has it"});
    // An option that the member gives, and that may not be repeated, replaces the one of all.
    Words words = words_without(given.once, ensemble.words);
    words.insert(words.end(), each.words.begin(), each.words.end());
    if (!common.data.data_seed && !gives(given, "--data-seed"))
      words.insert(words.end(), {"--data-seed", std::to_string(common.data.seed_of_net())});
    words = words_without({"--trace"}, words);
    Member& member = members.emplace_back();
    member.name = each.name;
    member.words = words;
    const fs::path place = folder / each.name;
    if (!ensemble.prepare_only)
      words.insert(words.end(), {"--out", place.string(), "--metrics", place / "metrics.jsonl",
                                 "--save-weights", place / "net.weights"});
    if (!common.trace.empty())
      words.insert(words.end(), {"--trace", fs::path(common.trace) / each.name});
    const log::Name name(each.where);
    GivenOptions together;
    if (const auto code = read_options(table_of(member.arguments), words, together)) return code;
    member.arguments.common = {.quiet = ensemble.common.quiet};
    member.arguments.net.data = member.arguments.data.source;
  }
  return std::nullopt;
}

}  // namespace omni
