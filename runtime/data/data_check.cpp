#include "runtime/data/data_check.hpp"

#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <mutex>

#include "runtime/data/synthetic.hpp"
#include "runtime/shown_name.hpp"
#include "runtime/threads.hpp"

namespace omni {
namespace {

// A Digest is a hash of a sample's values and extent. It has 128 bits, so that different samples
// practically never have the same digest, however many there are.
struct Digest {
  std::uint64_t high, low;
  auto operator<=>(const Digest&) const = default;
};

Digest digest(const Image& image) {
  const bool vector = !image.values.empty();
  const auto [h, w, c] = image.extent;
  const auto shape = static_cast<std::uint64_t>(h) << 36 ^ static_cast<std::uint64_t>(w) << 8 ^
                     static_cast<std::uint64_t>(c);
  const XXH128_hash_t hash =
      vector
          ? XXH3_128bits_withSeed(image.values.data(), image.values.size() * sizeof(float), shape)
          : XXH3_128bits_withSeed(image.pixels.data(), image.pixels.size(), shape);
  return {hash.high64, hash.low64};
}

constexpr std::size_t kNone = ~std::size_t{0};

struct Digested {
  Digest digest;
  std::size_t index;
  std::size_t twin = kNone;  // of a test sample: the first training sample with the same values
  auto operator<=>(const Digested&) const = default;
};

void add_counts(Distribution& to, const Distribution& from) {
  for (const auto& [value, count] : from) to[value] += count;
}

// Reads a whole data set with several threads. Calls use(digest, index) for every sample that can
// be read, in one thread at a time.
class Reading {
 public:
  using Use = std::function<void(const Digest&, std::size_t)>;
  Reading(const Dataset& data, const CheckOptions& options, Use use)
      : data_(data), options_(options), use_(std::move(use)) {}

  Result<CheckedSet> run(std::size_t done_before, std::size_t unreadable_before) {
    set_.samples = data_.size();
    working_ = options_.threads;
    run_together(options_.threads + 1, [&](int number) {
      if (number > 0) return work();
      std::unique_lock lock(mutex_);
      bool ended = false;
      while (!ended) {
        ended =
            changed_.wait_for(lock, std::chrono::milliseconds(100), [&] { return working_ == 0; });
        options_.progress(done_before + done_, unreadable_before + set_.unreadable.size());
      }
    });
    if (failure_) return *failure_;
    std::ranges::sort(set_.unreadable);
    return std::move(set_);
  }

 private:
  // A thread takes this many samples at a time.
  static constexpr std::size_t kAtOnce = 16;

  void work() {
    try {
      read_samples();
    } catch (...) {  // run_together() rethrows it when the other threads have ended
      end_of_thread(true);
      throw;
    }
    end_of_thread(false);
  }

  void end_of_thread(bool stops_all) {
    const std::lock_guard lock(mutex_);
    if (stops_all || failure_) stopped_ = true;
    --working_;
    changed_.notify_one();
  }

  void read_samples() {
    std::optional<Error> failure;
    Image image;
    CheckedSet seen;
    while (!failure) {
      const std::size_t first = next_.fetch_add(kAtOnce);
      if (first >= data_.size() || stopped_) break;
      for (std::size_t i = first; i < std::min(first + kAtOnce, data_.size()) && !failure; ++i)
        failure = look_at(i, image, seen);
    }
    const std::lock_guard lock(mutex_);
    for (const auto& [label, count] : seen.classes) set_.classes[label] += count;
    add_counts(set_.heights, seen.heights);
    add_counts(set_.widths, seen.widths);
    add_counts(set_.channels, seen.channels);
    set_.smaller += seen.smaller;
    if (failure && !failure_) failure_ = std::move(failure);
  }

  std::optional<Error> look_at(std::size_t index, Image& image, CheckedSet& seen) {
    image.values.clear();
    ++seen.classes[data_.label(index)];
    const Status read = data_.read(index, {}, image);
    if (!read && read.error().kind != ErrorKind::data) return read.error();
    if (read) {
      const Extent& extent = image.extent;
      ++seen.heights[extent.h];
      ++seen.widths[extent.w];
      ++seen.channels[extent.c];
      seen.smaller += extent.h < options_.net_input.h || extent.w < options_.net_input.w ? 1 : 0;
    }
    const std::optional<Digest> own = read ? std::optional(digest(image)) : std::nullopt;
    const std::lock_guard lock(mutex_);
    ++done_;
    if (own)
      use_(*own, index);
    else
      set_.unreadable.push_back(index);
    return std::nullopt;
  }

