#include "apps/omni-run/ensemble/rank_ensemble.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "apps/command_line.hpp"
#include "apps/omni-run/ensemble/stream_key.hpp"
#include "apps/omni-run/setup.hpp"
#include "runtime/checksum.hpp"
#include "runtime/communicator/transfers.hpp"
#include "runtime/data/damaged_images.hpp"
#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "runtime/own_command.hpp"
#include "runtime/signals.hpp"
#include "runtime/tasks/task_errors.hpp"

namespace omni {
namespace {

using Design = StreamRoute::Design;

// A member with several ranks sends sums and layers' values with lower tags.
constexpr int kFirstStreamTag = kFirstLayerTag + kMostLayers * 4 * kMostSlices;

// A Reading says which samples of a stream this rank's members read.
struct Reading {
  SharedStream* stream = nullptr;
  std::uint64_t first = UINT64_MAX, end = 0;  // samples
};

std::vector<Reading> readings_of(std::deque<TrainCommand>& trainings) {
  std::vector<Reading> all;
  for (TrainCommand& each : trainings) {
    SharedStream* const stream = each.is_finished() ? nullptr : each.stream();
    if (stream == nullptr) continue;
    auto own = std::ranges::find(all, stream, &Reading::stream);
    if (own == all.end()) own = all.insert(all.end(), {.stream = stream});
    own->first = std::min(own->first, each.state().samples);
    own->end = std::max(own->end, each.last_sample());
  }
  return all;
}

// Returns the damaged images of a stream's data. Null: the data skip none, or `stream` is null.
DamagedImages* damaged_of(const SharedStream* stream) {
  return stream != nullptr ? stream->samples().dataset().damaged() : nullptr;
}

// Leaves out ranks that begin more than a window before another one, which would wait for them.
// They prepare their samples themselves.
void leave_out_far_behind(std::map<int, nlohmann::json>& by_rank) {
  std::uint64_t latest = 0;
  for (const auto& [rank, reading] : by_rank)
    latest = std::max<std::uint64_t>(latest, reading["first"]);
  std::erase_if(by_rank, [&](const auto& each) {
    const nlohmann::json& reading = each.second;
    return reading["first"].template get<std::uint64_t>() +
               reading["window"].template get<std::uint64_t>() <
           latest;
  });
}

std::vector<Design> designs_of(const std::string& share) {
  if (share == "all") return {Design::all};
  if (share == "single") return {Design::single};
  if (share == "multi") return {Design::multi};
  return {Design::apart, Design::all, Design::multi, Design::single};
}

}  // namespace

Status require_one_command(const std::string& members) {
  OMNI_TRY(const std::string program, read_file("/proc/self/exe", UINT64_MAX));
  std::vector<std::string> words = own_words();
  if (!words.empty()) words.erase(words.begin());
  for (const auto& [what, value] :
       {std::pair("the program", fmt::format("{} ({})", kVersion, checksum_of(program))),
        std::pair("the command line", for_shell(words)),
        std::pair("the list of members", members)}) {
    const std::vector<std::string> all = ranks::gather(value);
    for (std::size_t rank = 1; rank < all.size(); ++rank)
      if (all[rank] != all[0])
        return Error{ErrorKind::usage, ranks::name(static_cast<int>(rank)),
                     fmt::format("{} is {}, and {} on the first rank", what, all[rank], all[0]),
                     "all ranks must have the same"};
  }
  return {};
}

Status check_share(const EnsembleArguments& arguments) {
  const auto& [share, preparers] = std::tie(arguments.share, arguments.preparers);
  if (preparers && share != "single" && share != "multi")
    return Error{ErrorKind::usage, "--preparers",
                 fmt::format("has no effect with --share {}", share),
                 "add --share single or --share multi, or leave --preparers out"};
  if (preparers && *preparers > ranks::size())
    return Error{
        ErrorKind::usage, "--preparers",
        fmt::format("{} ranks cannot prepare samples, there are {}", *preparers, ranks::size()),
        "name at most as many as there are ranks"};
  if (!ranks::several() && share != "auto" && share != "off")
    log::warn("--share {}: there is one rank, which prepares all samples", share);
  return {};
}

RankEnsemble::RankEnsemble(RankRange own, const ranks::Link& link, Listeners listeners)
    : own_(own), link_(link), listeners_(std::move(listeners)) {
  apart_.emplace(own_.first, own_.count);
}

std::vector<std::string> RankEnsemble::gather(const std::string& text) {
  apart_.reset();
  std::vector<std::string> all = ranks::gather(text);
  apart_.emplace(own_.first, own_.count);
  return all;
}

Status RankEnsemble::agree(Status own) {
  nlohmann::json said = nlohmann::json::array();
  if (!own) {
    const Error& error = own.error();
    said = {static_cast<int>(error.kind), error.where, error.what, error.hint};
  }
  for (const std::string& each : gather(said.dump()))
    if (const auto error = nlohmann::json::parse(each); !error.empty())
      return Error{static_cast<ErrorKind>(error[0].get<int>()), error[1], error[2], error[3]};
  return {};
}

Status check_test_images(std::deque<TrainCommand>& trainings, RankEnsemble* ranks) {
  Status checked;
  for (TrainCommand& each : trainings)
    if (checked) checked = each.check_test_images();
  return ranks != nullptr ? ranks->agree(std::move(checked)) : checked;
}

RankEnsemble::~RankEnsemble() {
  for (SharedStream* const each : streams_)
    if (each != nullptr) each->leave_ranks();
}

Status RankEnsemble::join(SharedTrainings& shared, std::deque<TrainCommand>& trainings,
                          const EnsembleArguments& arguments) {
  const std::string& share = arguments.share;
  apart_.reset();
  const int rank = ranks::rank();
  const std::vector<Reading> readings =
      share == "off" ? std::vector<Reading>() : readings_of(trainings);
  std::map<std::string, SharedStream*> own;
  nlohmann::json said = nlohmann::json::object();
  for (const Reading& each : readings) {
    const SampleReader& samples = each.stream->samples();
    const StreamKey of = stream_key(samples, shared.source_of(samples.dataset()));
    // If two streams of this rank have one key, the second is not shared.
    if (!own.emplace(of.text, each.stream).second) continue;
    said[of.text] = {{"first", each.first},
                     {"end", each.end},
                     {"block", each.stream->samples_per_block()},
                     {"batch", each.stream->most_batch()},
                     {"ahead", each.stream->most_ahead()},
                     {"window", each.stream->bytes() /
                                    (samples.values_per_sample() * bytes_of(each.stream->type()))},
                     {"seconds", of.seconds},
                     {"cores", cpu_workers(shared.session)}};
  }
  OMNI_CHECK(task_status());
  std::map<std::string, std::map<int, nlohmann::json>> streams;  // by key and rank
  const std::vector<std::string> all = ranks::gather(said.dump());
  for (std::size_t from = 0; from < all.size(); ++from) {
    const auto known = nlohmann::json::parse(all[from]);
    for (const auto& [key, reading] : known.items()) streams[key][static_cast<int>(from)] = reading;
  }
  const std::vector<Design> designs = designs_of(share);
  for (auto& [key, by_rank] : streams) {
    leave_out_far_behind(by_rank);
    if (by_rank.size() < 2) continue;
    SharedStream* const stream = own.contains(key) && by_rank.contains(rank) ? own[key] : nullptr;
    SharedStream::OverRanks with;
    std::vector<PreparingSpeed> speeds;
    std::uint64_t first = UINT64_MAX, end = 0;
    std::size_t bytes = 0;
    for (const auto& [from, reading] : by_rank) {
      if (from == rank) with.place = static_cast<int>(with.ranks.size());
      with.ranks.push_back(from);
      speeds.push_back({reading["seconds"], reading["cores"]});
      first = std::min<std::uint64_t>(first, reading["first"]);
      end = std::max<std::uint64_t>(end, reading["end"]);
      with.samples_per_block = std::max<int>(with.samples_per_block, reading["block"]);
      with.most_batch = std::max<int>(with.most_batch, reading["batch"]);
      with.most_ahead = std::max<int>(with.most_ahead, reading["ahead"]);
    }
    if (stream != nullptr) bytes = stream->samples().values_per_sample() * bytes_of(stream->type());
    bytes = static_cast<std::size_t>(-ranks::least(-static_cast<double>(bytes)));
    with.route = fastest_route(
        designs, std::min(arguments.preparers.value_or(0), static_cast<int>(speeds.size())), speeds,
        link_, bytes);
    log::info("samples over ranks: {} ({:.3g} ms to prepare one of {} bytes)", with.route.text(),
              1e3 * speeds.front().seconds, bytes);
    if (with.route.design == Design::apart) continue;
    const std::size_t number = streams_.size();
    streams_.push_back(stream);
    takers_.push_back(with.ranks);
    if (stream == nullptr) continue;
    with.tag = kFirstStreamTag + static_cast<int>(number) * SharedStream::kTags;
    with.first_sample = first;
    with.end = end;
    with.tell = [this, number, rank](std::uint64_t wanted, std::uint64_t from) {
      for (const int to : takers_[number])
        if (to != rank) letters_->send(to, fmt::format("samples {} {} {}", number, wanted, from));
    };
    if (DamagedImages* const found = damaged_of(stream))
      found->set_names(with.place == 0 ? DamagedImages::Names::all : DamagedImages::Names::none);
    OMNI_CHECK(stream->join_ranks(std::move(with)));
  }
  OMNI_CHECK(share_damaged());  // those that were found while ranks compared their samples
  log::tell_warnings_unless_in(ranks::gather(log::warnings_so_far()).front());
  apart_.emplace(own_.first, own_.count);
  letters_.emplace([this](int from, const std::string& text) { read(from, text); });
  return {};
}

// Collective. Afterwards all ranks that share a stream know the same damaged images.
Status RankEnsemble::share_damaged() {
  Status status;
  for (const SharedStream* const stream : streams_) {
    DamagedImages* const found = damaged_of(stream);
    const std::vector<std::string> all = ranks::gather(found != nullptr ? found->text() : "");
    for (std::size_t from = 0; from < all.size(); ++from)
      if (found != nullptr && status)
        status = found->add_text(all[from], static_cast<int>(from) < rank_);
  }
  return status;
}

// Tells the ranks that share a stream which of its images this rank has found damaged.
void RankEnsemble::tell_damaged() {
  std::map<DamagedImages*, std::string> texts;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    DamagedImages* const found = damaged_of(streams_[i]);
    if (found == nullptr) continue;
    const auto [own, is_first] = texts.try_emplace(found);
    if (is_first) own->second = found->take_text();
    for (const int to : takers_[i])
      if (to != rank_ && !own->second.empty())
        letters_->send(to, fmt::format("damaged {} {}", i, own->second));
  }
}

