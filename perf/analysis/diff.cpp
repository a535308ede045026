#include "perf/analysis/diff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>

#include "perf/analysis/comparable.hpp"
#include "perf/analysis/iterations.hpp"
#include "perf/analysis/kernels.hpp"
#include "perf/common/statistics.hpp"
#include "perf/common/task_class.hpp"
#include "runtime/shown_name.hpp"

namespace omni::perf {
namespace {

constexpr double kStandardErrors = 3;
constexpr std::size_t kFewest = 5;  // fewer values have no meaningful median

struct Sample {
  std::int64_t iteration = 0;
  double seconds = 0;
  double images = 1;  // by which the time is divided

  double each() const { return seconds / images; }
};

struct Measured {
  double median = 0, lower = 0;                // s; lower: a third of the values is below
  double lowest = 0, middle = 0, highest = 0;  // s, of the medians of the fifths of the run
  double error = 0;                            // standard error of the median, s
  bool per_image = false;
  double total = 0;  // s, never per image
  std::size_t count = 0;
};

double median_within(const std::vector<Sample>& values, std::size_t first, std::size_t last) {
  std::vector<double> seconds;
  for (std::size_t i = first; i < last; ++i) seconds.push_back(values[i].each());
  return spread_of(std::move(seconds)).median;
}

// Returns the standard error of the median, estimated from medians of iterations; 0 if there are
// few.
double error_between_iterations(const std::vector<Sample>& values) {
  std::vector<double> medians;
  for (std::size_t i = 0, first = 0; i < values.size(); ++i) {
    if (i + 1 < values.size() && values[i + 1].iteration == values[i].iteration) continue;
    medians.push_back(median_within(values, first, i + 1));
    first = i + 1;
  }
  return medians.size() >= kFewest ? spread_of(std::move(medians)).standard_error() : 0;
}

Measured measure(std::vector<Sample> values) {
  std::ranges::stable_sort(values, {}, &Sample::iteration);
  std::vector<double> seconds;
  double total = 0;
  for (const Sample& value : values) seconds.push_back(value.each()), total += value.seconds;
  const Spread spread = spread_of(seconds);
  Measured result{.median = spread.median,
                  .lower = spread.median,
                  .lowest = spread.median,
                  .middle = spread.median,
                  .highest = spread.median,
                  .error = std::max(spread.standard_error(), error_between_iterations(values)),
                  .total = total,
                  .count = spread.count};
  if (values.size() < kFewest) return result;
  const auto third = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 3);
  std::nth_element(seconds.begin(), third, seconds.end());
  result.lower = *third;
  std::array<double, 5> fifths;
  for (std::size_t i = 0; i < 5; ++i)
    fifths[i] = median_within(values, i * values.size() / 5, (i + 1) * values.size() / 5);
  std::ranges::sort(fifths);
  result.lowest = fifths[0];
  result.middle = fifths[2];
  result.highest = fifths[4];
  return result;
}

// A Run has the measured values of a run.
struct Run {
  double compute = 0;  // s
  std::map<DiffKey, Measured> times;
  std::map<std::string, std::map<std::string, double>> tasks;  // by codelet and kind of worker
  std::map<std::string, double> share;                         // of compute time, by codelet
};

class Measurement {
 public:
  Measurement(const Trace& trace, std::size_t skip)
      : trace_(trace),
        kinds_(trace),
        counted_from_(first_counted(trace, skip)),
        images_(trace, counted_from_) {
    for (const Task& task : trace.tasks)
      if (counts(task))
        values_[kinds_.class_of(task)].push_back(
            {task.iteration, task.seconds(), images_.of(task)});
  }

  const ImagesOfTasks& images() const { return images_; }

  // Times of kernels, and of mini-batches, are per image if slices, or mini-batches, of the runs
  // differ in size.
  Run run(std::size_t skip, bool kernels_per_image, bool batches_per_image) const {
    Run result;
    for (const auto& [which, values] : values_) {
      const std::string& codelet = trace_.codelets[which.codelet].name;
      double seconds = 0;
      for (const Sample& value : values) seconds += value.seconds;
      result.tasks[codelet][kinds_.names()[which.kind]] += static_cast<double>(values.size());
      result.share[codelet] += seconds;
      result.compute += seconds;
    }
    for (auto& [codelet, share] : result.share) share = ratio(share, result.compute);
    measure_kernels(result, kernels_per_image);
    measure_codelets(result, batches_per_image);
    measure_iterations(result, skip, batches_per_image);
    return result;
  }

 private:
  bool counts(const Task& task) const {
    return task.iteration < 0 || task.iteration >= counted_from_;
  }

