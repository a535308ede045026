#include "perf/trace/dependencies.hpp"

#include <algorithm>
#include <utility>

namespace omni::perf {
namespace {

using trace::AccessMode;

constexpr std::size_t kDirect = 16;  // larger sets of tasks become joins, not direct edges
constexpr std::uint32_t kNone = ~std::uint32_t{0};

void keep_one_each(auto& list) {
  std::ranges::sort(list);
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

// A Group is a set of tasks. It is complete when a task first waits for it.
struct Group {
  std::vector<std::uint32_t> tasks;  // ascending
  std::uint32_t join = kNone;
};

// A History has the last tasks that accessed a piece of data.
struct History {
  Group before;   // the tasks that the present writers waited for
  Group writers;  // the last writer, or several that commute
  Group readers;  // the readers since then
  bool commuting = false;

  // The next task waits for these, unless it may run together with them.
  Group& last() { return readers.tasks.empty() ? writers : readers; }
};

class Builder {
 public:
  explicit Builder(Lists& members) : members_(members) {}

  // Collects in `direct` and `joins` what `task` waits for.
  void collect(std::uint32_t task, std::span<const trace::Access> accesses,
               std::vector<History>& histories) {
    task_ = task;
    direct.clear();
    joins.clear();
    accesses_.assign(accesses.begin(), accesses.end());
    keep_one_each(accesses_);
    for (const trace::Access& access : accesses_) touch(histories[access.data], access.mode);
    keep_one_each(direct);
    keep_one_each(joins);
  }

  std::vector<std::uint32_t> direct, joins;

 private:
  void touch(History& data, AccessMode mode) {
    if (mode == AccessMode::read) {
      wait_for(data.writers);
      data.readers.tasks.push_back(task_);
      return;
    }
    if (mode == AccessMode::add && data.commuting && data.readers.tasks.empty()) {
      wait_for(data.before);
      data.writers.tasks.push_back(task_);
      return;
    }
    wait_for(data.last());
    data.before = std::exchange(data.last(), Group{});
    data.writers = {.tasks = {task_}};
    data.readers = {};
    data.commuting = mode == AccessMode::add;
  }

  void wait_for(Group& group) {
    std::span<const std::uint32_t> tasks = group.tasks;
    // A task that accesses the same data in two ways does not wait for itself.
    const bool own = !tasks.empty() && tasks.back() == task_;
    if (own) tasks = tasks.first(tasks.size() - 1);
    if (tasks.size() <= kDirect) {
      direct.insert(direct.end(), tasks.begin(), tasks.end());
      return;
    }
    std::uint32_t join = own ? kNone : group.join;
    if (join == kNone) {
      join = static_cast<std::uint32_t>(members_.size());
      members_.add(tasks);
    }
    if (!own) group.join = join;
    joins.push_back(join);
  }

  Lists& members_;
  std::uint32_t task_ = 0;
  std::vector<trace::Access> accesses_;
};

}  // namespace

Dependencies::Dependencies(const Trace& trace) {
  std::vector<History> histories(trace.data.size());
  Builder builder(members_);
  for (std::uint32_t task = 0; task < trace.tasks.size(); ++task) {
    builder.collect(task, trace.accesses_of(trace.tasks[task]), histories);
    direct_.add(builder.direct);
    joins_.add(builder.joins);
    waiting_.resize(members_.size());
    for (const std::uint32_t join : builder.joins) ++waiting_[join];
  }
  std::vector<std::pair<std::uint32_t, std::uint32_t>> memberships;  // task, join
  for (std::uint32_t join = 0; join < members_.size(); ++join) {
    std::uint32_t latest = members_[join][0];
    for (const std::uint32_t task : members_[join]) {
      memberships.emplace_back(task, join);
      if (trace.tasks[task].times.released >= trace.tasks[latest].times.released) latest = task;
    }
    latest_.push_back(latest);
  }
  std::ranges::sort(memberships);
  auto next = memberships.begin();
  std::vector<std::uint32_t> with;
  for (std::uint32_t task = 0; task < trace.tasks.size(); ++task) {
    with.clear();
    for (; next != memberships.end() && next->first == task; ++next) with.push_back(next->second);
    joins_with_.add(with);
  }
}

std::vector<std::uint32_t> Dependencies::of(std::size_t task) const {
  std::vector<std::uint32_t> tasks(direct_[task].begin(), direct_[task].end());
  for (const std::uint32_t join : joins_[task]) {
    const auto members = members_[join];
    if (members.size() > kShown && waiting_[join] > kShown)
      tasks.push_back(latest_[join]);
    else
      tasks.insert(tasks.end(), members.begin(), members.end());
  }
  keep_one_each(tasks);
  return tasks;
}

}  // namespace omni::perf
