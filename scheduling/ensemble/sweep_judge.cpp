#include "scheduling/ensemble/sweep_judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/communicator/ranks.hpp"
#include "runtime/files.hpp"
#include "runtime/json_text.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "scheduling/pilots/saved_numbers.hpp"
#include "scheduling/training/trainer.hpp"

namespace omni {
namespace {

constexpr std::size_t kJudgedImages = 2000;  // of the test set
constexpr std::size_t kLargestState = 256 << 20;

// Returns the loss of an image. The net must end with a softmax layer.
float loss_of(std::span<const float> probabilities, int label) {
  if (label < 0) return 0;  // a damaged image counts for nobody
  constexpr float kSmallestShare = 1e-30f;
  return -std::log(std::max(probabilities[label], kSmallestShare));
}

}  // namespace

// This pilot rests at rungs or rounds. It computes the losses of its member there and at the end.
// If the member has several ranks, their pilots do the same, and that of the first one tells the
// judge.
class SweepJudge::MemberPilot : public Pilot {
 public:
  MemberPilot(SweepJudge& judge, int member) : judge_(judge), member_(member) {}

  std::string_view name() const override { return "sweep"; }
  std::uint64_t next_rest() const override { return judge_.next_rest(rested_at_); }
  Steering steering() const override {
    if (taken_at_ == 0) return {};
    return {.momentum = momentum_, .learning_rate = learning_rate_};
  }
  std::vector<double> numbers() const override {
    if (taken_at_ == 0) return {};
    return {static_cast<double>(taken_at_), learning_rate_, momentum_};
  }
  Advice judge(const StepReport& /*at*/) override {
    return judge_.rungs_ && has_stopped() ? Advice::end : Advice::go_on;
  }

  Status begin(Trainer& training, std::span<const double> saved) override {
    if (!saved.empty()) {
      SavedNumbers numbers(saved);
      taken_at_ = numbers.count();
      learning_rate_ = numbers.between(0, SavedNumbers::kLargest);
      momentum_ = numbers.between(0, 1);
      OMNI_CHECK(numbers.status(name()));
    }
    // At an iteration with a rest, a checkpoint is saved before the rest. So a resumed training has
    // to rest at its first iteration.
    rested_at_ = std::max<std::uint64_t>(training.state().iteration, 1) - 1;
    if (has_stopped()) training.end_here();
    return {};
  }

  Status rested(Trainer& training) override {
    rested_at_ = training.state().iteration;
    if (judge_.rounds_) return meet(training);
    // Only the first of its ranks may know that its losses at this rung are known.
    if (!ranks::any(ranks::first() && judge_.is_wanted(member_, rested_at_))) return {};
    OMNI_TRY(std::vector<float> losses, losses_of(training));
    if (ranks::first()) OMNI_CHECK(judge_.reach(member_, rested_at_, std::move(losses)));
    if (has_stopped()) training.end_here();
    return {};
  }

  Status end(Trainer& training) override {
    if (has_stopped()) {
      if (ranks::first()) training.say(judge_.reason(member_));
      return {};
    }
    OMNI_TRY(std::vector<float> losses, losses_of(training));
    return ranks::first() ? judge_.finish(member_, std::move(losses)) : Status();
  }

 private:
  // A member with several ranks has stopped on all of them if one has heard so.
  bool has_stopped() {
    const bool stopped = ranks::any(judge_.has_stopped(member_));
    if (stopped) judge_.stopped_[member_] = true;
    return stopped;
  }