  // With `per_image`, values are divided by their numbers of images, if all of these are known.
  static Measured measured(std::vector<Sample> values, bool per_image) {
    per_image = per_image && std::ranges::all_of(
                                 values, [](double images) { return images > 0; }, &Sample::images);
    if (!per_image)
      for (Sample& value : values) value.images = 1;
    Measured result = measure(std::move(values));
    result.per_image = per_image;
    return result;
  }

  void measure_iterations(Run& run, std::size_t skip, bool per_image) const {
    const std::vector<IterationTime> times = analyse_iterations(trace_, skip).times;
    std::vector<Sample> values;
    for (std::size_t i = times.size() > skip ? skip : 0; i < times.size(); ++i)
      values.push_back({static_cast<std::int64_t>(i), times[i].seconds, images_.batch()});
    Measured found = measured(std::move(values), per_image);
    found.total = std::numeric_limits<double>::infinity();  // gives the row the weight 1
    run.times[{"iteration", "", "", "", ""}] = found;
  }

  void measure_kernels(Run& run, bool per_image) const {
    std::map<DiffKey, std::vector<Sample>> all;  // of all implementations
    for (const auto& [which, values] : values_) {
      if (which.layer < 0)
        continue;  // tasks of no layer may differ in size, so medians mean nothing
      const trace::Codelet& codelet = trace_.codelets[which.codelet];
      DiffKey key{"kernel", codelet.name, "", kinds_.names()[which.kind],
                  layer_name(trace_, which.layer)};
      std::vector<Sample>& whole = all[key];
      whole.insert(whole.end(), values.begin(), values.end());
      key.implementation = codelet.implementations[which.implementation];
      run.times[key] = measured(values, per_image);
    }
    for (auto& [key, values] : all) run.times[key] = measured(std::move(values), per_image);
  }

  void measure_codelets(Run& run, bool per_image) const {
    std::vector<std::unordered_map<std::int64_t, double>> seconds(trace_.codelets.size());
    for (const Task& task : trace_.tasks)
      if (counts(task) && task.iteration >= 0)
        seconds[task.codelet][task.iteration] += task.seconds();
    for (std::size_t codelet = 0; codelet < seconds.size(); ++codelet) {
      std::vector<Sample> values;
      for (const auto& [iteration, sum] : seconds[codelet])
        values.push_back({iteration, sum, images_.batch()});
      if (!values.empty())
        run.times[{"codelet", trace_.codelets[codelet].name, "", "", ""}] =
            measured(std::move(values), per_image);
    }
  }

