// These functions of RankSums submit coded messages, and keep what the messages leave out.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "codelets/elementwise/meeting.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/tasks/host_access.hpp"
#include "scheduling/groups/rank_sums.hpp"

namespace omni {
namespace {

// Returns these values of a part in main memory.
std::span<float> values_of(const HostAccess& access, const TensorPart& values) {
  return access.f32().subspan(values.part * values.tensor->count_of(0) + values.first,
                              values.count());
}

void copy(const TensorPart& from, const Tensor& to) {
  const HostAccess source(*from.tensor, HostAccess::Mode::read), own(to, HostAccess::Mode::write);
  std::ranges::copy(values_of(source, from), own.f32().begin());
}

}  // namespace

RankRange RankSums::audience(std::size_t set) const {
  if (by_group_) return members(static_cast<int>(set));
  return meets_ && set > 0 ? members(groups_.here().front()) : RankRange{0, ranks::size()};
}

void RankSums::declare_coded(const std::string& name, const Piece& piece, std::size_t set,
                             Senders& from) {
  const std::size_t count = piece.values.count();
  const RankRange among = audience(set);
  const int own = ranks::rank();
  if (!coding_.codes(count) || (among.count == 1 && among.has(from.owner))) return;
  Coded& coded = from.coded.emplace(Coded{});  // for Clang
  const auto values = [&](const char* what) {
    return &incoming_.declare(fmt::format("{}.{}{}", name, what, set), count);
  };
  const auto message = [&](const char* what) {
    return &incoming_.declare(fmt::format("{}.{}{}", name, what, set), coding_.bytes(count),
                              DataType::u8);
  };
  const auto is_guest = [&](int rank) { return set == 0 && piece.first_is_guest && rank == 0; };
  if (from.owner == own) {
    for (const int rank : from.ranks)
      coded.incoming.push_back(rank == own || is_guest(rank) ? nullptr : message("coded"));
    coded.exact = values("exact");
    if (!among.has(own)) coded.known = values("known");
  } else if (from.has(own) && !is_guest(own)) {
    coded.message = message("message");
    coded.left = values("left");
  }
  if (from.owner == own || among.has(own)) coded.change = message("change");
}

void RankSums::contribute(const Piece& piece, std::size_t set, TensorPart own, bool clears,
                          std::vector<Transfer>& leaving, TaskTag tag) const {
  const Senders& from = piece.sets[set];
  const bool sends = from.has(ranks::rank());
  const int its_tag = tag_of(piece, set, false);
  if (sends && from.coded && from.coded->message != nullptr) {
    submit_encode(coding_, own, *from.coded->left, *from.coded->message, clears, tag);
    submit_transfers({{Transfer::Kind::send, *from.coded->message, {from.owner}, its_tag}}, tag);
    return;
  }
  leaving.push_back({clears ? Transfer::Kind::send_and_clear : Transfer::Kind::send, own,
                     sends ? std::vector{from.owner} : std::vector<int>(), its_tag});
}

void RankSums::spread_change(const Senders& from, TensorPart own, const std::vector<int>& peers,
                             int its_tag, TaskTag tag, UpdateReport* report) const {
  const Tensor& change = *from.coded->change;
  if (from.owner == ranks::rank()) {
    submit_encode_change(coding_, *from.coded->exact, own, change, tag);
    submit_transfers({{Transfer::Kind::send, change, peers, its_tag}}, tag);
    return;
  }
  submit_transfers({{Transfer::Kind::receive, change, {from.owner}, its_tag}}, tag, [report] {
    if (report != nullptr) report->count_down();
  });
  submit_decode(coding_, change, own, true, tag);
}

void RankSums::publish_exact(std::size_t number, float keeps, TaskTag tag) const {
  for (const Piece& piece : params_of_ranks_[number].pieces)
    if (piece.sets.size() > 1 && piece.sets.back().coded &&
        piece.sets.back().coded->exact != nullptr)
      submit_publish(piece.values, *piece.sets.back().coded->exact, tag, keeps);
}

// Calls visit(coded, piece, its parameter's number, set).
void RankSums::for_each_coded(const auto& visit) const {
  for (std::size_t i = 0; i < params_of_ranks_.size(); ++i)
    for (const Piece& piece : params_of_ranks_[i].pieces)
      for (std::size_t set = 0; set < piece.sets.size(); ++set)
        if (piece.sets[set].coded) visit(*piece.sets[set].coded, piece, i, set);
}

// Returns the tensors with unsent values. With one model for several groups, each step writes
// `exact` before it is used.
std::vector<const Tensor*> RankSums::unsent_tensors() const {
  std::vector<const Tensor*> all;
  for_each_coded([&](const Coded& coded, const Piece&, std::size_t, std::size_t) {
    for (const Tensor* tensor : {coded.left, by_group_ ? nullptr : coded.exact})
      if (tensor != nullptr) all.push_back(tensor);
  });
  return all;
}

std::size_t RankSums::unsent_count() const {
  std::size_t count = 0;
  for (const Tensor* tensor : unsent_tensors()) count += tensor->count();
  return count;
}

std::vector<float> RankSums::unsent() const {
  std::vector<float> all;
  all.reserve(unsent_count());
  for (const Tensor* tensor : unsent_tensors()) {
    const HostAccess access(*tensor, HostAccess::Mode::read);
    all.insert(all.end(), access.f32().begin(), access.f32().end());
  }
  return all;
}

bool RankSums::restore_unsent(std::span<const float> values) {
  if (unsent_count() != values.size()) return false;
  for (const Tensor* tensor : unsent_tensors()) {
    const HostAccess access(*tensor, HostAccess::Mode::write);
    std::ranges::copy(values.first(tensor->count()), access.f32().begin());
    values = values.subspan(tensor->count());
  }
  for (Shared& each : params_of_ranks_) each.first_has_all = true;
  return true;
}

void RankSums::forget_unsent() {
  for (Shared& each : params_of_ranks_) each.first_has_all = true;
  for_each_coded([&](const Coded& coded, const Piece& piece, std::size_t i, std::size_t set) {
    if (coded.left != nullptr)
      std::ranges::fill(HostAccess(*coded.left, HostAccess::Mode::write).f32(), 0.0f);
    const Param& param = *params_[i];
    const Tensor& shown = meets_ && set > 0 ? *param.replica : *param.master;
    for (const Tensor* tensor : {coded.exact, coded.known})
      if (tensor != nullptr) copy(piece.values.of(shown), *tensor);
  });
}

void RankSums::for_each_known(const VisitKnown& visit) const {
  for_each_coded([&](const Coded& coded, const Piece& piece, std::size_t i, std::size_t set) {
    if (coded.known != nullptr) visit(static_cast<int>(set), i, piece.values, *coded.known);
  });
}

}  // namespace omni
