#include "runtime/data/vectors/libsvm.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>

#include "runtime/checksum.hpp"
#include "runtime/data/data_file.hpp"
#include "runtime/data/formats.hpp"
#include "runtime/data/images/image_list.hpp"
#include "runtime/files.hpp"
#include "runtime/number_in.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostFeatures = 1 << 24;  // the bound of a net's inputs
constexpr std::size_t kMostLabels = 1 << 16;
constexpr double kLargestLabel = 1e15;  // a double can hold every integer up to this
constexpr const char* kLibsvmLine = "a line is: label index:value index:value ...";

// Vectors has the vectors of a file, one after another.
struct Vectors {
  std::vector<std::int32_t> labels = {};
  std::vector<std::size_t> ends = {};       // by vector: its end in `features` and `values`
  std::vector<std::int32_t> features = {};  // indices from 0
  std::vector<float> values = {};

  std::uint64_t bytes() const {
    return ends.size() * (sizeof(std::int32_t) + sizeof(std::size_t)) +
           values.size() * (sizeof(std::int32_t) + sizeof(float));
  }
};

// A FeatureSpace is what the training file determines, also for the test file.
struct FeatureSpace {
  int features = 0;
  std::vector<std::string> class_names = {};
  std::vector<float> absent = {};  // by feature: its value in vectors that do not name it; empty: 0
};

struct LabelNumber {
  std::int32_t number;  // first in the order of appearance, later the class
  std::string written;
};
using LabelNumbers = std::map<std::int64_t, LabelNumber>;

std::optional<double> finite_number(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto value = number_in<double>(text);
  return value && std::abs(*value) <= std::numeric_limits<float>::max() ? value : std::nullopt;
}

std::string_view without_comment(std::string_view line) {
  return trim(line.substr(0, line.find('#')));
}

std::string_view take_word(std::string_view& rest) {
  const std::string_view word = rest.substr(0, rest.find_first_of(" \t"));
  rest = trim(rest.substr(word.size()));
  return word;
}

// Reads the vectors of a file.
class LibsvmReader {
 public:
  // New labels of training vectors are added to `labels`. `most` is the largest index that a vector
  // may have. `limit` is the number of bytes that the vectors may take.
  LibsvmReader(const fs::path& file, LabelNumbers& labels, bool training, std::int64_t most,
               std::uint64_t limit)
      : file_(file), labels_(labels), training_(training), most_(most), limit_(limit) {}

  Result<Vectors> read() {
    OMNI_CHECK(require_there(file_));
    OMNI_CHECK(for_each_line(file_, true, [this](std::string_view line, std::size_t index) {
      line_ = index;
      return add(without_comment(line));
    }));
    if (vectors_.ends.empty())
      return Error{ErrorKind::data, file_.string(), "holds no vectors", kLibsvmLine};
    return std::move(vectors_);
  }

 private:
  Error refuse(std::string what, std::string hint) const {
    return at_line(file_, line_, std::move(what), std::move(hint));
  }

  Status add(std::string_view rest) {
    if (rest.empty()) return {};
    OMNI_CHECK(add_label(take_word(rest)));
    for (std::int64_t before = 0; !rest.empty();) OMNI_CHECK(add_value(take_word(rest), before));
    vectors_.ends.push_back(vectors_.values.size());
    if (vectors_.bytes() <= limit_) return {};
    return refuse(fmt::format("the vectors up to here take {} MiB, more than a quarter of the "
                              "memory",
                              vectors_.bytes() >> 20),
                  "train on a part of the file");
  }