  const Trace& trace_;
  KindIndex kinds_;
  std::int64_t counted_from_;
  ImagesOfTasks images_;
  std::unordered_map<TaskClass, std::vector<Sample>, TaskClassHash> values_;
};

Verdict verdict_of(const DiffOptions& options, const Measured& before, const Measured& after,
                   double share_before, const DiffRow& row) {
  const bool slower = after.median > before.median;
  const Measured &less = slower ? before : after, &more = slower ? after : before;
  const double lower = before.lower > 0 ? after.lower / before.lower - 1 : 0;
  // A time differs only if it does for most of the run, not if the run was disturbed for a while.
  const double margin = 1 + options.threshold;
  const bool apart = more.lowest > less.highest || more.middle > margin * less.highest ||
                     more.lowest > margin * less.middle;
  const bool differs = std::min(before.count, after.count) >= kFewest &&
                       std::abs(row.change) > std::max(options.threshold, row.noise) &&
                       (slower ? lower : -lower) > options.threshold && apart &&
                       std::abs(row.change) * share_before >= options.matters;
  if (!differs) return Verdict::same;
  return slower ? Verdict::slower : Verdict::faster;
}

void compare_times(const Run& before, const Run& after, Diff& diff) {
  for (const auto& [key, a] : before.times) {
    const auto found = after.times.find(key);
    if (found == after.times.end()) continue;  // add_missing() adds such rows
    const Measured& b = found->second;
    if (a.per_image != b.per_image) continue;  // in one run no task has a slice
    DiffRow row{key, a.median, b.median, a.count, b.count};
    row.per_image = a.per_image && b.per_image;
    const bool whole = std::isinf(a.total);
    const double share_before = whole ? 1 : ratio(a.total, before.compute);
    row.weight = whole ? 1 : std::max(share_before, ratio(b.total, after.compute));
    if (a.median > 0) {
      row.change = b.median / a.median - 1;
      row.noise = kStandardErrors * std::hypot(a.error, b.error) / a.median;
    }
    row.verdict = verdict_of(diff.options, a, b, share_before, row);
    diff.rows.push_back(std::move(row));
  }
}

double value_or_zero(const auto& map, const std::string& key) {
  const auto found = map.find(key);
  return found == map.end() ? 0 : found->second;
}

// Adds rows for codelets that only one run has. Kernels that only one run has need no rows: if both
// have the codelet, the codelet's time or placement changes.
void add_missing(const Run& has, const Run& lacks, Verdict verdict, Diff& diff) {
  for (const auto& [codelet, kinds] : has.tasks) {
    if (lacks.tasks.contains(codelet)) continue;
    DiffRow row{{.what = "codelet", .codelet = codelet}};
    row.weight = value_or_zero(has.share, codelet);
    const auto measured = has.times.find({"codelet", codelet, "", "", ""});
    const Measured found = measured == has.times.end() ? Measured{} : measured->second;
    (verdict == Verdict::only_before ? row.before : row.after) = found.median;
    (verdict == Verdict::only_before ? row.count_before : row.count_after) = found.count;
    if (row.weight >= diff.options.matters) row.verdict = verdict;
    diff.rows.push_back(std::move(row));
  }
}

void compare_placement(const Run& before, const Run& after, Diff& diff) {
  for (const auto& [codelet, kinds_before] : before.tasks) {
    const auto found = after.tasks.find(codelet);
    if (found == after.tasks.end()) continue;  // add_missing() adds such rows
    std::set<std::string> kinds;
    double all_before = 0, all_after = 0;
    for (const auto& [kind, count] : kinds_before) kinds.insert(kind), all_before += count;
    for (const auto& [kind, count] : found->second) kinds.insert(kind), all_after += count;
    if (kinds.size() < 2) continue;
    for (const std::string& kind : kinds) {
      const double a = value_or_zero(kinds_before, kind) / all_before;
      const double b = value_or_zero(found->second, kind) / all_after;
      DiffRow row{{.what = "placement", .codelet = codelet, .kind = kind}, a, b};
      row.count_before = static_cast<std::size_t>(all_before);
      row.count_after = static_cast<std::size_t>(all_after);
      row.change = b - a;
      row.noise = kStandardErrors * std::sqrt(a * (1 - a) / all_before + b * (1 - b) / all_after);
      row.weight =
          std::max(value_or_zero(before.share, codelet), value_or_zero(after.share, codelet));
      const bool enough = std::min(row.count_before, row.count_after) >= kFewest;
      if (enough && row.weight >= diff.options.matters &&
          std::abs(row.change) > std::max(diff.options.threshold, row.noise))
        row.verdict = Verdict::moved;
      diff.rows.push_back(std::move(row));
    }
  }
}

// Drops rows by implementation of kernels with a single one, which repeat the kernel's row.
void drop_repeated(std::vector<DiffRow>& rows) {
  std::map<DiffKey, std::size_t> whole;
  for (const DiffRow& row : rows)
    if (row.what == "kernel" && row.implementation.empty())
      whole[row] = row.count_before + row.count_after;
  std::erase_if(rows, [&](const DiffRow& row) {
    if (row.what != "kernel" || row.implementation.empty()) return false;
    DiffKey key = row;
    key.implementation.clear();
    const auto found = whole.find(key);
    return found != whole.end() && found->second == row.count_before + row.count_after;
  });
}

}  // namespace

bool Diff::slower() const {
  return std::ranges::any_of(rows, [](const DiffRow& row) {
    return row.verdict == Verdict::slower || row.verdict == Verdict::only_after;
  });
}

bool Diff::differs() const {
  return std::ranges::any_of(rows, [](const DiffRow& row) { return row.verdict != Verdict::same; });
}

Result<Diff> analyse_diff(const Trace& before, const Trace& after, const DiffOptions& options) {
  const std::string &net = before.headers[0].net, &other = after.headers[0].net;
  if (net != other)
    return Error{
        ErrorKind::usage, "",
        fmt::format("runs of different nets: {} and {}", shown_name(net), shown_name(other)),
        "compare two runs of the same command"};
  Diff diff;
  diff.options = options;
  diff.warnings = differences_of_runs(before, after);
  const Measurement first(before, options.skip), second(after, options.skip);
  const ImagesOfTasks &images = first.images(), &others = second.images();
  const bool same = same_slices(images, others), same_batch = images.batch() == others.batch();
  if (!same)
    diff.warnings.push_back(
        fmt::format("different slices: {:.4g} and {:.4g} images, so kernels are compared per image",
                    images.batch() / images.slices(), others.batch() / others.slices()));
  const Run a = first.run(options.skip, !same, !same_batch);
  const Run b = second.run(options.skip, !same, !same_batch);
  compare_times(a, b, diff);
  add_missing(a, b, Verdict::only_before, diff);
  add_missing(b, a, Verdict::only_after, diff);
  compare_placement(a, b, diff);
  drop_repeated(diff.rows);
  std::ranges::stable_sort(diff.rows, [](const DiffRow& x, const DiffRow& y) {
    return std::pair(x.verdict == Verdict::same, -x.weight) <
           std::pair(y.verdict == Verdict::same, -y.weight);
  });
  return diff;
}

}  // namespace omni::perf
