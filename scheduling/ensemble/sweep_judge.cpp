#include "scheduling/ensemble/sweep_judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "runtime/data/subset.hpp"
#include "runtime/files.hpp"
#include "runtime/json_text.hpp"
#include "scheduling/training/feed_options.hpp"
#include "scheduling/training/trainer.hpp"

namespace omni {
namespace {

constexpr std::size_t kJudgedImages = 2000;  // of the test set
constexpr std::size_t kLargestState = 256 << 20;

double mean_of(const std::vector<float>& losses) {
  return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
}

// Returns the loss of an image in nets that end with a softmax layer.
float loss_of(std::span<const float> probabilities, int label) {
  if (label < 0) return 0;  // a damaged image counts for nobody
  constexpr float kSmallestShare = 1e-30f;
  return -std::log(std::max(probabilities[label], kSmallestShare));
}

}  // namespace

// Rests at rungs, and computes the losses there and at the end.
class SweepJudge::MemberPilot : public Pilot {
 public:
  MemberPilot(SweepJudge& judge, int member) : judge_(judge), member_(member) {}

  std::string_view name() const override { return "sweep"; }
  std::uint64_t next_rest() const override { return judge_.next_rung(rested_at_); }
  Advice judge(const StepReport& /*at*/) override {
    return judge_.has_stopped(member_) ? Advice::end : Advice::go_on;
  }

  Status begin(Trainer& training, std::span<const double> /*saved*/) override {
    // A checkpoint is saved before the rest that is due at its iteration.
    rested_at_ = std::max<std::uint64_t>(training.state().iteration, 1) - 1;
    if (judge_.has_stopped(member_)) training.end_here();
    return {};
  }

  Status rested(Trainer& training) override {
    rested_at_ = training.state().iteration;
    if (!judge_.is_wanted(member_, rested_at_)) return {};
    OMNI_TRY(std::vector<float> losses, losses_of(training));
    OMNI_CHECK(judge_.reach(member_, rested_at_, std::move(losses)));
    if (judge_.has_stopped(member_)) training.end_here();
    return {};
  }

  Status end(Trainer& training) override {
    if (judge_.has_stopped(member_)) {
      training.say(judge_.reason(member_));
      return {};
    }
    OMNI_TRY(std::vector<float> losses, losses_of(training));
    judge_.finish(member_, std::move(losses));
    return {};
  }

 private:
  // Spreads the images over the test set, which may be sorted by class.
  Status open(Trainer& training) {
    if (feed_) return {};
    const Dataset& all = training.test()->dataset();
    const std::size_t count = std::min(all.size(), kJudgedImages);
    std::vector<std::size_t> indices(count);
    for (std::size_t i = 0; i < count; ++i) indices[i] = i * all.size() / count;
    // The training outlives its pilots, so this data set need not own the images.
    images_.emplace(std::shared_ptr<Dataset>(const_cast<Dataset*>(&all), [](Dataset*) {}),
                    std::move(indices), "some of them", false);
    feed_ = std::make_unique<DataFeed>(*images_, training.test()->options());
    return feed_->allocate();
  }

  Result<std::vector<float>> losses_of(Trainer& training) {
    OMNI_CHECK(open(training));
    std::vector<float> losses;
    OMNI_TRY(const Tally tally,
             training.evaluate(*feed_, [&](std::size_t index, std::span<const float> outputs) {
               losses.push_back(loss_of(outputs, images_->label(index)));
               return Status();
             }));
    (void)tally;
    return losses;
  }

  SweepJudge& judge_;
  int member_;
  std::uint64_t rested_at_ = 0;  // iteration
  std::optional<Subset> images_;
  std::unique_ptr<DataFeed> feed_;
};

std::unique_ptr<Pilot> SweepJudge::pilot(int member) {
  return std::make_unique<MemberPilot>(*this, member);
}

Status SweepJudge::stop_by(const RungOptions& options, std::filesystem::path file, bool resumes) {
  file_ = std::move(file);
  std::error_code ignored;
  if (!resumes || !std::filesystem::exists(file_, ignored)) {
    OMNI_TRY(rungs_, Rungs::make(options));
    return {};
  }
  OMNI_TRY(const std::string text, read_file(file_, kLargestState));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_object() && json.value("members", nlohmann::json()) != nlohmann::json(members_))
    return Error{ErrorKind::usage, file_.string(), "compares other members",
                 "resume with the same members, or name another --out"};
  OMNI_TRY(rungs_, Rungs::from_json(json, options));
  for (std::size_t i = 0; i < members_.size(); ++i)
    stopped_[i] = rungs_->has_left(static_cast<int>(i));
  return {};
}

std::uint64_t SweepJudge::next_rung(std::uint64_t iteration) const {
  const std::lock_guard lock(mutex_);
  return rungs_ ? rungs_->next(iteration) : UINT64_MAX;
}

// A member that was resumed may come to a rung again, where its first losses count.
bool SweepJudge::is_wanted(int member, std::uint64_t iteration) const {
  const std::lock_guard lock(mutex_);
  return rungs_ && iteration > 0 && rungs_->next(iteration - 1) == iteration &&
         !rungs_->has_reached(member, iteration);
}

Status SweepJudge::reach(int member, std::uint64_t iteration, std::vector<float> losses) {
  const std::lock_guard lock(mutex_);
  OMNI_CHECK(rungs_->reach(member, iteration, std::move(losses)));
  for (const RungVerdict& each : rungs_->verdicts()) {
    const bool has_ended = !final_[each.member].empty();  // and keeps its result
    if (!each.stops || has_ended || stopped_[each.member]) continue;
    rungs_->leave(each.member);
    reasons_[each.member] = fmt::format(
        "stops: at iteration {} it is number {} of {}, with a loss {:.4f} +- {:.4f} above {}",
        each.iteration, each.better + 1, each.reached, each.worse.mean, each.worse.error,
        members_[each.rival]);
    stopped_[each.member] = true;
  }
  nlohmann::json json = rungs_->to_json();
  json["members"] = members_;
  return write_file_atomically(file_, json_text(json));
}

std::string SweepJudge::reason(int member) const {
  const std::lock_guard lock(mutex_);
  return reasons_[member].empty() ? "has stopped before" : reasons_[member];
}

void SweepJudge::finish(int member, std::vector<float> losses) {
  const std::lock_guard lock(mutex_);
  final_[member] = std::move(losses);
}

BestMember SweepJudge::best() const {
  const std::lock_guard lock(mutex_);
  std::vector<int> order;
  for (std::size_t i = 0; i < final_.size(); ++i)
    if (!final_[i].empty() && final_[i].size() == final_[order.empty() ? i : order[0]].size())
      order.push_back(static_cast<int>(i));
  std::ranges::sort(order, {}, [&](int each) { return mean_of(final_[each]); });
  BestMember found;
  if (order.empty()) return found;
  found.best = order[0];
  if (order.size() == 1) return found;
  found.next = order[1];
  found.ahead = loss_excess(final_[order[1]], final_[order[0]]);
  return found;
}

}  // namespace omni
