// A ModelFolder is a session's own copy of the performance models. StarPU reads and writes only
// this copy, so it never reads a damaged file. A killed run or a full disk leaves the shared files
// whole.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/files.hpp"
#include "runtime/result.hpp"

namespace omni {

class ModelFolder {
 public:
  // Copies the models from `shared`, and those that it lacks from StarPU's search path. Damaged
  // files in `shared` are moved to its folder "damaged", and those elsewhere are skipped. A warning
  // per folder names them. Files that cannot be read are skipped, too.
  static Result<std::shared_ptr<ModelFolder>> open(const std::filesystem::path& shared);
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;
  ~ModelFolder();

  const std::filesystem::path& path() const { return path_; }
  // Call prepare_last_write() before StarPU writes its models at shutdown. It frees the space that
  // was reserved for them, and recreates folders that a cleaner of temporary files has removed.
  // StarPU ends the process if it cannot write.
  void prepare_last_write() const;
  // Call publish() after StarPU has written. Each changed file replaces the shared one as a whole,
  // so of two runs the last one counts. A failure causes a warning.
  void publish() const;

 private:
  ModelFolder(std::filesystem::path shared, std::filesystem::path path, int lock)
      : shared_(std::move(shared)), path_(std::move(path)), lock_(lock) {}
  bool copy_from(const std::filesystem::path& folder);

  std::filesystem::path shared_, path_;
  Descriptor lock_;                                         // on path_, while it is in use
  std::map<std::filesystem::path, std::string> checksums_;  // of copied files, by relative path
};

// The following functions check files, because StarPU ends the process if it cannot parse a file,
// or if a number is impossible.

// Checks a model of one of our codelets, which are STARPU_HISTORY_BASED. `version` is the name of
// the folder in which StarPU looks.
bool is_sound_codelet_model(std::string_view text, std::string_view version);

// Checks a file of measured bandwidths or latencies. `kind` is the end of the file's name; `config`
// is the text of the host's ".config", which counts the memories.
bool is_sound_bus_file(std::string_view kind, std::string_view text, std::string_view config);

}  // namespace omni
