// These steps of TrainCommand open the data and handle images that cannot be read. The test set is
// checked before the training begins. All damaged images are named and counted, over all ranks
// together.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "apps/omni-run/class_names.hpp"
#include "apps/omni-run/ensemble/shared_trainings.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/training/training.hpp"
#include "apps/omni-run/training/training_length.hpp"
#include "runtime/data/damaged_images.hpp"
#include "runtime/data/data_check.hpp"
#include "runtime/log.hpp"
#include "runtime/slurm_job.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "scheduling/training/stopwatch.hpp"

namespace omni {

Status TrainCommand::open_images() {
  DataArguments wanted = arguments_.data;
  wanted.seed = seed_;
  wanted.data_seed = data_seed_;
  wanted.test = !arguments_.no_test;
  const auto open = [&]() -> Result<DatasetPair> {
    OMNI_TRY(DatasetPair data, open_data(wanted, net(), spec_.augment.flat));
    for (const std::string& each : class_warnings(data)) log::warn("{}", each);
    data.train = skip_damaged_images(std::move(data.train), wanted.damaged, true);
    data.test = skip_damaged_images(std::move(data.test), wanted.damaged, false);
    return data;
  };
  if (shared_ != nullptr) {
    OMNI_TRY(data_, shared_->open(wanted, net(), spec_.augment.flat, open));
  } else {
    OMNI_TRY(DatasetPair own, open());
    data_ = std::make_shared<DatasetPair>(std::move(own));
  }
  if (static_cast<std::size_t>(net().options().batch) > data_->train->size())
    log::info("a batch of {} is more than the {} training images: some are in it several times",
              net().options().batch, data_->train->size());
  const std::string& source = arguments_.data.source;
  const int classes = data_->train->classes();
  if (classes < net().classes() && !source.empty() && !source.starts_with("synthetic"))
    log::info("the net has {} outputs, the data {} classes (--classes {} gives it as many)",
              net().classes(), classes, classes);
  if (checkpoint_ && !arguments_.other_data)
    OMNI_CHECK(require_same_data(*checkpoint_, data_->name));
  for (const PilotType& type : pilot_types())
    if (const DeclaredOption* option = arguments_.pilots.first_given(type.options);
        option && type.needs_tests && !data_->test)
      return Error{ErrorKind::usage, std::string(option->name), "there is no test set",
                   "leave out --no-test; --hold-out 0.1 tests on a tenth of the training samples"};
  iterations_ = planned_iterations(arguments_, spec_, data_->train->size());
  identity_ = {.layers = layers_hash(spec_),
               .data = data_->name,
               .class_names = class_names_of(*data_->train, net()),
               .iterations = iterations_,
               .data_seed = data_seed_};
  return check_schedule(spec_, seed_, iterations_, arguments_.epochs.has_value());
}

Status TrainCommand::stage() {
  if (!arguments_.stage) return {};
  std::string place = "/tmp";
  for (const char* name : {"TMPDIR", "SLURM_TMPDIR"})
    if (const std::string named = slurm::variable(name); !named.empty()) place = named;
  for (Dataset* set : {data_->train.get(), data_->test.get()})
    if (set != nullptr) OMNI_CHECK(set->stage(place));
  return {};
}

// Checks all test images. Of the training images it only tries those that an earlier run could not
// read; others are found when they are decoded.
Status TrainCommand::check_images() {
  if (DamagedImages* const found = data_->train->damaged(); found != nullptr) {
    Image image;
    for (const std::uint64_t index : start_.damaged)
      if (index < data_->train->size()) OMNI_CHECK(data_->train->read(index, {}, image));
    if (!ranks::first()) (void)found->take_new();  // all ranks found the same; only the first warns
    (void)found->take_text();
  }
  if (training_->test() == nullptr || !data_->test->has_all_sizes()) return {};
  if (shared_ != nullptr && !shared_->takes_check_of(*data_)) return {};
  constexpr double kSilence = 10;  // seconds between two lines
  const std::size_t images = data_->test->size();
  log::info("checking {} test images", images);
  Stopwatch watch;
  double told = 0;
  std::size_t checked = 0;
  OMNI_CHECK(read_all(*training_->test(), groups().evaluating_net().slices(), [&] {
    checked += training_->test()->batch();
    if (watch.seconds() < told + kSilence || checked >= images) return;
    told = watch.seconds();
    log::info("checked {} of {} test images", checked, images);
  }));
  share_damaged(start_.iteration);
  return task_status();
}

std::vector<DamagedImages*> TrainCommand::damaged_sets() const {
  std::vector<DamagedImages*> sets;
  for (const Dataset* data : {data_->train.get(), data_->test.get()})
    if (data != nullptr && data->damaged() != nullptr) sets.push_back(data->damaged());
  return sets;
}

// Writes new damaged images to the log and to the metrics. The metrics leave out those that an
// earlier run has written.
void TrainCommand::name_damaged(std::uint64_t iteration) {
  for (DamagedImages* const found : damaged_sets()) {
    const bool training = found == data_->train->damaged();
    for (const DamagedImage& image : found->take_new()) {
      if (found->names(image)) {
        progress_.finish_line();
        log::warn("skipped: {}", image.error.message());
      }
      if (shared_ != nullptr && !image.here) continue;  // a member of that rank records it
      if (!training || !std::ranges::binary_search(start_.damaged, image.index))
        unrecorded_.push_back({image, training});
    }
  }
  if (!metrics_ || is_finished()) return;  // a training that was already finished adds no lines
  for (const auto& [image, training] : std::exchange(unrecorded_, {}))
    record(&MetricsLog::damaged, image, training, iteration);
}

// All ranks call this function at the same iteration. It ends the training if all ranks together
// have too many damaged images.
void TrainCommand::share_damaged(std::uint64_t iteration) {
  name_damaged(iteration);
  if (!ranks::several()) return;
  for (DamagedImages* const found : damaged_sets()) {
    const std::vector<std::string> texts = ranks::gather(found->take_text());
    for (int rank = 0; rank < ranks::size(); ++rank)
      if (rank != ranks::rank())
        if (Status added = found->add_text(texts[rank]); !added)
          report_task_error(std::move(added.error()));
  }
  name_damaged(iteration);
}

void TrainCommand::count_damaged() const {
  for (const DamagedImages* const found : damaged_sets())
    if (found->count() > 0 && ranks::first()) log::warn("{}", found->summary());
}

}  // namespace omni
