#include "runtime/data/open.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <new>

#include "runtime/data/augment.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/data/formats.hpp"
#include "runtime/data/images/image_sources.hpp"
#include "runtime/data/subset.hpp"
#include "runtime/nearest.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

// Makes the error for a source that no format recognises.
Error unknown_source(const fs::path& path) {
  const std::string known = "known names: " + known_sources();
  std::vector<std::string_view> names;
  for (const DataFormat& format : data_formats())
    if (format.is == nullptr) names.push_back(format.name);
  const std::string_view near = nearest(path.native(), names);
  if (!fs::exists(path))
    return {ErrorKind::usage, path.string(),
            path.has_parent_path() ? "no such file or folder"
                                   : "neither a known dataset nor a file or folder",
            near.empty() ? known : fmt::format("did you mean {}?", near)};
  if (!fs::is_directory(path))
    return {ErrorKind::usage, path.string(), "neither a folder nor a .data file",
            "two lists are given as train.txt,val.txt; of other files, give their folder"};
  if (holds_image_files(path))
    return {ErrorKind::data, path.string(), "holds images, but no folders, one per class",
            "put the images of each class into a folder of their own, CLASS/*.jpg; "
            "--hold-out 0.1 then tests on a tenth of them"};
  return {ErrorKind::data, path.string(), "holds no dataset that is understood", known};
}

// The sources of several inputs are joined sample by sample. A sample counts as a vector of all
// values that the net reads.
class JoinedDataset final : public Dataset {
 public:
  JoinedDataset(std::vector<std::shared_ptr<Dataset>> parts, std::size_t labels, Extent extent)
      : parts_(std::move(parts)), labels_(*parts_[labels]), extent_(extent) {}

  std::size_t size() const override { return labels_.size(); }
  Extent extent() const override { return extent_; }
  int classes() const override { return labels_.classes(); }
  int label(std::size_t index) const override { return labels_.label(index); }
  std::vector<std::string> class_names() const override { return labels_.class_names(); }
  std::string place_of_label(std::size_t index) const override {
    return labels_.place_of_label(index);
  }
  std::string name_of(std::size_t index) const override { return labels_.name_of(index); }
  bool holds_vectors() const override { return true; }
  // Reads what files hold of all inputs. Only read_part() reads what a net takes.
  Status read(std::size_t index, LeastSize, Image& image) const override {
    Image all{.extent = extent_, .pixels = {}};
    for (const auto& part : parts_) {
      OMNI_CHECK(part->read(index, {}, image));
      all.pixels.insert(all.pixels.end(), image.pixels.begin(), image.pixels.end());
      all.values.insert(all.values.end(), image.values.begin(), image.values.end());
      image.values.clear();
    }
    image = std::move(all);
    return {};
  }
  Status read_part(std::size_t index, std::size_t part, LeastSize least,
                   Image& image) const override {
    return parts_[part]->read(index, least, image);
  }
  const Dataset& part(std::size_t number) const override { return *parts_[number]; }
  Status stage(const std::filesystem::path& place, bool skips) override {
    for (auto part = parts_.begin(); part != parts_.end(); ++part)
      if (std::find(parts_.begin(), part, *part) == part) OMNI_CHECK((*part)->stage(place, skips));
    return {};
  }
  void unstage() override {
    for (const auto& part : parts_) part->unstage();
  }
  std::string description() const override {
    std::string text;
    for (const auto& part : parts_) text += (text.empty() ? "" : "; with ") + part->description();
    return text;
  }
  Status look_for_files(double damaged) const override {
    for (const auto& part : parts_) OMNI_CHECK(part->look_for_files(damaged));
    return {};
  }

 private:
  std::vector<std::shared_ptr<Dataset>> parts_;
  const Dataset& labels_;
  Extent extent_;
};

Result<DatasetPair> open_joined(const DatasetRequest& request);

Result<DatasetPair> open_source(const DatasetRequest& request) {
  if (!request.parts.empty()) return open_joined(request);
  const DataFormat* const format = format_of(request);
  if (request.scale_features && (format == nullptr || !format->scales))
    return Error{ErrorKind::usage, "--scale-features",
                 fmt::format("{} is no LIBSVM file", shown_name(request.source)), "leave it out"};
  if (format == nullptr) return unknown_source(request.source);
  OMNI_TRY(DatasetPair pair, format->open(request));
  if (pair.name.empty() && format->is != nullptr) pair.name = fs::canonical(request.source);
  return pair;
}

// Refuses labels that the loss does not take: kernels would access memory outside of buffers.
Status check_labels(const DatasetPair& pair, const std::string& source, const LabelLimit& limit) {
  const Dataset& data = *pair.train;
  if (limit.classes == 0 || data.classes() <= limit.classes) return {};
  const bool own = limit.where.empty(), ignores = limit.ignored != kNoLabel;
  const std::string outputs = fmt::format("{}{} has {} outputs", own ? "the net" : "the loss of ",
                                          limit.where, limit.classes);
  const std::string hint = fmt::format("--classes {} gives {} as many outputs", data.classes(),
                                       own ? "the last layer" : "every loss");
  const Error of_all{ErrorKind::usage, source,
                     fmt::format("has {} classes, but {}", data.classes(), outputs), hint};
  for (const Dataset* each : {pair.train.get(), pair.test.get()})
    for (std::size_t i = 0; each != nullptr && i < each->size(); ++i) {
      const std::string place = each->place_of_label(i);
      if (place.empty() && !ignores) return of_all;
      if (const int label = each->label(i); label >= limit.classes && label != limit.ignored)
        return Error{ErrorKind::data, place.empty() ? each->name_of(i) : place,
                     fmt::format("label {} is out of range: {}", label, outputs),
                     "labels count from 0; " + hint};
    }
  return ignores ? Status() : of_all;
}