void RankEnsemble::read(int from, const std::string& text) {
  if (text.empty()) {
    if (const Status well = task_status(); !well) ranks::end_job(well.error());
    if (asked_to_stop() && !std::exchange(told_stop_, true)) letters_->send_to_others("stop");
    constexpr std::chrono::milliseconds kPause(200);
    if (const auto now = std::chrono::steady_clock::now(); now >= told_progress_ + kPause) {
      told_progress_ = now;
      tell_progress();
    }
    return tell_damaged();
  }
  std::istringstream words(text);
  std::string what;
  words >> what;
  if (what == "samples") {
    std::size_t number = 0;
    std::uint64_t wanted = 0, first = 0;
    words >> number >> wanted >> first;
    const auto place = std::ranges::find(takers_[number], from) - takers_[number].begin();
    streams_[number]->heard(static_cast<int>(place), wanted, first);
  } else if (what == "damaged") {
    std::size_t number = 0;
    words >> number;
    const auto space = static_cast<std::size_t>(words.tellg());
    if (Status added = damaged_of(streams_[number])->add_text(text.substr(space + 1)); !added)
      report_task_error(std::move(added.error()));
  } else if (what == "judge") {
    listeners_.judge(text.substr(what.size() + 1));
  } else if (what == "progress") {
    hear_progress(text.substr(what.size() + 1) + listeners_.progress());
  } else if (what == "pause") {
    request_pause(true);
  } else if (what == "stop") {
    request_stop();
  } else if (what == "ended") {
    const std::lock_guard lock(mutex_);
    ++ended_;
    changed_.notify_one();
  }
}