  Status meet(Trainer& training) {
    Rounds& rounds = *judge_.rounds_;
    const bool is_round = rested_at_ > 0 && rounds.next(rested_at_ - 1) == rested_at_;
    // If the checkpoint was saved after the takeover of this round, the member has already met.
    if (!is_round || taken_at_ == rested_at_) return {};
    if (taken_at_ == 0) {
      learning_rate_ = training.solver().learning_rate;
      momentum_ = training.solver().momentum;
    }
    OMNI_TRY(std::vector<float> losses, losses_of(training));
    OMNI_TRY(const auto taken,
             rounds.meet(member_, training, std::move(losses), learning_rate_, momentum_));
    if (!taken) return {};
    OMNI_CHECK(rounds.take(*taken, rested_at_, training));
    taken_at_ = rested_at_;
    learning_rate_ = taken->learning_rate;
    momentum_ = taken->momentum;
    const std::string& winner = judge_.members_[taken->winner];
    training.say(fmt::format("takes the weights of {} at iteration {}; learning rate {:.4g}",
                             winner, rested_at_, learning_rate_));
    training.record({{"iteration", rested_at_},
                     {"takes_weights_of", winner},
                     {"learning_rate", learning_rate_}});
    return training.save_changed();
  }

  Result<std::vector<float>> losses_of(Trainer& training) {
    DataFeed& images = *judge_.feeds_[member_];
    std::vector<double> losses(images.dataset().size());
    OMNI_TRY(const Tally tally,
             training.evaluate(images, [&](std::size_t index, std::span<const float> outputs) {
               losses[index] = loss_of(outputs, images.dataset().label(index));
               return Status();
             }));
    (void)tally;
    ranks::sum(losses);  // each rank has computed some of them
    return std::vector<float>(losses.begin(), losses.end());
  }