Status check_labels(const DatasetPair& pair, const DatasetRequest& request) {
  if (request.losses.empty())
    return check_labels(pair, request.source, {.classes = request.classes});
  for (const LabelLimit& limit : request.losses)
    OMNI_CHECK(check_labels(pair, request.source, limit));
  return {};
}

// Opens the source of each input. Inputs of one source share its samples.
Result<DatasetPair> open_joined(const DatasetRequest& request) {
  OMNI_TRY(const auto sources, sources_of_inputs(request.source, request.parts));
  std::vector<std::shared_ptr<Dataset>> train, test;
  std::size_t labels = 0;
  DatasetPair joined;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const InputPart& part = request.parts[i];
    if (part.labels) labels = i;
    DatasetRequest own = request;
    own.parts.clear();
    own.hold_out = 0;  // the joined samples are divided
    own.damaged = 0;   // no image of one input is left out alone
    own.source = sources[i];
    own.net_input = part.extent;
    own.flat = part.augment.flat;
    own.classes = part.labels || own.source.starts_with("synthetic") ? request.classes : 0;
    own.losses.clear();  // the joined samples are compared with them
    std::size_t same = 0;
    while (same < i && !(sources[same] == sources[i] && request.parts[same].extent == part.extent &&
                         request.parts[same].augment.flat == part.augment.flat))
      ++same;
    if (same < i) {
      train.push_back(train[same]);
      if (request.test) test.push_back(test[same]);
    } else {
      OMNI_TRY(DatasetPair pair, open_dataset(own));
      train.push_back(std::move(pair.train));
      if (request.test) test.push_back(std::move(pair.test));
      joined.name += (i == 0 ? "" : " with ") + pair.name;
    }
    for (const auto* set : {&train, &test})
      if (!set->empty() && set->back()->size() != set->front()->size())
        return Error{ErrorKind::data, part.name,
                     fmt::format("has {} {} samples, but {} has {}", set->back()->size(),
                                 set == &train ? "training" : "test", request.parts.front().name,
                                 set->front()->size()),
                     "inputs are joined sample by sample"};
    OMNI_CHECK(check_input(part.augment, train.back()->extent(), part.extent, own.source));
  }
  joined.train = std::make_unique<JoinedDataset>(std::move(train), labels, request.net_input);
  if (request.test)
    joined.test = std::make_unique<JoinedDataset>(std::move(test), labels, request.net_input);
  return joined;
}

}  // namespace

Result<std::vector<std::string>> sources_of_inputs(const std::string& source,
                                                   const std::vector<InputPart>& parts) {
  std::vector<std::string> sources(parts.size());
  if (source.starts_with("synthetic")) std::ranges::fill(sources, source);
  std::string names;
  for (const InputPart& part : parts) names += fmt::format(" --data {}=...", part.name);
  const std::string hint = fmt::format("the net has {} inputs: give{}", parts.size(), names);
  for (std::size_t at = 0; at < source.size() && !source.starts_with("synthetic");) {
    const std::size_t end = std::min(source.find('\n', at), source.size());
    const std::string line = source.substr(at, end - at);
    const std::size_t equals = line.find('=');
    const auto part = std::ranges::find(parts, line.substr(0, equals), &InputPart::name);
    if (equals == line.npos || part == parts.end())
      return Error{ErrorKind::usage, "--data " + shown_name(line), "names no input of the net",
                   hint};
    std::string& to = sources[static_cast<std::size_t>(part - parts.begin())];
    if (!to.empty())
      return Error{ErrorKind::usage, "--data " + shown_name(line), "is given twice for this input",
                   hint};
    to = line.substr(equals + 1);
    at = end + 1;
  }
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (sources[i].empty())
      return Error{ErrorKind::usage, "--data",
                   fmt::format("no data are given for the input {}", shown_name(parts[i].name)),
                   hint};
  return sources;
}

Result<DatasetPair> open_dataset(const DatasetRequest& wanted) {
  DatasetRequest request = wanted;
  if (wanted.hold_out > 0) request.test = false;  // the source's own test set is not used
  try {
    OMNI_TRY(DatasetPair pair, open_source(request));
    for (const Dataset* each : {pair.train.get(), pair.test.get()})
      if (each != nullptr && !request.for_check) OMNI_CHECK(each->look_for_files(request.damaged));
    if (Status labels = check_labels(pair, request); !labels) {
      // For a check, empty folders and folders that are only in the test set count as classes, too.
      // Opening the data as a training does may report such a folder, which explains more.
      request = wanted;
      request.for_check = false;
      return wanted.for_check ? open_dataset(request) : labels.error();
    }
    if (pair.train->holds_vectors() && request.net_input.c > 0 && !request.flat)
      return Error{ErrorKind::usage, request.source, "holds vectors, but the net takes images",
                   fmt::format("give the net inputs={}, in place of height, width and channels",
                               pair.train->extent().c)};
    if (request.net_input.c > 0)
      OMNI_CHECK(check_input({.flat = request.flat}, pair.train->extent(), request.net_input,
                             request.source));
    if (pair.name.empty()) pair.name = request.source;
    if (wanted.hold_out > 0) OMNI_CHECK(hold_out(pair, wanted.hold_out, wanted.seed));
    if (!wanted.test) pair.test.reset();
    return pair;
  } catch (const fs::filesystem_error& problem) {
    return Error{ErrorKind::data, problem.path1().string(), problem.code().message(),
                 "is all of the data set readable?"};
  } catch (const std::bad_alloc&) {
    return Error{ErrorKind::out_of_memory, request.source, "the data do not fit into memory",
                 "IDX and CIFAR-10 files take a byte per value there, LIBSVM files eight"};
  }
}

}  // namespace omni