  Status add_label(std::string_view word) {
    if (word.find(':') != word.npos)
      return refuse(fmt::format("has no label before {}", shown_name(word)), kLibsvmLine);
    const std::optional<double> value = finite_number(word);
    if (!value || std::trunc(*value) != *value || std::abs(*value) > kLargestLabel)
      return refuse(fmt::format("label {} is no integer", shown_name(word)),
                    "labels name classes: 0 1, -1 +1, or any other integers");
    auto found = labels_.find(static_cast<std::int64_t>(*value));
    if (found == labels_.end() && !training_)
      return refuse(fmt::format("the training file has no label {}", shown_name(word)),
                    "do the two files belong together?");
    if (found == labels_.end() && labels_.size() == kMostLabels)
      return refuse(fmt::format("is of one more than {} classes", kMostLabels),
                    "are the labels quantities? only classes can be learned");
    if (found == labels_.end())
      found =
          labels_
              .emplace(static_cast<std::int64_t>(*value),
                       LabelNumber{static_cast<std::int32_t>(labels_.size()), std::string(word)})
              .first;
    vectors_.labels.push_back(found->second.number);
    return {};
  }

  Status add_value(std::string_view word, std::int64_t& before) {
    const std::size_t colon = std::min(word.find(':'), word.size());
    const auto number = number_in<std::int64_t>(word.substr(0, colon));
    const auto value = finite_number(word.substr(std::min(colon + 1, word.size())));
    if (!number || !value)
      return refuse(fmt::format("{} is no index:value of finite numbers", shown_name(word)),
                    kLibsvmLine);
    const std::int64_t index = *number;
    if (index < 1)
      return refuse(fmt::format("index {}: indices count from 1", index), "add 1 to all indices");
    if (index <= before)
      return refuse(fmt::format("index {} follows index {}", index, before),
                    "sort the indices of a line; each may be there once");
    if (index > most_)
      return refuse(fmt::format("index {} is beyond {} features", index, most_),
                    training_ ? "no net takes more"
                              : fmt::format("the training file has no more; a net with "
                                            "inputs={} has room",
                                            index));
    before = index;
    vectors_.features.push_back(static_cast<std::int32_t>(index - 1));
    vectors_.values.push_back(static_cast<float>(*value));
    return {};
  }

  const fs::path& file_;
  LabelNumbers& labels_;
  bool training_;
  std::int64_t most_;
  std::uint64_t limit_;
  std::size_t line_ = 0;
  Vectors vectors_;
};

// Renumbers the labels in ascending order. Returns them as class names.
std::vector<std::string> sort_labels(LabelNumbers& labels, Vectors& train) {
  std::vector<std::int32_t> classes(labels.size());
  std::vector<std::string> names;
  for (auto& [value, label] : labels) {
    const auto number = static_cast<std::int32_t>(names.size());
    classes[std::exchange(label.number, number)] = number;
    names.push_back(label.written);
  }
  for (std::int32_t& label : train.labels) label = classes[label];
  return names;
}

// Scales each feature by its range over all training vectors. A feature that a vector does not name
// counts as 0.
void scale_features(Vectors& train, Vectors& test, FeatureSpace& space) {
  struct Range {
    double least = std::numeric_limits<double>::max(), most = -least;
    std::size_t times = 0;
    float scaled(float value) const {
      return most > least ? static_cast<float>((value - least) / (most - least)) : 0;
    }
  };
  std::vector<Range> ranges(space.features);
  const auto widen = [](Range& range, double value) {
    range.least = std::min(range.least, value);
    range.most = std::max(range.most, value);
  };
  for (std::size_t i = 0; i < train.values.size(); ++i) {
    Range& range = ranges[train.features[i]];
    widen(range, train.values[i]);
    ++range.times;
  }
  for (Range& range : ranges) {
    if (range.times < train.ends.size()) widen(range, 0);
    space.absent.push_back(range.scaled(0));
  }
  for (Vectors* const each : {&train, &test})
    for (std::size_t i = 0; i < each->values.size(); ++i)
      each->values[i] = ranges[each->features[i]].scaled(each->values[i]);
}

class VectorDataset final : public Dataset {
 public:
  VectorDataset(std::shared_ptr<const FeatureSpace> space, Vectors vectors, fs::path origin)
      : space_(std::move(space)), vectors_(std::move(vectors)), origin_(std::move(origin)) {}

