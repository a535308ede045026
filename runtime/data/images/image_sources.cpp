#include "runtime/data/images/image_sources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string_view>

#include "runtime/data/formats.hpp"
#include "runtime/data/images/file_dataset.hpp"
#include "runtime/data/images/image.hpp"
#include "runtime/data/images/image_list.hpp"
#include "runtime/log.hpp"
#include "runtime/lower_case.hpp"
#include "runtime/number_in.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

// The first of these folders that exists is the test set. ImageNet's `test` has no class folders,
// so it comes last.
constexpr std::array<std::string_view, 3> kTestFolders{"val", "valid", "test"};
// Folders of sets have these names, in lower case. Without train/, a folder of such a name is
// refused instead of being taken for a class.
constexpr std::array<std::string_view, 7> kSets{"train", "training",   "val",    "valid",
                                                "test",  "validation", "testing"};
constexpr std::array<std::string_view, 7> kRead{".jpg", ".jpeg", ".jpe", ".jfif",
                                                ".png", ".ppm",  ".pgm"};
// Image files with these extensions cannot be read. They are refused, since nobody would notice
// that they are missing. Files with any other extension are ignored.
constexpr std::array<std::string_view, 10> kNotRead{".bmp",  ".gif",  ".webp", ".tif", ".tiff",
                                                    ".heic", ".heif", ".avif", ".jp2", ".jxl"};

// Returns whether a name begins with a dot, or is that of a folder that archives made on a Mac
// contain.
bool hidden(const fs::path& path) {
  const std::string name = path.filename();
  return name.starts_with('.') || name == "__MACOSX";
}

template <std::size_t N>
bool ends_as(const fs::path& path, const std::array<std::string_view, N>& extensions) {
  return std::ranges::find(extensions, lower_case(path.extension().string())) != extensions.end();
}

std::vector<std::string> class_folders(const fs::path& split) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(split))
    if (entry.is_directory() && !hidden(entry.path())) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

// Visits all image files below a folder, at any depth, until `visit` returns false.
Status for_each_image(const fs::path& folder, const std::function<bool(const fs::path&)>& visit) {
  constexpr int kDeepest = 32;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::follow_directory_symlink);
  for (; entry != fs::recursive_directory_iterator(); ++entry) {
    const fs::path& path = entry->path();
    if (entry->is_directory()) {
      if (hidden(path)) entry.disable_recursion_pending();
      if (entry.depth() > kDeepest)
        return Error{ErrorKind::data, path.string(), "is nested too deeply",
                     "a link that leads back to a folder above it?"};
    }
    if (hidden(path) || entry->is_directory()) continue;
    if ((ends_as(path, kRead) || ends_as(path, kNotRead)) && !visit(path)) break;
  }
  return {};
}

// Returns whether there are folders in `folder` with image files in or below them.
bool has_class_folders(const fs::path& folder) {
  bool found = false;
  for (const std::string& name : class_folders(folder))
    if (!found &&
        !for_each_image(folder / name, [&](const fs::path&) { return found = true, false; }))
      return false;
  return found;
}

// Makes the error of a set's folder without class folders. The user may have meant the folder's
// name as that of a class.
Error no_classes(const fs::path& set, std::string_view use) {
  const std::string name = set.filename();
  return {ErrorKind::data, set.string(), "has no folders, one per class",
          fmt::format("{0}/ is taken for the set of images to {1} on: put them into {0}/CLASS/; a "
                      "class that is called {0} goes into train/{0}/",
                      name, use)};
}

Status add_class(const fs::path& folder, int label, bool may_be_empty, ImageList& list) {
  OMNI_TRY(const std::vector<std::string> paths, images_below(folder, may_be_empty));
  for (const fs::path path : paths)
    list.paths.push_back(path.lexically_relative(list.folder).native());
  list.labels.resize(list.paths.size(), label);
  return {};
}

// Refuses files of kinds that cannot be read. Only files with an extension in kNotRead are opened;
// their contents decide. The error counts all of them.
Status refuse_other_kinds(std::initializer_list<const ImageList*> lists) {
  std::optional<Error> first;
  std::size_t more = 0;
  for (const ImageList* list : lists)
    for (std::size_t i = 0; i < list->paths.size(); ++i) {
      const fs::path path = list->folder / list->paths[i];
      if (!ends_as(path, kNotRead)) continue;
      Status kind = check_kind(path);
      if (kind) continue;
      if (first) ++more;
      if (!first) first = std::move(kind.error());
    }
  if (!first) return {};
  if (more > 0) first->hint += fmt::format("; {} more files are of kinds that are not read", more);
  return std::move(*first);
}

namespace fs = std::filesystem;

constexpr std::size_t kMostLines = 1000;

// These are Darknet's keys. `top` is how many of the likeliest classes count; it is ignored, since
// 1 and 5 are always reported.
constexpr std::array<std::string_view, 6> kKeys{"train", "valid",   "labels",
                                                "names", "classes", "top"};

struct Value {
  std::string text;
  std::size_t line = 0;
};

