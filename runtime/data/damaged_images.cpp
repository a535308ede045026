#include "runtime/data/damaged_images.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/log.hpp"
#include "runtime/number_in.hpp"
#include "runtime/shown_name.hpp"
#include "runtime/tasks/slices.hpp"

namespace omni {
namespace {

class SkippingDataset final : public Dataset {
 public:
  SkippingDataset(std::unique_ptr<Dataset> of, double share, bool training)
      : of_(std::move(of)),
        training_(training),
        damaged_(of_->size(), share, training ? "training images" : "test images") {}
  SkippingDataset(const SkippingDataset&) = delete;
  SkippingDataset& operator=(const SkippingDataset&) = delete;
  ~SkippingDataset() override {
    for (const DamagedImage& each : damaged_.take_new())
      if (damaged_.names(each)) log::warn("skipped: {}", each.error.message());
  }

  std::size_t size() const override { return of_->size(); }
  Extent extent() const override { return of_->extent(); }
  int classes() const override { return of_->classes(); }
  std::string description() const override { return of_->description(); }
  std::vector<std::string> class_names() const override { return of_->class_names(); }
  std::string place_of_label(std::size_t index) const override {
    return of_->place_of_label(index);
  }
  std::string name_of(std::size_t index) const override { return of_->name_of(index); }
  Status stage(const std::filesystem::path& place, bool) override {
    return of_->stage(place, true);
  }
  void unstage() override { of_->unstage(); }
  std::uint64_t bytes_of(std::size_t index) const override { return of_->bytes_of(index); }
  Result<std::uint64_t> content_checksum(std::size_t index) const override {
    return of_->content_checksum(index);
  }
  DamagedImages* damaged() const override { return &damaged_; }

  // A damaged image of a test set loses its label when a read of it fails.
  int label(std::size_t index) const override {
    return !training_ && damaged_.has(index) ? kNoLabel : of_->label(index);
  }

  Status read(std::size_t index, LeastSize least, Image& image) const override {
    OMNI_CHECK(check_index(*this, index));
    std::size_t at = index;
    do {
      OMNI_TRY(const bool done, try_reading(at, least, image));
      if (done) return {};
      if (!training_) {
        image.extent = {1, 1, extent().c};
        image.pixels.assign(image.extent.count(), 0);
        return {};
      }
      at = next_of_class(at);
    } while (at != index);
    return Error{ErrorKind::data, of_->description(),
                 fmt::format("no training image of class {} can be read", class_of(index)),
                 "mend them, or leave the class out; warnings name them"};
  }

 private:
  Result<bool> try_reading(std::size_t index, LeastSize least, Image& image) const {
    if (damaged_.has(index)) return false;
    const Status status = of_->read(index, least, image);
    if (status) return true;
    if (status.error().kind != ErrorKind::data) return status.error();
    OMNI_CHECK(damaged_.add(index, status.error()));
    return false;
  }

  std::string class_of(std::size_t index) const {
    const auto label = static_cast<std::size_t>(of_->label(index));
    const std::vector<std::string> names = of_->class_names();
    return label < names.size() ? shown_name(names[label]) : std::to_string(label);
  }

  std::size_t next_of_class(std::size_t index) const {
    std::size_t next = index;
    do next = (next + 1) % size();
    while (of_->label(next) != of_->label(index));
    return next;
  }

  std::unique_ptr<Dataset> of_;
  bool training_;
  mutable DamagedImages damaged_;
};

}  // namespace

DamagedImages::DamagedImages(std::size_t images, double share, std::string what)
    : images_(images), most_(damaged_of(images, share)), share_(share), what_(std::move(what)) {}

bool DamagedImages::has(std::size_t index) const {
  if (count_ == 0) return false;
  const std::lock_guard lock(mutex_);
  return found_.contains(index);
}

Status DamagedImages::add(std::size_t index, const Error& error) {
  const std::lock_guard lock(mutex_);
  if (insert({.index = index, .error = error})) untold_.push_back(index);
  return check();
}

bool DamagedImages::insert(DamagedImage image) {
  const std::size_t index = image.index;
  image.number = found_.size() + 1;
  if (!found_.emplace(index, std::move(image)).second) return false;
  new_.push_back(index);
  count_ = found_.size();
  new_count_ = new_.size();
  return true;
}

Status DamagedImages::check() const {
  constexpr std::size_t kNamed = 3;
  if (found_.size() <= most_ && found_.size() < images_) return {};
  std::string names;
  std::size_t named = 0;
  for (const auto& [index, each] : found_) {
    if (++named > kNamed) break;
    names += fmt::format("{}{}: {}", named == 1 ? "" : "; ", each.error.where, each.error.what);
  }
  if (found_.size() > kNamed) names += fmt::format("; and {} more", found_.size() - kNamed);
  const std::string how_many =
      found_.size() == images_
          ? fmt::format("none of the {} {} can be read", images_, what_)
          : fmt::format("{} of {} {} cannot be read, more than --damaged-images {:g}% allows",
                        found_.size(), images_, what_, 100 * share_);
  return Error{ErrorKind::data, "", fmt::format("{}: {}", how_many, names),
               found_.size() == images_
                   ? "mend them"
                   : "mend them, leave them out, or allow a larger --damaged-images SHARE"};
}

std::string DamagedImages::summary() const {
  return fmt::format("{} of {} {} could not be read; the warnings above name them", count(),
                     images_, what_);
}

std::vector<std::uint64_t> DamagedImages::indices() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint64_t> all;
  for (const auto& [index, each] : found_) all.push_back(index);
  return all;
}

std::vector<DamagedImage> DamagedImages::take_new() {
  if (new_count_ == 0) return {};
  const std::lock_guard lock(mutex_);
  std::vector<DamagedImage> taken;
  for (const std::size_t index : new_) taken.push_back(found_.at(index));
  new_.clear();
  new_count_ = 0;
  return taken;
}

// Returns a line of text(): index, place and problem, with tabs between them.
std::string DamagedImages::line(std::size_t index) const {
  const Error& error = found_.at(index).error;
  return fmt::format("{}\t{}\t{}\n", index, one_line(error.where), one_line(error.what));
}

std::string DamagedImages::take_text() {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const std::size_t index : std::exchange(untold_, {})) text += line(index);
  return text;
}

std::string DamagedImages::text() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& [index, each] : found_) text += line(index);
  return text;
}

Status DamagedImages::add_text(std::string_view text, bool before) {
  const std::lock_guard lock(mutex_);
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t tab = line.find('\t'), second = line.find('\t', tab + 1);
    const auto index = number_in<std::size_t>(line.substr(0, tab));
    if (!index || *index >= images_ || second == line.npos) continue;
    insert({.index = *index,
            .error = {ErrorKind::data, std::string(line.substr(tab + 1, second - tab - 1)),
                      std::string(line.substr(second + 1)), ""},
            .here = false});
    if (before) found_.at(*index).here = false;
  }
  return check();
}

std::unique_ptr<Dataset> skip_damaged_images(std::unique_ptr<Dataset> data, double share,
                                             bool training) {
  if (data == nullptr || share <= 0 || !data->has_all_sizes()) return data;
  return std::make_unique<SkippingDataset>(std::move(data), share, training);
}

}  // namespace omni
