#include "perf/analysis/bounds.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "perf/analysis/critical_path.hpp"
#include "perf/common/statistics.hpp"
#include "perf/common/task_class.hpp"

namespace omni::perf {
namespace {

constexpr std::size_t kMaxAscended = 8;  // kinds whose weights are improved
constexpr int kMaxRounds = 50;

struct OnKind {
  std::uint32_t kind = 0;
  double count = 0, seconds = 0;
  double mean() const { return seconds / count; }
};

// A Class has the tasks of one codelet, layer and cost.
struct Class {
  double count = 0;
  std::vector<OnKind> on;  // the kinds that ran tasks of the class

  OnKind& at(std::uint32_t kind) {
    for (OnKind& known : on)
      if (known.kind == kind) return known;
    return on.emplace_back(OnKind{.kind = kind});
  }
};

struct ClassKey {
  std::uint32_t codelet;
  std::int32_t layer;
  double flops, bytes;
  auto operator<=>(const ClassKey&) const = default;
};

std::vector<Class> classes_of(const Trace& trace, const KindIndex& kinds) {
  std::map<ClassKey, std::size_t> places;
  std::vector<Class> classes;
  for (const Task& task : trace.tasks) {
    const ClassKey key{task.codelet, task.layer, task.flops, task.bytes};
    const auto [place, is_new] = places.emplace(key, classes.size());
    if (is_new) classes.emplace_back();
    Class& found = classes[place->second];
    found.count += 1;
    OnKind& on = found.at(kinds.of(task));
    on.count += 1;
    on.seconds += task.seconds();
  }
  return classes;
}

double value_of(const std::vector<Class>& classes, const std::vector<KindArea>& kinds) {
  double value = 0;
  for (const Class& tasks : classes) {
    double least = kNever;
    for (const OnKind& on : tasks.on) least = std::min(least, kinds[on.kind].weight * on.mean());
    value += tasks.count * least;
  }
  return value;
}

using Kinds = std::vector<std::size_t>;

// Returns the weights of the kinds in `group`, whose sum over workers is `mass`, scaled to the
// sum 1.
std::vector<double> direction(const std::vector<KindArea>& kinds, const Kinds& group, double mass) {
  std::vector<double> weights(kinds.size(), 0.0);
  double workers = 0;
  for (const std::size_t kind : group) workers += static_cast<double>(kinds[kind].workers);
  for (const std::size_t kind : group)
    weights[kind] = mass > 0 ? kinds[kind].weight / mass : 1 / workers;
  return weights;
}

double mass_of(const std::vector<KindArea>& kinds, const Kinds& group) {
  double mass = 0;
  for (const std::size_t kind : group)
    mass += kinds[kind].weight * static_cast<double>(kinds[kind].workers);
  return mass;
}

// Divides the weight of two groups of kinds optimally between them; other kinds keep theirs. With
// the share s for the first group, a class contributes min(a s, b (1 - s), rest). A sum of such
// functions rises, then falls. Its maximum is where the slope changes its sign.
void balance(const std::vector<Class>& classes, std::vector<KindArea>& kinds, const Kinds& first,
             const Kinds& second) {
  const double mass_first = mass_of(kinds, first), mass_second = mass_of(kinds, second);
  const double mass = mass_first + mass_second;
  if (mass <= 0) return;
  const std::vector<double> to_first = direction(kinds, first, mass_first);
  const std::vector<double> to_second = direction(kinds, second, mass_second);
  enum Side { kFirst, kSecond, kRest };
  std::vector<Side> side(kinds.size(), kRest);
  for (const std::size_t kind : first) side[kind] = kFirst;
  for (const std::size_t kind : second) side[kind] = kSecond;

  double slope = 0;
  std::vector<std::pair<double, double>> turns;  // at the first, the slope changes by the second
  for (const Class& tasks : classes) {
    double a = kNever, b = kNever, rest = kNever;
    for (const OnKind& on : tasks.on) {
      if (side[on.kind] == kFirst) a = std::min(a, to_first[on.kind] * mass * on.mean());
      if (side[on.kind] == kSecond) b = std::min(b, to_second[on.kind] * mass * on.mean());
      if (side[on.kind] == kRest) rest = std::min(rest, kinds[on.kind].weight * on.mean());
    }
    // Up to rise_ends `a s` is the least of the three; from fall_begins on, `b (1 - s)` is.
    double rise_ends = std::isinf(a) ? 0 : std::isinf(rest) ? 1 : std::min(1.0, rest / a);
    double fall_begins = std::isinf(b) ? 1 : std::isinf(rest) ? 0 : std::max(0.0, 1 - rest / b);
    if (!std::isinf(a) && !std::isinf(b) && a + b > 0 && rise_ends > fall_begins)
      rise_ends = fall_begins = b / (a + b);
    if (!std::isinf(a)) {
      slope += tasks.count * a;
      turns.emplace_back(rise_ends, -tasks.count * a);
    }
    if (!std::isinf(b)) turns.emplace_back(fall_begins, -tasks.count * b);
  }
  std::ranges::sort(turns);
  double best = 1;
  for (const auto& [s, change] : turns) {
    slope += change;
    if (slope > 0) continue;
    best = s;
    break;
  }
  for (const std::size_t kind : first) kinds[kind].weight = best * mass * to_first[kind];
  for (const std::size_t kind : second) kinds[kind].weight = (1 - best) * mass * to_second[kind];
}

// Improves the division between every two kinds, and between every kind and all others. The latter
// is needed because a class that runs on several kinds may gain nothing from a change of one kind
// alone.
void ascend(const std::vector<Class>& classes, std::vector<KindArea>& kinds, const Kinds& order) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::size_t j = i + 1; j < order.size(); ++j)
      balance(classes, kinds, {order[i]}, {order[j]});
    Kinds others = order;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    if (order.size() > 2) balance(classes, kinds, {order[i]}, others);
  }
}