class DataKeys {
 public:
  static Result<DataKeys> read(const fs::path& file, bool with_test);

  const fs::path& path() const { return path_; }
  fs::path folder() const { return fs::absolute(path_).parent_path(); }
  bool has(std::string_view key) const { return values_.contains(key); }
  const Value& value(std::string_view key) const { return values_.find(key)->second; }
  Error complain(const Value& value, std::string what, std::string hint) const {
    return {ErrorKind::data, line_of(path_, value.line), std::move(what), std::move(hint)};
  }
  // Returns the file that a key names; it must exist.
  Result<fs::path> file(std::string_view key) const;
  Result<int> number(std::string_view key) const;

 private:
  fs::path path_;
  std::map<std::string, Value, std::less<>> values_;
};

Result<DataKeys> DataKeys::read(const fs::path& path, bool with_test) {
  DataKeys data;
  data.path_ = path;
  OMNI_CHECK(for_each_line(path, true, [&](std::string_view line, std::size_t i) -> Status {
    if (i >= kMostLines)
      return at_line(path, i, fmt::format("is beyond {} lines", kMostLines),
                     "is this the right file?");
    if (line.front() == '#' || line.front() == ';') return {};
    const std::size_t sign = line.find('=');
    const std::string key(trim(line.substr(0, sign)));
    Value value{.text = std::string(sign == line.npos ? "" : trim(line.substr(sign + 1))),
                .line = i};
    if (key.empty() || value.text.empty())
      return data.complain(value, "is not key = value", "train = data/train.list, say");
    const bool known = std::ranges::find(kKeys, key) != kKeys.end();
    if (!known || (key == "top" && value.text != "1" && value.text != "5"))
      log::warn("{}: {} = {} has no effect", line_of(path, i), shown_name(key),
                shown_name(value.text));
    if (!data.values_.emplace(key, value).second)
      return data.complain(value, fmt::format("{} is given twice", shown_name(key)),
                           "remove one of them");
    return {};
  }));
  for (const std::string_view key : {"train", "valid"})
    if (!data.has(key) && (with_test || key == "train"))
      return Error{
          ErrorKind::data, path.string(), fmt::format("has no {}=", key),
          fmt::format("add the list of images to {}", key == "train" ? "train on" : "test on")};
  if (!data.has("labels") && !data.has("names"))
    return Error{ErrorKind::data, path.string(), "has neither labels= nor names=",
                 "add the file with one label per line; the class of an image is the label that is "
                 "part of its path"};
  return data;
}

Result<fs::path> DataKeys::file(std::string_view key) const {
  const Value& named = value(key);
  OMNI_TRY(const fs::path below,
           find_folder_of(named.text, line_of(path_, named.line), std::array{folder()}));
  return below / named.text;
}

Result<int> DataKeys::number(std::string_view key) const {
  const Value& given = value(key);
  const int read = number_in<int>(given.text).value_or(0);
  if (read >= 1) return read;
  return complain(given, fmt::format("{} is no number from 1 on", shown_name(given.text)), "");
}

// Reads as many lines as there are classes. Darknet's lists of labels may have further lines for
// larger sets.
Result<std::vector<std::string>> read_names(const DataKeys& data, std::string_view key,
                                            std::optional<int> classes) {
  OMNI_TRY(const fs::path file, data.file(key));
  OMNI_TRY(std::vector<std::string> names, read_class_names(file, classes));
  if (classes && std::ssize(names) < *classes)
    return Error{ErrorKind::data, file.string(),
                 fmt::format("has {} lines, but there are {} classes", names.size(), *classes),
                 fmt::format("one line per class; see {}", data.path().string())};
  return names;
}

Status check_different(const fs::path& file, const std::vector<std::string>& labels) {
  std::map<std::string_view, std::size_t> seen;
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (const auto [first, is_new] = seen.emplace(labels[i], i); !is_new)
      return Error{
          ErrorKind::data, line_of(file, i),
          fmt::format("the label {} is on line {}, too", shown_name(labels[i]), first->second + 1),
          "labels must differ"};
  return {};
}

const DataFormatRegistration image_folder(
    {.order = 22,
     .name = "image files",
     .form = "a folder with images (train/CLASS/*.jpg, val/CLASS/*.jpg; or CLASS/*.jpg with "
             "--hold-out 0.1)",
     .is = [](const DatasetRequest& request) { return is_image_folder(request.source); },
     .open =
         [](const DatasetRequest& request) {
           return open_image_folder(request.source, request.test, request.for_check);
         }});

const DataFormatRegistration darknet_data({.order = 30,
                                           .name = ".data",
                                           .form = "a Darknet .data file",
                                           .is =
                                               [](const DatasetRequest& request) {
                                                 const fs::path file = request.source;
                                                 return file.extension() == ".data" &&
                                                        fs::exists(file) && !fs::is_directory(file);
                                               },
                                           .open =
                                               [](const DatasetRequest& request) {
                                                 return open_darknet_data(request.source,
                                                                          request.test);
                                               }});

}  // namespace

