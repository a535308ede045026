// Which tasks a task had to wait for. Not recorded but derived: StarPU orders tasks by their
// accesses to data, in submission order.
//
// When many tasks wait for the same many (all readers of a sum wait for all who added to it), the
// pairs would be their product. So a large set is kept once, as a join: the joins of a task and its
// direct ones together are what it waited for, and all of it is linear in the number of accesses.
#pragma once

#include <vector>

#include "perf/trace/trace.hpp"

namespace omni::perf {

// Lists of numbers, one after the other.
class Lists {
 public:
  std::span<const std::uint32_t> operator[](std::size_t list) const {
    return std::span(numbers_).subspan(first_[list], first_[list + 1] - first_[list]);
  }
  std::size_t size() const { return first_.size() - 1; }
  void add(std::span<const std::uint32_t> list) {
    numbers_.insert(numbers_.end(), list.begin(), list.end());
    first_.push_back(numbers_.size());
  }

 private:
  std::vector<std::size_t> first_{0};
  std::vector<std::uint32_t> numbers_;
};

// Tasks are indices into Trace::tasks. Those that a task waited for are smaller than it.
class Dependencies {
 public:
  explicit Dependencies(const Trace& trace);

  std::span<const std::uint32_t> direct(std::size_t task) const { return direct_[task]; }
  std::span<const std::uint32_t> joins(std::size_t task) const { return joins_[task]; }
  std::size_t join_count() const { return members_.size(); }
  std::span<const std::uint32_t> members(std::size_t join) const { return members_[join]; }
  std::span<const std::uint32_t> joins_with(std::size_t task) const { return joins_with_[task]; }

  // To be shown, each once, ascending: all that the task waited for; but of a join of more than
  // kShown members that more than kShown tasks wait for only the member that was released last.
  std::vector<std::uint32_t> of(std::size_t task) const;
  static constexpr std::size_t kShown = 64;

 private:
  Lists direct_, joins_, members_, joins_with_;
  std::vector<std::uint32_t> waiting_, latest_;  // of a join: how many tasks; its latest member
};

}  // namespace omni::perf
