#include "scheduling/ensemble/rounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "layers/formats/safetensors.hpp"
#include "runtime/files.hpp"
#include "runtime/json_text.hpp"
#include "runtime/signals.hpp"
#include "runtime/tasks/host_access.hpp"
#include "scheduling/checkpoint/training_snapshot.hpp"
#include "scheduling/training/trainer.hpp"

namespace omni {
namespace {

constexpr std::size_t kLargestRecord = 256 << 20;
constexpr const char* kRecord = "rounds.json";

Error impossible_rounds(const std::filesystem::path& file) {
  return {ErrorKind::data, file.string(), "has impossible numbers of a tournament",
          "name another --out"};
}

// Returns the number with this key; NaN if `of` has no such number.
double number_of(const nlohmann::json& of, const char* key) {
  if (!of.is_object()) return NAN;
  const auto found = of.find(key);
  return found != of.end() && found->is_number() ? found->get<double>() : NAN;
}

// Reads a list of takeovers. A value that is no member's number becomes -1.
std::vector<TakenOver> takeovers_of(const nlohmann::json& list) {
  const auto member = [](double number) {
    return number >= 0 && number < 1e6 && number == std::floor(number) ? static_cast<int>(number)
                                                                       : -1;
  };
  std::vector<TakenOver> takeovers;
  for (const nlohmann::json& each : list)
    takeovers.push_back({.winner = member(number_of(each, "winner")),
                         .loser = member(number_of(each, "loser")),
                         .learning_rate = number_of(each, "learning_rate"),
                         .momentum = number_of(each, "momentum")});
  return takeovers;
}

nlohmann::json takeovers_json(const std::vector<TakenOver>& takeovers) {
  nlohmann::json list = nlohmann::json::array();
  for (const TakenOver& each : takeovers)
    list.push_back({{"loser", each.loser},
                    {"winner", each.winner},
                    {"learning_rate", each.learning_rate},
                    {"momentum", each.momentum}});
  return list;
}

}  // namespace

Rounds::Rounds(RoundOptions options, std::filesystem::path folder, std::vector<RoundMember> members)
    : options_(options), folder_(std::move(folder)), members_(std::move(members)) {
  for (std::size_t i = 0; i < members_.size(); ++i) active_.insert(static_cast<int>(i));
}

std::filesystem::path Rounds::arrays_of(int member, std::uint64_t round) const {
  return folder_ / members_[member].name / fmt::format("round-{}.safetensors", round);
}

Status Rounds::write_arrays(int member, Trainer& training) const {
  std::vector<NamedArray> arrays;
  for_each_array(training.groups().net(),
                 [&](const std::string& name, const Param& param, const Tensor& tensor) {
                   arrays.push_back({name, param.shape, {}, [&tensor](const ByteSink& sink) {
                                       const HostAccess values(tensor, HostAccess::Mode::read);
                                       return sink(std::as_bytes(values.f32()));
                                     }});
                 });
  OMNI_TRY(auto file, AtomicFile::create(arrays_of(member, training.state().iteration)));
  OMNI_CHECK(write_safetensors([&](std::span<const std::byte> bytes) { return file.write(bytes); },
                               arrays, {}));
  return file.commit();
}

Status Rounds::take(const TakenOver& from, std::uint64_t round, Trainer& training) const {
  const std::filesystem::path file = arrays_of(from.winner, round);
  OMNI_TRY(const Safetensors saved, read_safetensors(file));
  Status status;
  for_each_array(training.groups().net(), [&](const std::string& name, const Param& param,
                                              const Tensor& tensor) {
    const NamedArray* array = saved.find(name);
    if (array == nullptr || array->shape != param.shape) {
      status =
          Error{ErrorKind::data, file.string(),
                fmt::format("does not have the array '{}' of {}", name, members_[from.loser].name),
                "it belongs to another net"};
      return;
    }
    const HostAccess values(tensor, HostAccess::Mode::write);
    std::ranges::copy(array->values, values.f32().begin());
  });
  OMNI_CHECK(std::move(status));
  training.groups().refresh_replicas();
  return {};
}

Result<std::optional<TakenOver>> Rounds::meet(int member, Trainer& training,
                                              std::vector<float> losses, double learning_rate,
                                              double momentum) {
  const std::uint64_t round = training.state().iteration;
  std::unique_lock lock(mutex_);
  if (!decisions_.contains(round)) {
    lock.unlock();
    OMNI_CHECK(write_arrays(member, training));
    training.feed().leave_stream();
    lock.lock();
    waiting_[member] = &training;
    if (decides_)
      arrived_[member] = {round, std::move(losses), learning_rate, momentum};
    else
      send_({{"arrives", member},
             {"round", round},
             {"losses", losses_json(losses)},
             {"learning_rate", learning_rate},
             {"momentum", momentum}});
    decide();
    while (waiting_.contains(member) && !stop_requested())
      decided_.wait_for(lock, std::chrono::milliseconds(50));
    if (waiting_.erase(member) > 0) {
      arrived_.erase(member);
      return std::optional<TakenOver>();
    }
    OMNI_CHECK(Status(status_));
  }
  // All members have reached this round, so all losers of earlier rounds have saved what they took
  // over.
  for (const auto& [earlier, takeovers] : decisions_)
    if (std::error_code ignored; earlier < round)
      std::filesystem::remove(arrays_of(member, earlier), ignored);
  const auto& takeovers = decisions_[round];
  const auto own = std::ranges::find(takeovers, member, &TakenOver::loser);
  return own == takeovers.end() ? std::nullopt : std::optional(*own);
}

void Rounds::leave(int member) {
  const std::lock_guard lock(mutex_);
  if (!decides_) return send_({{"leaves", member}});
  active_.erase(member);
  decide();
}

// Decides a round when all members that have not left have reached it.
void Rounds::decide() {
  if (!decides_ || arrived_.empty() || arrived_.size() < active_.size()) return;
  const std::uint64_t round = arrived_.begin()->second.round;
  status_ = decide(round);
  if (send_) {
    nlohmann::json letter{{"round", round}, {"takeovers", takeovers_json(decisions_[round])}};
    if (!status_) letter["error"] = status_.error().message();
    send_(letter);
  }
  arrived_.clear();
  go_on();
}

// No member on this rank reads samples until all its members have joined the stream of samples
// again.
void Rounds::go_on() {
  for (const auto& [member, training] : waiting_)
    if (Status joined = training->feed().join_stream(training->state().samples); !joined && status_)
      status_ = std::move(joined);
  waiting_.clear();
  decided_.notify_all();
}

Status Rounds::decide(std::uint64_t round) {
  std::map<std::string, std::vector<Contestant>> kinds;
  for (const auto& [member, each] : arrived_)
    kinds[members_[member].kind].push_back({member, each.losses});
  std::vector<TakenOver>& takeovers = decisions_[round];
  for (auto& [kind, contestants] : kinds) {
    OMNI_TRY(const std::vector<Takeover> found,
             tournament(std::move(contestants), options_.seed, round));
    for (const Takeover& each : found) {
      const Arrival& winner = arrived_[each.winner];
      takeovers.push_back({.winner = each.winner,
                           .loser = each.loser,
                           .learning_rate = winner.learning_rate * each.rate_factor,
                           .momentum = winner.momentum});
    }
  }
  return record();
}

void Rounds::over_ranks(bool is_first, std::function<void(const nlohmann::json&)> send) {
  decides_ = is_first;
  send_ = std::move(send);
}

void Rounds::heard(const nlohmann::json& letter) {
  const std::lock_guard lock(mutex_);
  if (letter.contains("leaves")) {
    active_.erase(letter["leaves"].get<int>());
    decide();
  } else if (letter.contains("arrives")) {
    arrived_[letter["arrives"].get<int>()] = {letter["round"], losses_of(letter["losses"]),
                                              letter["learning_rate"], letter["momentum"]};
    decide();
  } else {
    const std::uint64_t round = letter["round"];
    decisions_[round] = takeovers_of(letter["takeovers"]);
    status_ = letter.contains("error")
                  ? Status(Error{ErrorKind::failed, "", letter["error"].get<std::string>(), ""})
                  : Status();
    go_on();
  }
}

Status Rounds::record() const {
  nlohmann::ordered_json names = nlohmann::ordered_json::array(), rounds = names;
  for (const RoundMember& each : members_) names.push_back(each.name);
  for (const auto& [round, takeovers] : decisions_)
    rounds.push_back({{"iteration", round}, {"takeovers", takeovers_json(takeovers)}});
  const nlohmann::ordered_json all{{"every", options_.every},
                                   {"seed", options_.seed},
                                   {"members", std::move(names)},
                                   {"rounds", std::move(rounds)}};
  return write_file_atomically(folder_ / kRecord, json_text(all, 1) + "\n");
}

Status Rounds::read() {
  const std::filesystem::path file = folder_ / kRecord;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return {};
  OMNI_TRY(const std::string text, read_file(file, kLargestRecord));
  const auto all = nlohmann::json::parse(text, nullptr, false);
  nlohmann::json names = nlohmann::json::array();
  for (const RoundMember& each : members_) names.push_back(each.name);
  if (!all.is_object() || !all.contains("rounds") || !all["rounds"].is_array())
    return impossible_rounds(file);
  if (all.value("members", nlohmann::json()) != names ||
      all.value("every", nlohmann::json()) != options_.every ||
      all.value("seed", nlohmann::json()) != options_.seed)
    return Error{ErrorKind::usage, file.string(), "is of a tournament of other members or rounds",
                 "resume with the same members, seed and --exploit, or name another --out"};
  for (const nlohmann::json& each : all["rounds"]) {
    const auto iteration = number_of(each, "iteration");
    if (!(iteration >= 1 && iteration <= 1e15) || !each.contains("takeovers") ||
        !each["takeovers"].is_array())
      return impossible_rounds(file);
    std::vector<TakenOver> takeovers = takeovers_of(each["takeovers"]);
    const auto is_member = [&](int member) {
      return member >= 0 && member < static_cast<int>(members_.size());
    };
    for (const TakenOver& one : takeovers)
      if (!is_member(one.winner) || !is_member(one.loser) || !std::isfinite(one.learning_rate) ||
          !std::isfinite(one.momentum))
        return impossible_rounds(file);
    decisions_[static_cast<std::uint64_t>(iteration)] = std::move(takeovers);
  }
  return {};
}

}  // namespace omni
