// This file reads LMDBs of Datum: an entry is an image with its label.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/data/formats.hpp"
#include "runtime/data/images/image_list.hpp"
#include "runtime/data/lmdb/datum.hpp"
#include "runtime/data/lmdb/lmdb_file.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

constexpr std::uint64_t kMostEntryBytes = kMostFileBytes + (kMaxPixels << 2);
constexpr std::int64_t kLargestClass = (1 << 24) - 1;

// Entries has what is kept in memory of all entries.
struct Entries {
  std::string keys{};
  std::vector<std::uint64_t> ends{};  // of the keys
  std::vector<std::int32_t> labels{};
  Extent extent{};                 // of all images; {0, 0, 3}: they differ, or are files
  std::optional<Error> problem{};  // the first

  std::string_view key(std::size_t index) const {
    const std::uint64_t begin = index == 0 ? 0 : ends[index - 1];
    return std::string_view(keys).substr(begin, ends[index] - begin);
  }
};

class LmdbDataset final : public Dataset {
 public:
  LmdbDataset(LmdbFile file, Entries entries, int classes, std::filesystem::path folder)
      : file_(std::move(file)),
        entries_(std::move(entries)),
        classes_(classes),
        folder_(std::move(folder)) {}

  std::size_t size() const override { return entries_.labels.size(); }
  Extent extent() const override { return entries_.extent; }
  int classes() const override { return classes_; }
  int label(std::size_t index) const override { return entries_.labels[index]; }
  std::string name_of(std::size_t index) const override {
    return fmt::format("{}: {}", folder_.string(), shown_name(entries_.key(index)));
  }
  std::string description() const override {
    return fmt::format("{} images, {} classes, from the LMDB {}", size(), classes_,
                       folder_.string());
  }
  Status read(std::size_t index, LeastSize least, Image& image) const override {
    OMNI_CHECK(check_index(*this, index));
    thread_local std::string bytes;
    OMNI_CHECK(file_.read(entries_.key(index), kMostEntryBytes, bytes));
    OMNI_TRY(const Datum datum, parse_datum(bytes, name_of(index)));
    OMNI_TRY(Image read, image_of(datum, name_of(index), least));
    if (!has_all_sizes() && read.extent != extent())
      return Error{ErrorKind::data, name_of(index), "is not the image of before",
                   "the LMDB changed while it was read"};
    image = std::move(read);
    return {};
  }

 private:
  LmdbFile file_;
  Entries entries_;
  int classes_;
  std::filesystem::path folder_;
};

// Notes an entry's key and label, and whether its image is as large as the earlier ones.
void note(void* context, std::string_view key, std::string_view value) {
  Entries& entries = *static_cast<Entries*>(context);
  if (entries.problem) return;
  const auto datum = parse_datum(value, "");
  if (!datum || datum->label < 0 || datum->label > kLargestClass) {
    entries.problem =
        Error{ErrorKind::data, shown_name(key),
              datum ? fmt::format("label {} is no class", datum->label) : datum.error().what,
              datum ? "labels count from 0" : "is this an LMDB of Datum?"};
    return;
  }
  entries.keys += key;
  entries.ends.push_back(entries.keys.size());
  entries.labels.push_back(static_cast<std::int32_t>(datum->label));
  const auto side = [](std::int64_t value_of) {
    return static_cast<int>(std::clamp<std::int64_t>(value_of, 0, 1 << 16));
  };
  const Extent own = datum->encoded
                         ? Extent{0, 0, 3}
                         : Extent{side(datum->height), side(datum->width), side(datum->channels)};
  if (entries.labels.size() == 1) entries.extent = own;
  if (entries.extent != own) entries.extent = {0, 0, std::max(entries.extent.c, own.c)};
}

Result<std::pair<LmdbFile, Entries>> scan(const std::filesystem::path& folder,
                                          std::uint64_t most = UINT64_MAX) {
  OMNI_CHECK(require_there(folder));
  OMNI_TRY(LmdbFile file, LmdbFile::open(folder));
  Entries entries;
  OMNI_CHECK(file.for_each(note, &entries, most));
  if (entries.problem) {
    entries.problem->where = fmt::format("{}: {}", folder.string(), entries.problem->where);
    return *std::move(entries.problem);
  }
  if (entries.labels.empty())
    return Error{ErrorKind::data, folder.string(), "holds no images", "is this the right LMDB?"};
  return std::pair(std::move(file), std::move(entries));
}

}  // namespace

Result<Extent> first_extent_of_lmdb(const std::filesystem::path& folder) {
  OMNI_TRY(const auto first, scan(folder, 1));
  return first.second.extent;
}

namespace {

bool is_lmdb(const DatasetRequest& request) { return LmdbFile::is(two_files(request).first); }

Result<DatasetPair> open_lmdb(const DatasetRequest& request) {
  const auto [train_folder, test_folder] = two_files(request);
  OMNI_TRY(auto train, scan(train_folder));
  std::optional<std::pair<LmdbFile, Entries>> test;
  std::error_code unequal;
  if (request.test && test_folder.empty())
    return Error{ErrorKind::usage, request.source, "one LMDB alone has no test images",
                 "give two, train_lmdb,val_lmdb, or --hold-out 0.1, or --no-test"};
  if (request.test && std::filesystem::equivalent(train_folder, test_folder, unequal))
    test = train;  // no file is mapped twice
  else if (request.test) {
    OMNI_TRY(test, scan(test_folder));
  }
  int most = std::ranges::max(train.second.labels);
  if (test) most = std::max(most, int{std::ranges::max(test->second.labels)});
  const auto make = [&](std::pair<LmdbFile, Entries>& of, const std::filesystem::path& folder) {
    return std::make_unique<LmdbDataset>(std::move(of.first), std::move(of.second), most + 1,
                                         folder);
  };
  DatasetPair pair{make(train, train_folder), nullptr,
                   std::filesystem::canonical(train_folder).string()};
  if (test) pair.test = make(*test, test_folder);
  return pair;
}

const DataFormatRegistration lmdb({.order = 23,
                                   .name = "LMDB",
                                   .form = "two LMDBs of Datum: train_lmdb,val_lmdb",
                                   .is = is_lmdb,
                                   .open = open_lmdb});

}  // namespace
}  // namespace omni
