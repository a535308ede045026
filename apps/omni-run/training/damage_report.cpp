#include "apps/omni-run/training/damage_report.hpp"

#include <algorithm>
#include <string>

#include "runtime/communicator/ranks.hpp"
#include "runtime/log.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "scheduling/training/evaluator.hpp"
#include "scheduling/training/stopwatch.hpp"

namespace omni {

Status DamageReport::try_known(std::vector<std::uint64_t> known) {
  known_ = std::move(known);
  DamagedImages* const found = data_->train->damaged();
  if (found == nullptr) return {};
  Image image;
  for (const std::uint64_t index : known_)
    if (index < data_->train->size()) OMNI_CHECK(data_->train->read(index, {}, image));
  if (!ranks::first()) (void)found->take_new();  // all ranks found the same; only the first warns
  (void)found->take_text();
  return {};
}

Status DamageReport::check_test(DataFeed& test, const Slices& slices, std::uint64_t iteration) {
  constexpr double kSilence = 10;  // seconds between two lines
  const std::size_t images = data_->test->size();
  log::info("checking {} test images", images);
  Stopwatch watch;
  double told = 0;
  std::size_t checked = 0;
  OMNI_CHECK(read_all(test, slices, [&] {
    checked += test.batch();
    if (watch.seconds() < told + kSilence || checked >= images) return;
    told = watch.seconds();
    log::info("checked {} of {} test images", checked, images);
  }));
  share(iteration);
  return task_status();
}

void DamageReport::record_from(std::uint64_t iteration) {
  records_ = true;
  name(iteration);
}

std::vector<DamagedImages*> DamageReport::sets() const {
  std::vector<DamagedImages*> sets;
  for (const Dataset* data : {data_->train.get(), data_->test.get()})
    if (data != nullptr && data->damaged() != nullptr) sets.push_back(data->damaged());
  return sets;
}

void DamageReport::name(std::uint64_t iteration) {
  for (DamagedImages* const found : sets()) {
    const bool training = found == data_->train->damaged();
    for (const DamagedImage& image : found->take_new()) {
      if (found->names(image)) report_.warn("skipped: " + image.error.message());
      if (shared_ && !image.here) continue;  // a member of that rank records it
      if (!training || !std::ranges::binary_search(known_, image.index))
        unrecorded_.push_back({image, training});
    }
  }
  if (!records_ || !report_.has_metrics()) return;
  for (const auto& [image, training] : std::exchange(unrecorded_, {}))
    report_.record(&MetricsLog::damaged, image, training, iteration);
}

void DamageReport::share(std::uint64_t iteration) {
  name(iteration);
  if (!ranks::several()) return;
  for (DamagedImages* const found : sets()) {
    const std::vector<std::string> texts = ranks::gather(found->take_text());
    for (int rank = 0; rank < ranks::size(); ++rank)
      if (rank != ranks::rank())
        if (Status added = found->add_text(texts[rank]); !added)
          report_task_error(std::move(added.error()));
  }
  name(iteration);
}

void DamageReport::count() const {
  for (const DamagedImages* const found : sets())
    if (found->count() > 0 && ranks::first()) log::warn("{}", found->summary());
}

}  // namespace omni