  SweepJudge& judge_;
  int member_;
  std::uint64_t rested_at_ = 0;              // iteration
  std::uint64_t taken_at_ = 0;               // the last round in which it took weights; 0: none
  double learning_rate_ = 0, momentum_ = 0;  // since then
};

// The chosen images are spread over the whole test set, which may be sorted by class.
SweepJudge::Images::Images(const Dataset& all)
    : of(all),
      some(
          std::shared_ptr<Dataset>(const_cast<Dataset*>(&all), [](Dataset*) {}),
          [&all] {
            std::vector<std::size_t> indices(std::min(all.size(), kJudgedImages));
            for (std::size_t i = 0; i < indices.size(); ++i)
              indices[i] = i * all.size() / indices.size();
            return indices;
          }(),
          "some of them", false) {}

Status SweepJudge::open(int member, const DataFeed& test, std::size_t window) {
  const Dataset& all = test.dataset();
  auto images = std::ranges::find_if(images_, [&](const Images& each) { return &each.of == &all; });
  if (images == images_.end()) images = images_.emplace(images_.end(), all);
  FeedOptions options = test.options();
  const SampleOptions samples{.training = false,
                              .seed = options.seed,
                              .augment = options.augment,
                              .net_input = options.net_input};
  options.stream = nullptr;
  if (SharedStream::fits(images->some, samples, window)) {
    auto stream = std::ranges::find_if(images->streams, [&](const SharedStream& each) {
      return each.samples().options() == samples;
    });
    if (stream == images->streams.end())
      stream = images->streams.emplace(images->streams.end(), images->some, samples, window);
    options.stream = &*stream;
  }
  feeds_[member] = std::make_unique<DataFeed>(images->some, std::move(options));
  return feeds_[member]->allocate();
}

void SweepJudge::close() {
  feeds_ = std::vector<std::unique_ptr<DataFeed>>(members_.size());
  images_.clear();
}

std::string SweepJudge::stops() const {
  const std::lock_guard lock(mutex_);
  nlohmann::json stops = nlohmann::json::object();
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (stopped_[i]) stops[std::to_string(i)] = reasons_[i];
  return json_text(stops);
}

void SweepJudge::take_stops(const std::string& stops) {
  const std::lock_guard lock(mutex_);
  const auto all = nlohmann::json::parse(stops);
  for (const auto& [member, reason] : all.items()) {
    stopped_[std::stoul(member)] = true;
    reasons_[std::stoul(member)] = reason;
  }
}

std::unique_ptr<Pilot> SweepJudge::pilot(int member) {
  return std::make_unique<MemberPilot>(*this, member);
}

// Returns nothing if there is no file to resume from. That of another run is removed: a later wave
// would read it. Later waves have more members.
Result<std::optional<nlohmann::json>> SweepJudge::kept(const std::filesystem::path& file,
                                                       bool resumes) const {
  std::error_code ignored;
  if (!resumes) std::filesystem::remove(file, ignored);
  if (!std::filesystem::exists(file, ignored)) return std::optional<nlohmann::json>();
  OMNI_TRY(const std::string text, read_file(file, kLargestState));
  auto json = nlohmann::json::parse(text, nullptr, false);
  const nlohmann::json members = json.is_object() ? json.value("members", nlohmann::json()) : json;
  if (json.is_object() && (!members.is_array() || members.size() > members_.size() ||
                           !std::equal(members.begin(), members.end(), members_.begin())))
    return Error{ErrorKind::usage, file.string(), "compares other members",
                 "resume with the same members, or name another --out"};
  return std::optional(std::move(json));
}

Status SweepJudge::keep_final(std::filesystem::path file, bool resumes) {
  finals_file_ = std::move(file);
  OMNI_TRY(const auto json, kept(finals_file_, resumes));
  if (!json) return {};
  const nlohmann::json finals = json->is_object() ? json->value("final", nlohmann::json()) : *json;
  const auto are_losses = [](const nlohmann::json& list) {
    return list.is_array() && std::ranges::all_of(list, [](const nlohmann::json& each) {
             return each.is_number() || each.is_null();
           });
  };
  if (!finals.is_array() || finals.size() > final_.size() ||
      !std::ranges::all_of(finals, are_losses))
    return Error{ErrorKind::data, finals_file_.string(), "has no losses of members",
                 "remove it, and the members of the last wave are compared alone"};
  for (std::size_t i = 0; i < finals.size(); ++i) final_[i] = losses_of(finals[i]);
  return {};
}

Status SweepJudge::stop_by(const RungOptions& options, std::filesystem::path file, bool resumes) {
  file_ = std::move(file);
  OMNI_TRY(const auto json, kept(file_, resumes));
  if (!json) {
    OMNI_TRY(rungs_, Rungs::make(options));
    return {};
  }
  OMNI_TRY(rungs_, Rungs::from_json(*json, options));
  for (std::size_t i = 0; i < members_.size(); ++i)
    stopped_[i] = rungs_->has_left(static_cast<int>(i));
  return {};
}

Status SweepJudge::exploit_by(const RoundOptions& options, const std::filesystem::path& folder,
                              const std::vector<std::string>& kinds, bool resumes) {
  std::vector<RoundMember> members;
  for (std::size_t i = 0; i < members_.size(); ++i) members.push_back({members_[i], kinds[i]});
  rounds_.emplace(options, folder, std::move(members));
  return resumes ? rounds_->read() : Status();
}

std::uint64_t SweepJudge::next_rest(std::uint64_t iteration) const {
  if (rounds_) return rounds_->next(iteration);
  const std::lock_guard lock(mutex_);
  return rungs_ ? rungs_->next(iteration) : UINT64_MAX;
}

// A resumed member may reach a rung a second time. Its losses of the first time count.
bool SweepJudge::is_wanted(int member, std::uint64_t iteration) const {
  const std::lock_guard lock(mutex_);
  return rungs_ && iteration > 0 && rungs_->next(iteration - 1) == iteration &&
         !rungs_->has_reached(member, iteration);
}

Status SweepJudge::reach(int member, std::uint64_t iteration, std::vector<float> losses) {
  const std::lock_guard lock(mutex_);
  if (rank_ == 0) return judge(member, iteration, std::move(losses));
  send_(0, json_text(nlohmann::json{
               {"member", member}, {"iteration", iteration}, {"losses", losses_json(losses)}}));
  return {};
}

Status SweepJudge::judge(int member, std::uint64_t iteration, std::vector<float> losses) {
  OMNI_CHECK(rungs_->reach(member, iteration, std::move(losses)));
  for (const RungVerdict& each : rungs_->verdicts()) {
    // A member that has ended is not stopped, as its result counts.
    if (!each.stops || has_ended_[each.member] || stopped_[each.member]) continue;
    rungs_->leave(each.member);
    stop(each.member,
         fmt::format(
             "stops: at iteration {} it is number {} of {}, with a loss {:.4f} +- {:.4f} above {}",
             each.iteration, each.better + 1, each.reached, each.worse.mean, each.worse.error,
             members_[each.rival]));
  }
  nlohmann::json json = rungs_->to_json();
  json["members"] = members_;
  return write_file_atomically(file_, json_text(json));
}

void SweepJudge::stop(int member, std::string reason) {
  if (const int on = rank_of_ ? rank_of_(member) : 0; on != rank_)
    send_(on, json_text(nlohmann::json{{"stops", member}, {"reason", reason}}));
  reasons_[member] = std::move(reason);
  stopped_[member] = true;
}

void SweepJudge::over_ranks(int rank, std::function<int(int)> rank_of,
                            std::function<void(int, const std::string&)> send) {
  rank_ = rank;
  rank_of_ = std::move(rank_of);
  send_ = std::move(send);
  if (rounds_)
    rounds_->over_ranks(rank == 0, [this](const nlohmann::json& letter) {
      send_(rank_ == 0 ? -1 : 0, json_text(nlohmann::json{{"rounds", letter}}));
    });
}

void SweepJudge::heard(const std::string& text) {
  const auto letter = nlohmann::json::parse(text);
  if (letter.contains("rounds")) return rounds_->heard(letter["rounds"]);
  const std::lock_guard lock(mutex_);
  if (letter.contains("stops")) {
    // A member that has ended in the meantime is not stopped: its result counts, and it has told
    // the judge so.
    if (!has_ended_[letter["stops"].get<std::size_t>()]) stop(letter["stops"], letter["reason"]);
  } else if (letter.contains("final")) {
    const std::size_t member = letter["member"];
    has_ended_[member] = true;
    stopped_[member] = false;  // it had ended before it heard
    if (Status noted = note_final(letter["member"], losses_of(letter["final"])); !noted)
      report_task_error(std::move(noted.error()));
  } else if (Status judged =
                 judge(letter["member"], letter["iteration"], losses_of(letter["losses"]));
             !judged) {
    report_task_error(std::move(judged.error()));
  }
}

std::string SweepJudge::reason(int member) const {
  const std::lock_guard lock(mutex_);
  return reasons_[member].empty() ? "has stopped before" : reasons_[member];
}

Status SweepJudge::finish(int member, std::vector<float> losses) {
  const std::lock_guard lock(mutex_);
  if (stopped_[member]) return {};  // while its losses were computed
  has_ended_[member] = true;
  if (rank_ > 0)
    send_(0, json_text(nlohmann::json{{"member", member}, {"final", losses_json(losses)}}));
  return note_final(member, std::move(losses));
}

Status SweepJudge::note_final(int member, std::vector<float> losses) {
  final_[member] = std::move(losses);
  if (finals_file_.empty() || rank_ > 0) return {};
  nlohmann::json finals = nlohmann::json::array();
  for (const std::vector<float>& each : final_) finals.push_back(losses_json(each));
  return write_file_atomically(
      finals_file_, json_text(nlohmann::json{{"members", members_}, {"final", std::move(finals)}}));
}

BestMember SweepJudge::best() const {
  const std::lock_guard lock(mutex_);
  std::vector<int> order;
  for (std::size_t i = 0; i < final_.size(); ++i)
    if (!stopped_[i] && !final_[i].empty() && std::isfinite(mean_loss(final_[i])) &&
        final_[i].size() == final_[order.empty() ? i : order[0]].size())
      order.push_back(static_cast<int>(i));
  std::ranges::stable_sort(order, {}, [&](int each) { return mean_loss(final_[each]); });
  BestMember found;
  if (order.empty()) return found;
  found.best = order[0];
  if (order.size() == 1) return found;
  found.next = order[1];
  found.ahead = loss_excess(final_[order[1]], final_[order[0]]);
  return found;
}

}  // namespace omni
