// A session's own copy of the performance models. StarPU reads and writes this one alone, so that
// it never meets a damaged file, and a run that is killed or finds the disk full leaves whole what
// others share.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "runtime/result.hpp"

namespace omni {

class ModelFolder {
 public:
  // Copies what StarPU would read: from `shared`, else from where it looks besides. Damaged files
  // in `shared` are moved into "damaged" there, others passed over, with one warning. Files that
  // cannot be read are left alone.
  static Result<std::shared_ptr<ModelFolder>> open(const std::filesystem::path& shared);
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;
  ~ModelFolder();

  const std::filesystem::path& path() const { return path_; }
  // Before StarPU writes its last: it ends the process where it cannot. Makes again what a cleaner
  // of temporary files has removed.
  void prepare_last_write() const;
  // When StarPU has written: what has changed replaces what is shared, one whole file at a time. Of
  // two runs the last one wins. Warns where that cannot be done.
  void publish() const;

 private:
  ModelFolder(std::filesystem::path shared, std::filesystem::path path, int lock)
      : shared_(std::move(shared)), path_(std::move(path)), lock_(lock) {}
  bool copy_from(const std::filesystem::path& folder);

  std::filesystem::path shared_, path_;
  int lock_;                                                // held for as long as path_ is in use
  std::map<std::filesystem::path, std::string> checksums_;  // of the copied, by name in the folder
};

}  // namespace omni
