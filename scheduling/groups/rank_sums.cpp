#include "scheduling/groups/rank_sums.hpp"

#include <fmt/format.h>

#include <numeric>
#include <optional>
#include <utility>

#include "codelets/elementwise/accumulate.hpp"
#include "layers/slice_choice.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/communicator/transfers.hpp"

namespace omni {
namespace {

std::vector<int> others(RankRange of) {
  std::vector<int> ranks;
  for (int rank = of.first; rank < of.end(); ++rank)
    if (rank != ranks::rank()) ranks.push_back(rank);
  return ranks;
}

RankRange all_ranks() { return {0, ranks::size()}; }

std::vector<int> listed(RankRange of) {
  std::vector<int> ranks(of.count);
  std::iota(ranks.begin(), ranks.end(), of.first);
  return ranks;
}

void add(TensorPart to, TensorPart from, bool clear, TaskTag tag) {
  accumulate_sum.submit({.count = static_cast<std::int64_t>(to.count()), .clear = clear},
                        {accumulate(to), clear ? read_write(from) : read(from)}, tag);
}

// Submits a step for a part of a parameter. If a parameter is updated in pieces, only its first
// piece counts as an update.
void step_part(Exchange step, const TensorPart& part, ExchangeOrder order, TaskTag tag) {
  if (part.part > 0 || part.first > 0) step.args.leave_uncounted();
  step.only = part;
  submit_exchanges({&step, 1}, order, tag);
}

// Adds up the pairs of a tree of sums. The total is in the first of `own`, if these are among the
// sums, and the others are 0.
void add_in_tree(std::vector<TensorPart> sums, const std::vector<Leaves>& of, int leaves,
                 const std::vector<TensorPart>& own, TaskTag tag) {
  add_pairs(of, leaves, [&](std::size_t left, std::size_t right) {
    if (sums[right].tensor == own.front().tensor) std::swap(sums[left], sums[right]);
    const bool clear = std::ranges::count(own, sums[right].tensor, &TensorPart::tensor) > 0;
    add(sums[left], sums[right], clear, tag);
  });
}

// Adds up the values one after another, as groups of one process do. The total is in `own`, which
// is among them.
void add_in_turn(const std::vector<TensorPart>& values, TensorPart own, TaskTag tag) {
  const auto place = std::ranges::find(values, own.tensor, &TensorPart::tensor);
  for (auto each = values.begin(); each != place; ++each)
    if (each != values.begin()) add(values.front(), *each, false, tag);
  if (place != values.begin()) add(own, values.front(), false, tag);
  for (auto each = place + 1; each < values.end(); ++each) add(own, *each, false, tag);
}

// Returns the sums of its slices' gradients that a rank has after its backward pass.
std::vector<const Tensor*> gradient_sums(const Param& own) {
  if (own.sums.leaves == 0) return {own.diff};
  std::vector<const Tensor*> sums;
  for (const Leaves& of : sums_of(own.sums.own, own.sums.leaves))
    sums.push_back(own.partial_sum(of.first - own.sums.own.first));
  return sums;
}

// Returns by group the number of leaves in the tree of its slices' gradients; nothing if the order
// of the sums may depend on the ranks.
std::vector<int> leaves_by_group(const ComputeGroups& groups) {
  std::vector<int> leaves;
  for (int group = 0; groups.net().slices().as_one_rank && group < groups.count(); ++group) {
    const auto own = groups.is_here(group) ? groups.net(group).slices().all_sizes.size() : 1;
    const double slices = -ranks::least(-static_cast<double>(own));
    leaves.push_back(std::min(static_cast<int>(slices), kMostLeaves));
  }
  return leaves;
}

}  // namespace

// The largest pieces are assigned first, each to the rank that owns the fewest values so far.
RankSums::RankSums(ComputeGroups& groups, const Coding& coding)
    : groups_(groups),
      coding_(coding),
      params_(groups.net().params()),
      meets_(std::ranges::any_of(params_, [](const Param* each) { return each->change; })),
      by_group_(groups.count() > 1 && !meets_),
      sets_(by_group_ ? groups.count()
            : meets_  ? 2
                      : 1),
      leaves_(leaves_by_group(groups)),
      owned_(ranks::size()),
      stepped_(owned_) {
  struct Place {
    std::size_t count, param, piece;
  };
  std::vector<Place> places;
  int number = 0;
  std::size_t shared = 0;
  for (const Param* param : params_)
    if (is_shared(*param)) shared += param->master->count();
  for (std::size_t i = 0; i < params_.size(); ++i) {
    const Param& param = *params_[i];
    std::vector<Piece>& pieces = params_of_ranks_.emplace_back().pieces;
    for (std::size_t part = 0; param.trainable && part < param.master->parts(); ++part) {
      const std::size_t all = param.master->count_of(part);
      const std::size_t width = is_shared(param) ? piece_values(all, shared, ranks::size()) : all;
      for (std::size_t first = 0; first < all; first += width) {
        const std::size_t count = std::min(width, all - first);
        if (is_shared(param)) places.push_back({count, i, pieces.size()});
        pieces.push_back({.values = {*param.master, part, first, count},
                          .owner = param.rank_of(part),
                          .number = number++});
      }
    }
  }
  std::ranges::stable_sort(places, std::ranges::greater(), &Place::count);
  for (const Place& place : places) {
    const Param& param = *params_[place.param];
    Piece& piece = params_of_ranks_[place.param].pieces[place.piece];
    deal(piece, param, place.param == groups.watched() && place.piece == 0);
    for (std::size_t set = 0; set < piece.sets.size(); ++set) {
      Senders& from = piece.sets[set];
      declare_coded(fmt::format("{}.{}", param.name, place.piece), piece, set, from);
      if (from.owner != ranks::rank()) continue;
      const auto declare = [&](const char* what, int rank) {
        return &incoming_.declare(
            fmt::format("{}.{}.{}{}.{}", param.name, place.piece, what, set, rank), place.count);
      };
      for (Addend& each : from.addends)
        if (each.rank != from.owner) each.incoming = declare("of", each.rank);
      if (!from.has(from.owner)) from.fresh = declare("for", from.ranks.front());
    }
  }
  crossing_tag_ = ranks::kFirstTag + number * static_cast<int>(sets_) * 2;
  of_guests_.resize(groups.count());
  for (int group = 0; group < groups.count(); ++group)
    while (groups.guest(group) && of_guests_[group].size() < 2) {
      BatchSlot& slot = of_guests_[group].emplace_back();
      for (const int images : groups.guest(group)->slices().sizes) {
        slot.labels.push_back(
            &incoming_.declare(fmt::format("group{}.labels", group), images, DataType::i32));
        slot.metrics.push_back(&incoming_.declare(fmt::format("group{}.metrics", group), kMetrics));
      }
    }
}

Status RankSums::allocate() {
  const std::size_t crossing = of_guests_.size() * groups_.net().slices().all_sizes.size() * 3;
  if (crossing_tag_ + crossing > kFirstLayerTag)
    return Error{ErrorKind::usage, "--groups",
                 "so many groups, parameters and slices have too many messages between ranks",
                 "take fewer groups, or larger slices"};
  return incoming_.allocate();
}

// Chooses the ranks that own a piece and send its gradients. The owner of the watched piece
// measures staleness. The first rank reports staleness, so it owns that piece if several groups
// share one model.
void RankSums::deal(Piece& piece, const Param& param, bool watched) {
  const auto deal_to = [count = piece.values.count()](const std::vector<int>& ranks,
                                                      std::vector<std::size_t>& dealt) {
    const int rank = *std::ranges::min_element(ranks, {}, [&](int each) { return dealt[each]; });
    dealt[rank] += count;
    return rank;
  };
  if (!meets_) {
    piece.owner = deal_to(watched && by_group_ ? std::vector{0} : listed(all_ranks()), owned_);
    for (int group = 0; group < static_cast<int>(sets_); ++group)
      piece.sets.push_back(senders(param, piece.owner, group));
    return;
  }
  // For meetings, one rank of each group steps the piece and contributes it.
  Senders meeting;
  std::optional<Senders> steps;
  for (int group = 0; group < groups_.count(); ++group) {
    const int owner = deal_to(listed(members(group)), stepped_);
    if (!meeting.has(owner)) meeting.ranks.push_back(owner);
    if (members(group).count > 1 && members(group).has(ranks::rank()))
      steps = senders(param, owner, group);
  }
  piece.owner = meeting.owner = deal_to(meeting.ranks, owned_);
  piece.first_is_guest = !meeting.has(0);
  if (piece.first_is_guest) meeting.ranks.insert(meeting.ranks.begin(), 0);
  for (const int rank : meeting.ranks) meeting.addends.push_back({rank});
  piece.sets.push_back(std::move(meeting));
  if (steps) piece.sets.push_back(*std::move(steps));
}

RankRange RankSums::members(int group) const {
  return groups_.on_several_ranks() ? groups_.ranks_of(group) : all_ranks();
}

RankSums::Senders RankSums::senders(const Param& param, int owner, int group) const {
  const RankRange all = members(group);
  if (groups_.on_several_ranks() && param.whole_on_each_rank) {
    const int rank = all.has(owner) ? owner : all.first;
    return {owner, {rank}, {{rank, {0, 1}}}, 1};
  }
  Senders from{owner, listed(all)};
  const bool of_slices = param.by_slice && !leaves_.empty();
  from.leaves = of_slices ? leaves_[group] : all.count;
  for (const int rank : from.ranks)
    for (const Leaves& of :
         sums_of(leaves_of(rank - all.first, all.count, from.leaves, groups_.weights_of(all)),
                 from.leaves))
      from.addends.push_back({rank, of});
  return from;
}

int RankSums::tag_of(const Piece& piece, std::size_t set, bool values) const {
  return ranks::kFirstTag + (piece.number * static_cast<int>(sets_) + static_cast<int>(set)) * 2 +
         (values ? 1 : 0);
}

std::vector<RankSums::Pieces> RankSums::Shared::parts() const {
  std::vector<Pieces> all;
  for (const Piece& piece : pieces)
    if (piece.values.first == 0)
      all.emplace_back(&piece, 1);
    else
      all.back() = {all.back().data(), all.back().size() + 1};
  return all;
}

bool RankSums::is_shared(const Param& param) const {
  return param.trainable && !groups_.net().is_merged(param) && param.parts_per_rank == 0 &&
         (groups_.on_several_ranks() || !param.whole_on_each_rank);
}

int RankSums::counted(std::size_t number, int group, const Param& own) const {
  return is_summed(*params_[number], group)
             ? static_cast<int>(params_of_ranks_[number].pieces.size())
             : own.parts_of(ranks::rank());
}

bool RankSums::take(std::size_t number, int group, const Param& own, const Exchange& step,
                    ExchangeOrder order, TaskTag tag) {
  const Param& param = *params_[number];
  const Shared& shared = params_of_ranks_[number];
  const auto is_here = [](int owner) { return owner == ranks::rank(); };
  if (param.parts_per_rank > 0) {
    for (const Piece& piece : shared.pieces)
      if (is_here(piece.owner)) step_part(step, piece.values, order, tag);
    return true;
  }
  if (!is_summed(param, group)) return false;
  const std::size_t set = by_group_ ? group : meets_ ? 1 : 0;
  const Tensor& model =
      step.tensors.replica != nullptr ? *step.tensors.replica : step.tensors.master;
  const std::vector<const Tensor*> sums = gradient_sums(own);
  for (const Pieces part : shared.parts()) {
    std::vector<Transfer> leaving;
    for (const Piece& piece : part)
      if (!is_here(piece.sets[set].owner))
        for (const Tensor* sum : sums)
          contribute(piece, set, piece.values.of(*sum), step.args.clears || sum != own.diff,
                     leaving, tag);
    submit_transfers(std::move(leaving), tag);
    for (const Piece& piece : part) {
      if (!is_here(piece.sets[set].owner)) continue;
      std::vector<TensorPart> here;
      for (const Tensor* sum : sums) here.push_back(piece.values.of(*sum));
      collect(piece, set, 0, here, tag);
      step_owned(piece, set, step, by_group_ ? order : ExchangeOrder::submission, tag);
    }
    spread(part, set, model, members(group), tag, true, step.args.report);
  }
  return true;
}

void RankSums::serve(std::size_t number, int group, ExchangeArgs args, ExchangeOrder order,
                     TaskTag tag) {
  const Param& param = *params_[number];
  args.clears = false;
  if (!by_group_ || !is_shared(param)) return;
  for (const Piece& piece : params_of_ranks_[number].pieces) {
    const Senders& from = piece.sets[group];
    if (from.owner != ranks::rank()) continue;
    const Tensor &gradient = *from.addends.front().incoming, &fresh = *from.fresh;
    collect(piece, group, 0, {gradient}, tag);
    step_part({args, {*param.master, gradient, *param.velocity, &fresh, param.mean_square}},
              piece.values, order, tag);
    if (from.coded)
      submit_encode_change(coding_, fresh, *from.coded->known, *from.coded->change, tag);
    submit_transfers({{Transfer::Kind::send, from.coded ? *from.coded->change : fresh,
                       others(groups_.ranks_of(group)), tag_of(piece, group, true)}},
                     tag);
  }
}

void RankSums::for_each_contributed(
    std::size_t number, const std::function<void(TensorPart, const Tensor*)>& use) const {
  for (const Piece& piece : params_of_ranks_[number].pieces) {
    const Senders* const steps = piece.sets.size() < 2 ? nullptr : &piece.sets.back();
    if (steps == nullptr || steps->owner == ranks::rank())
      use(piece.values, steps != nullptr && steps->coded ? steps->coded->exact : nullptr);
  }
}

void RankSums::meet(std::size_t number, const MovePart& move, TaskTag tag) {
  const Param& param = *params_[number];
  Shared& shared = params_of_ranks_[number];
  const auto skips_first = [&](const Piece& piece) {
    return !shared.first_has_all && piece.first_is_guest;
  };
  for (const Pieces part : shared.parts()) {
    std::vector<Transfer> leaving;
    for (const Piece& piece : part)
      if (piece.owner != ranks::rank() && piece.sets.front().has(ranks::rank()) &&
          !(skips_first(piece) && ranks::first()))
        contribute(piece, 0, piece.values.of(*param.change), true, leaving, tag);
    submit_transfers(std::move(leaving), tag);
    for (const Piece& piece : part) {
      if (piece.owner != ranks::rank()) continue;
      collect(piece, 0, skips_first(piece) ? 1 : 0, {piece.values.of(*param.change)}, tag);
      const auto& coded = piece.sets.front().coded;
      move(coded ? *coded->exact : *param.master, piece.values);
    }
    spread(part, 0, *param.master, all_ranks(), tag, true);
  }
  shared.first_has_all = false;
}

void RankSums::step_owned(const Piece& piece, std::size_t set, const Exchange& step,
                          ExchangeOrder order, TaskTag tag) const {
  const auto& coded = piece.sets[set].coded;
  if (!coded) return step_part(step, piece.values, order, tag);
  // With one model for several groups, the master copy is exact. It may change again before its
  // difference is coded, so the step writes a copy of it.
  const auto& [master, diff, velocity, replica, mean_square, centre, change] = step.tensors;
  step_part({step.args,
             {by_group_ ? master : *coded->exact, diff, velocity,
              by_group_ ? coded->exact : replica, mean_square, centre, change}},
            piece.values, order, tag);
}

// The sums of one rank have one tag, so both ranks post them together and in the same order. With
// coded messages each rank has one sum.
void RankSums::collect(const Piece& piece, std::size_t set, std::size_t first,
                       const std::vector<TensorPart>& own, TaskTag tag) const {
  const Senders& from = piece.sets[set];
  std::vector<TensorPart> sums;
  std::vector<Leaves> of;
  std::vector<Transfer> arriving;
  auto here = own.begin();
  for (std::size_t i = first; i < from.addends.size(); ++i) {
    const Addend& each = from.addends[i];
    sums.push_back(each.incoming != nullptr ? TensorPart(*each.incoming) : *here++);
    of.push_back(each.of);
    const Tensor* const coded = from.coded ? from.coded->incoming[i] : nullptr;
    const Tensor* const message = coded != nullptr ? coded : each.incoming;
    if (message != nullptr)
      arriving.push_back(
          {Transfer::Kind::receive, *message, {each.rank}, tag_of(piece, set, false)});
    if (i + 1 < from.addends.size() && from.addends[i + 1].rank == each.rank) continue;
    submit_transfers(std::exchange(arriving, {}), tag);
    if (coded != nullptr) submit_decode(coding_, *coded, *each.incoming, false, tag);
  }
  set == 0 && meets_ ? add_in_turn(sums, own.front(), tag)
                     : add_in_tree(std::move(sums), of, from.leaves, own, tag);
}

void RankSums::spread(Pieces part, std::size_t set, const Tensor& values, RankRange among,
                      TaskTag tag, bool codes, UpdateReport* report) const {
  std::vector<Transfer> transfers;
  int arriving = 0;
  const std::vector<int> peers = others(among);
  // The tasks of one part run one after another, so the pieces of this rank come first. Otherwise
  // their messages would wait for those of other ranks.
  for (const bool owns : {true, false})
    for (const Piece& piece : part) {
      const Senders* const from = piece.sets.empty() ? nullptr : &piece.sets[set];
      const int owner = from == nullptr ? piece.owner : from->owner;
      if ((owner == ranks::rank()) != owns) continue;
      const TensorPart own = piece.values.of(values);
      const int its_tag = tag_of(piece, set, true);
      if (codes && from != nullptr && from->coded) {
        spread_change(*from, own, peers, its_tag, tag, report);
      } else if (!owns) {
        transfers.push_back({Transfer::Kind::receive, own, {owner}, its_tag});
        ++arriving;
      } else if (!peers.empty()) {
        transfers.push_back({Transfer::Kind::send, own, peers, its_tag});
      }
    }
  submit_transfers(std::move(transfers), tag, [report, arriving] {
    for (int i = 0; report != nullptr && i < arriving; ++i) report->count_down();
  });
}

}  // namespace omni
