// Dependencies tell for which tasks a task had to wait. The trace does not have them. They follow
// from the accesses to data, because StarPU orders tasks by these, in submission order.
//
// Many tasks may wait for the same many tasks: all readers of a sum wait for all tasks that added
// to it. So a large set of tasks is kept once, as a join. A task waited for its direct tasks and
// for the members of its joins. All this needs memory in proportion to the number of accesses.
#pragma once

#include <vector>

#include "perf/trace/trace.hpp"

namespace omni::perf {

// Lists has lists of numbers, in one piece of memory.
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

// Tasks are given as indices into Trace::tasks. A task waited only for tasks with lower indices.
class Dependencies {
 public:
  explicit Dependencies(const Trace& trace);

  std::span<const std::uint32_t> direct(std::size_t task) const { return direct_[task]; }
  std::span<const std::uint32_t> joins(std::size_t task) const { return joins_[task]; }
  std::size_t join_count() const { return members_.size(); }
  std::span<const std::uint32_t> members(std::size_t join) const { return members_[join]; }
  std::span<const std::uint32_t> joins_with(std::size_t task) const { return joins_with_[task]; }

  // Returns the tasks that the task waited for, each once, in ascending order, to be shown. If a
  // join has more than kShown members and more than kShown tasks wait for it, only the member is
  // there that was released last.
  std::vector<std::uint32_t> of(std::size_t task) const;
  static constexpr std::size_t kShown = 64;

 private:
  Lists direct_, joins_, members_, joins_with_;
  std::vector<std::uint32_t> waiting_, latest_;  // by join: how many tasks wait; its latest member
};

}  // namespace omni::perf