double area_bound(const std::vector<Class>& classes, std::vector<KindArea>& kinds) {
  std::size_t all = 0;
  for (const KindArea& kind : kinds) all += kind.workers;
  for (KindArea& kind : kinds) kind.weight = 1 / static_cast<double>(all);
  std::vector<std::size_t> order(kinds.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(
      order, [&](std::size_t a, std::size_t b) { return kinds[a].compute > kinds[b].compute; });
  order.resize(std::min(order.size(), kMaxAscended));

  double best = value_of(classes, kinds);
  std::vector<KindArea> best_kinds = kinds;
  const int rounds = kinds.size() < 2 ? 0 : kinds.size() == 2 ? 1 : kMaxRounds;
  for (int round = 0; round < rounds; ++round) {
    ascend(classes, kinds, order);
    const double value = value_of(classes, kinds);
    const bool better = value > best * (1 + 1e-9);
    if (value > best) {
      best = value;
      best_kinds = kinds;
    }
    if (!better) break;
  }
  kinds = best_kinds;
  return best;
}

}  // namespace

Bounds analyse_bounds(const Trace& trace, const Dependencies& dependencies) {
  Bounds bounds;
  bounds.wall = trace.wall_seconds();
  for (const std::uint32_t task : longest_path(trace, dependencies))
    bounds.critical_path += trace.tasks[task].seconds();

  const KindIndex index(trace);
  for (const std::string& name : index.names()) bounds.kinds.push_back({.kind = name});
  for (std::size_t worker = 0; worker < trace.workers.size(); ++worker)
    ++bounds.kinds[index.of_worker(worker)].workers;
  const std::vector<Class> classes = classes_of(trace, index);
  bounds.classes = classes.size();
  for (const Class& tasks : classes) {
    for (const OnKind& on : tasks.on) bounds.kinds[on.kind].compute += on.seconds;
    if (index.names().size() > 1 && tasks.on.size() == 1) ++bounds.classes_on_one_kind;
  }
  bounds.area = area_bound(classes, bounds.kinds);
  return bounds;
}

}  // namespace omni::perf