  std::size_t size() const override { return vectors_.ends.size(); }
  Extent extent() const override { return {1, 1, space_->features}; }
  bool holds_vectors() const override { return true; }
  int classes() const override { return static_cast<int>(space_->class_names.size()); }
  int label(std::size_t index) const override { return vectors_.labels[index]; }
  std::vector<std::string> class_names() const override { return space_->class_names; }
  std::string description() const override {
    return fmt::format("{} vectors of {} features, {} classes, from {}", size(), space_->features,
                       classes(), origin_.string());
  }
  Status read(std::size_t index, LeastSize, Image& vector) const override {
    OMNI_CHECK(check_index(*this, index));
    vector.extent = extent();
    vector.pixels.clear();
    if (space_->absent.empty())
      vector.values.assign(extent().count(), 0);
    else
      vector.values = space_->absent;
    const std::size_t end = vectors_.ends[index];
    for (std::size_t i = index == 0 ? 0 : vectors_.ends[index - 1]; i < end; ++i)
      vector.values[vectors_.features[i]] = vectors_.values[i];
    return {};
  }

 private:
  std::shared_ptr<const FeatureSpace> space_;
  Vectors vectors_;
  fs::path origin_;
};

// Returns a checksum of vectors, labels and scales.
std::string fingerprint(const Vectors& vectors, const FeatureSpace& space) {
  Checksum checksum;
  const auto add = [&](const auto& numbers) { checksum.update(std::as_bytes(std::span(numbers))); };
  add(vectors.labels);
  add(vectors.ends);
  add(vectors.features);
  add(vectors.values);
  add(space.absent);
  return checksum_text(checksum.value());
}

Result<DatasetPair> open_vectors(const DatasetRequest& request) {
  const auto [train, test] = two_files(request);
  if (request.test && test.empty())
    return Error{ErrorKind::usage, request.source, "one LIBSVM file alone has no test vectors",
                 "give two, train.svm,test.svm, or --hold-out 0.1, or --no-test"};
  return open_libsvm({.train = train,
                      .test = request.test ? test : fs::path(),
                      .features = request.flat ? request.net_input.c : 0,
                      .scale = request.scale_features});
}

const DataFormatRegistration libsvm(
    {.order = 31,
     .name = "LIBSVM",
     .form = "two LIBSVM files: train.svm,test.svm",
     .is = [](const DatasetRequest& request) { return is_libsvm(two_files(request).first); },
     .open = open_vectors,
     .scales = true});

}  // namespace

bool is_libsvm(const fs::path& file) {
  const fs::path name = file.extension() == ".gz" ? file.stem() : file;
  if (name.extension() == ".svm" || name.extension() == ".libsvm") return true;
  auto lines = open_data_lines(file);
  if (!lines) return false;
  while (true) {
    const auto line = lines->next();
    if (!line || !*line || (*line)->too_long) return false;
    const std::string_view text = without_comment((*line)->text);
    if (text.empty()) continue;
    const std::string_view last = text.substr(text.find_last_of(" \t") + 1);
    const std::size_t digits = std::min(last.find_first_not_of("0123456789"), last.size());
    return digits > 0 && last.substr(digits).starts_with(':');
  }
}

Result<DatasetPair> open_libsvm(const LibsvmRequest& request) {
  LabelNumbers labels;
  OMNI_TRY(Vectors train,
           LibsvmReader(request.train, labels, true, kMostFeatures, request.limit).read());
  const auto space = std::make_shared<FeatureSpace>();
  space->class_names = sort_labels(labels, train);
  space->features = std::max(request.features, 1);
  for (const std::int32_t feature : train.features)
    space->features = std::max(space->features, feature + 1);
  Vectors test;
  if (!request.test.empty()) {
    OMNI_TRY(test,
             LibsvmReader(request.test, labels, false, space->features, request.limit).read());
  }
  if (request.scale) scale_features(train, test, *space);
  DatasetPair pair;
  pair.name =
      fmt::format("{}#{}", fs::canonical(request.train).string(), fingerprint(train, *space));
  pair.train = std::make_unique<VectorDataset>(space, std::move(train), request.train);
  if (!request.test.empty())
    pair.test = std::make_unique<VectorDataset>(space, std::move(test), request.test);
  return pair;
}

}  // namespace omni