void RankEnsemble::tell_progress() {
  if (!listeners_.progress) return;
  const std::string own = listeners_.progress();
  rank_ == 0 ? hear_progress(own) : letters_->send(0, "progress " + own);
}

void RankEnsemble::hear_progress(const std::string& text) {
  const std::lock_guard lock(pausing_);
  if (!listeners_.pauses(text) || std::exchange(told_pause_, true)) return;
  letters_->send_to_others("pause");
  request_pause(true);
}

Status RankEnsemble::finish() {
  apart_.reset();
  letters_->send_to_others("ended");
  {
    const ranks::IdleWorkers sleep_while_others_train;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ == ranks::size() - 1; });
  }
  std::string own;
  for (const SharedStream* each : streams_)
    own += fmt::format("{} ", each != nullptr ? each->passed_on() : 0);
  std::vector<std::uint64_t> most(streams_.size());
  for (const std::string& each : ranks::gather(own)) {
    std::istringstream numbers(each);
    for (std::uint64_t& one : most) {
      std::uint64_t number = 0;
      numbers >> number;
      one = std::max(one, number);
    }
  }
  for (std::size_t i = 0; i < streams_.size(); ++i)
    if (streams_[i] != nullptr) streams_[i]->finish(most[i]);
  say_traffic();
  letters_->close();
  return share_damaged();
}

// Prints how much each rank has prepared and received. The gather waits until all ranks have ended.
void RankEnsemble::say_traffic() const {
  std::string own;
  for (const SharedStream* each : streams_)
    own += each != nullptr ? fmt::format("{} {} ", each->prepared(), each->received()) : "0 0 ";
  std::vector<std::string> prepared(streams_.size()), received(streams_.size());
  for (const std::string& each : ranks::gather(own)) {
    std::istringstream words(each);
    std::string word;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      words >> word;
      prepared[i] += " " + word;
      words >> word;
      received[i] += " " + word;
    }
  }
  for (std::size_t i = 0; i < streams_.size(); ++i)
    log::info("samples by rank: prepared{}; bytes received{}", prepared[i], received[i]);
}

}  // namespace omni