Result<std::vector<std::string>> images_below(const fs::path& folder, bool may_be_empty) {
  std::vector<std::string> paths;
  OMNI_CHECK(for_each_image(folder, [&](const fs::path& path) {
    paths.push_back(path.string());
    return true;
  }));
  if (paths.empty() && !may_be_empty)
    return Error{ErrorKind::data, folder.string(), "holds no image",
                 fmt::format("put {} files there, or leave the folder out", kImageFiles)};
  std::ranges::sort(paths);
  return paths;
}

bool is_image_folder(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder, ignored) &&
         (fs::is_directory(folder / "train", ignored) || has_class_folders(folder));
}

bool holds_image_files(const fs::path& folder) {
  return std::ranges::any_of(fs::directory_iterator(folder), [](const fs::directory_entry& entry) {
    const fs::path& path = entry.path();
    return !hidden(path) && !entry.is_directory() &&
           (ends_as(path, kRead) || ends_as(path, kNotRead));
  });
}

Result<DatasetPair> open_image_folder(const fs::path& root, bool with_test, bool for_check) {
  const bool apart = fs::is_directory(root / "train");
  const fs::path train_folder = apart ? root / "train" : root;
  const auto test_name = std::ranges::find_if(
      kTestFolders, [&](std::string_view name) { return fs::is_directory(root / name); });
  const bool has_test = test_name != kTestFolders.end();
  std::vector<std::string> classes = class_folders(train_folder);
  if (!apart)
    for (const std::string& name : classes)
      if (std::ranges::find(kSets, lower_case(name)) != kSets.end())
        return Error{ErrorKind::data, root.string(),
                     fmt::format("has {}/, but no train/", one_line(name)),
                     "put the class folders with the images to train on into train/"};
  if (with_test && !apart)
    return Error{ErrorKind::usage, root.string(), "has class folders, but neither train/ nor val/",
                 "put them under train/, some of their images under val/; or give --hold-out 0.1, "
                 "which tests on a tenth of them"};
  if (classes.empty()) return no_classes(train_folder, "train");
  if (with_test && !has_test)
    return Error{ErrorKind::data, root.string(), "has train/, but no images to test on",
                 "put some into val/CLASS/ (or valid/, test/), or give --hold-out 0.1"};

  const fs::path test_folder = with_test ? root / *test_name : fs::path();
  const std::vector<std::string> tested =
      with_test ? class_folders(test_folder) : std::vector<std::string>();
  for (const std::string& name : tested) {
    const auto place = std::ranges::lower_bound(classes, name);
    if (place != classes.end() && *place == name) continue;
    if (!for_check)
      return Error{ErrorKind::data, (test_folder / name).string(),
                   fmt::format("there is no class {} in train/", shown_name(name)),
                   "the folders in train/ are the classes"};
    classes.insert(place, name);
  }

  ImageList train{.folder = root}, test{.folder = root};
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const auto label = static_cast<int>(i);
    if (!for_check || fs::is_directory(train_folder / classes[i]))
      OMNI_CHECK(add_class(train_folder / classes[i], label, for_check, train));
    if (std::ranges::binary_search(tested, classes[i]))
      OMNI_CHECK(add_class(test_folder / classes[i], label, true, test));
  }
  if (with_test && tested.empty()) return no_classes(test_folder, "test");
  const bool nothing_to_train = train.paths.size() == 0;
  if (nothing_to_train || (with_test && test.paths.size() == 0))
    return Error{ErrorKind::data, (nothing_to_train ? train_folder : test_folder).string(),
                 "holds no image", "put some into its folders, one per class"};
  if (!for_check) OMNI_CHECK(refuse_other_kinds({&train, &test}));
  return make_file_datasets(std::move(train), std::move(test), static_cast<int>(classes.size()),
                            classes, root);
}

Result<DatasetPair> open_darknet_data(const fs::path& file, bool with_test) {
  OMNI_TRY(const DataKeys data, DataKeys::read(file, with_test));
  std::optional<int> classes;
  if (data.has("classes")) {
    OMNI_TRY(classes, data.number("classes"));
  }
  const std::string_view key = data.has("labels") ? "labels" : "names";
  OMNI_TRY(const std::vector<std::string> labels, read_names(data, key, classes));
  OMNI_TRY(const fs::path labels_file, data.file(key));
  OMNI_CHECK(check_different(labels_file, labels));
  classes = static_cast<int>(labels.size());
  std::vector<std::string> shown = labels;
  if (data.has("names")) {
    OMNI_TRY(shown, read_names(data, "names", classes));
  }

  const LabelFinder finder(labels);
  OMNI_TRY(const fs::path train_file, data.file("train"));
  OMNI_TRY(ImageList train, read_path_list(train_file, finder, data.folder()));
  ImageList test;
  if (with_test) {
    OMNI_TRY(const fs::path test_file, data.file("valid"));
    OMNI_TRY(test, read_path_list(test_file, finder, data.folder()));
  }
  return make_file_datasets(std::move(train), std::move(test), *classes, shown, file);
}

}  // namespace omni