  const Dataset& data_;
  const CheckOptions& options_;
  Use use_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  int working_ = 0;
  std::size_t done_ = 0;
  CheckedSet set_;
  std::optional<Error> failure_;
};

}  // namespace

std::set<int> classes_in(const Dataset& data) {
  std::set<int> found;
  for (std::size_t i = 0; i < data.size() && std::ssize(found) < data.classes(); ++i)
    found.insert(data.label(i));
  return found;
}

ClassGaps class_gaps(const std::set<int>& trained, const std::set<int>& tested, int classes) {
  ClassGaps gaps;
  std::ranges::set_difference(tested, trained, std::back_inserter(gaps.not_trained));
  std::ranges::set_difference(trained, tested, std::back_inserter(gaps.not_tested));
  gaps.all_unused = static_cast<std::size_t>(classes) - trained.size() - gaps.not_trained.size();
  const std::size_t listed = std::min(gaps.all_unused, ClassGaps::kMostUnused);
  for (int i = 0; gaps.unused.size() < listed; ++i)
    if (!trained.contains(i) && !tested.contains(i)) gaps.unused.push_back(i);
  return gaps;
}

std::string class_list(const std::vector<int>& classes, const Dataset& data, std::size_t all) {
  constexpr std::size_t kMost = 10;
  const std::vector<std::string> known = data.class_names();
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(classes.size(), kMost); ++i) {
    const auto number = static_cast<std::size_t>(classes[i]);
    names.push_back(number < known.size() ? shown_name(known[number])
                                          : fmt::format("class {}", number));
  }
  const std::size_t more = all - names.size();
  return fmt::format("{}{}", fmt::join(names, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

std::vector<std::string> class_warnings(const DatasetPair& data) {
  if (!data.test || dynamic_cast<const ComputedDataset*>(data.train.get()) != nullptr) return {};
  const Dataset& train = *data.train;
  const ClassGaps gaps = class_gaps(classes_in(train), classes_in(*data.test), train.classes());
  std::vector<std::string> warnings;
  const auto warn = [&](const char* what, const std::vector<int>& classes, std::size_t all,
                        const char* meaning) {
    if (all > 0)
      warnings.push_back(fmt::format("{} no sample of {} of {} classes: {} ({})", what, all,
                                     train.classes(), class_list(classes, train, all), meaning));
  };
  warn("the test set has", gaps.not_tested, gaps.not_tested.size(),
       "their accuracy is not measured");
  warn("the training set has", gaps.not_trained, gaps.not_trained.size(), "they cannot be learned");
  // If classes have no names, a number without samples may be intended.
  if (!train.class_names().empty())
    warn("there is", gaps.unused, gaps.all_unused, "is a folder empty, or a name too many?");
  return warnings;
}

int median(const Distribution& distribution) {
  std::size_t all = 0, below = 0;
  for (const auto& [value, count] : distribution) all += count;
  for (const auto& [value, count] : distribution)
    if ((below += count) * 2 >= all) return value;
  return 0;
}

Result<DataCheck> check_data(const DatasetPair& data, const CheckOptions& options) {
  DataCheck found;
  std::vector<Digested> kept;  // samples of the test set
  std::size_t unreadable = 0, tested = 0;
  if (data.test) {
    OMNI_TRY(found.test, Reading(*data.test, options, [&](const Digest& own, std::size_t index) {
                           kept.push_back({own, index});
                         }).run(0, 0));
    std::ranges::sort(kept);
    tested = data.test->size();
    unreadable = found.test->unreadable.size();
  }
  std::vector<Digested> trained;
  // `kept` may have very many equal test samples, so a twin is noted only at the first of them.
  const auto use = [&](const Digest& own, std::size_t index) {
    trained.push_back({own, index});
    const auto place = std::ranges::lower_bound(kept, own, {}, &Digested::digest);
    if (place != kept.end() && place->digest == own) place->twin = std::min(place->twin, index);
  };
  OMNI_TRY(found.train, Reading(*data.train, options, use).run(tested, unreadable));
  const Digested* first = nullptr;
  for (const Digested& each : kept) {
    if (first == nullptr || first->digest != each.digest) first = &each;
    if (first->twin != kNone) found.in_both.push_back({each.index, first->twin});
  }
  std::ranges::sort(found.in_both);
  std::ranges::sort(trained);
  first = nullptr;
  for (const Digested& each : trained) {
    if (first == nullptr || first->digest != each.digest) first = &each;
    if (data.train->label(each.index) != data.train->label(first->index))
      found.contradictions.push_back({each.index, first->index});
  }
  std::ranges::sort(found.contradictions);
  return found;
}

}  // namespace omni
