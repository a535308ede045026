#include "runtime/data/images/image_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "runtime/data/images/file_dataset.hpp"
#include "runtime/data/images/image_file.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

// The first that is there; ImageNet's `test` has no classes, hence last.
constexpr std::array<std::string_view, 3> kTestFolders{"val", "valid", "test"};
constexpr std::array<std::string_view, 5> kRead{".jpg", ".jpeg", ".jpe", ".ppm", ".pgm"};
// Left out in silence they would be missed; anything else beside the images is not one.
constexpr std::array<std::string_view, 7> kNotRead{".png", ".bmp",  ".gif", ".webp",
                                                   ".tif", ".tiff", ".heic"};

bool hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

template <std::size_t N>
bool ends_as(const fs::path& path, const std::array<std::string_view, N>& extensions) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::find(extensions, extension) != extensions.end();
}

std::vector<std::string> class_folders(const fs::path& split) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(split))
    if (entry.is_directory() && !hidden(entry.path())) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

Status add_class(const fs::path& split, const std::string& name, int label, ImageList& list) {
  OMNI_TRY(const std::vector<std::string> paths, images_below(split / name));
  for (const fs::path path : paths) {
    if (ends_as(path, kNotRead))
      return Error{ErrorKind::data, path.string(),
                   fmt::format("is an image, but not {}", kImageFiles),
                   "convert it, or take it out of the folder"};
    list.paths.push_back(path.lexically_relative(list.folder).native());
  }
  list.labels.resize(list.paths.size(), label);
  return {};
}

}  // namespace

// Some sets have a folder more below each class.
Result<std::vector<std::string>> images_below(const fs::path& folder) {
  constexpr int kDeepest = 32;
  std::vector<std::string> paths;
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
    if (ends_as(path, kRead) || ends_as(path, kNotRead)) paths.push_back(path.string());
  }
  if (paths.empty())
    return Error{ErrorKind::data, folder.string(), "holds no image",
                 fmt::format("put {} files there, or leave the folder out", kImageFiles)};
  std::ranges::sort(paths);
  return paths;
}

bool is_image_folder(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder / "train", ignored);
}

Result<DatasetPair> open_image_folder(const fs::path& root, bool with_test) {
  const fs::path train_folder = root / "train";
  const auto test_name = std::ranges::find_if(
      kTestFolders, [&](std::string_view name) { return fs::is_directory(root / name); });
  if (with_test && test_name == kTestFolders.end())
    return Error{ErrorKind::data, root.string(), "has train/, but no images to test on",
                 "put some into val/CLASS/ (or valid/, test/)"};

  const std::vector<std::string> classes = class_folders(train_folder);
  if (classes.empty())
    return Error{ErrorKind::data, train_folder.string(), "has no folders, one per class", ""};
  ImageList train{.folder = root}, test{.folder = root};
  for (std::size_t i = 0; i < classes.size(); ++i)
    OMNI_CHECK(add_class(train_folder, classes[i], static_cast<int>(i), train));
  if (!with_test)
    return make_file_datasets(std::move(train), {}, static_cast<int>(classes.size()), classes,
                              root);
  const fs::path test_folder = root / *test_name;
  for (const std::string& name : class_folders(test_folder)) {
    const auto place = std::ranges::lower_bound(classes, name);
    if (place == classes.end() || *place != name)
      return Error{ErrorKind::data, (test_folder / name).string(),
                   fmt::format("there is no class {} in train/", shown_name(name)),
                   "the folders in train/ are the classes"};
    OMNI_CHECK(add_class(test_folder, name, static_cast<int>(place - classes.begin()), test));
  }
  if (test.paths.size() == 0)
    return Error{ErrorKind::data, test_folder.string(), "has no folders, one per class", ""};
  return make_file_datasets(std::move(train), std::move(test), static_cast<int>(classes.size()),
                            classes, root);
}

}  // namespace omni
